"""A question to the daemon that is answered when another program runs under the process's number: ADDRESS PORT DAEMON.

This process knows the daemon's protocol, and has no library. It says hello, stops the daemon, asks for a table of marks,
leaves a child with the connection, becomes the next program, which connects, and lets the daemon go on. The child gets
the table, and the proof in it; it answers with a wrong proof, with the right one, and marks sockets of the next program.
Before that, the honest way: a wrong proof is refused, and brings no table; the right one holds; a question too many is
the end. Says what it was told."""
import array, mmap, os, signal, socket, struct, sys, time

SERVER, DAEMON = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
ENTRY, ENTRIES, ASKED = 64, 1024, 1
HELLO, REGISTER = 1, 8
KINDS = {128: "refused", 129: "welcome", 130: "done", 131: "passed"}

def ask(line, kind, body):
    line.send(struct.pack("!BBHI", 1, kind, 0, 7) + body)

def told(line):
    """What the daemon says, and what it passes."""
    packet, parts, _, _ = line.recvmsg(80, socket.CMSG_SPACE(4))
    fds = array.array("i")
    for _, kind, data in parts:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(data[:4])
    return (KINDS.get(packet[1], packet[1]) if packet else "end"), list(fds)

def register(line, has_table, proof):
    ask(line, REGISTER, struct.pack("!II", has_table, proof))

def said(line, has_table, proof):
    register(line, has_table, proof)
    word, fds = told(line)
    return word + "".join(" with a descriptor" for _ in fds)

def dialled():
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(20)
    line.connect(os.environ["SMC_ISMD"])
    ask(line, HELLO, struct.pack("!HH", 0, 0))
    assert told(line)[0] == "welcome"
    return line

def table_of(fds):
    table = mmap.mmap(fds[0], ENTRY * ENTRIES)
    return table, struct.unpack_from("Q", table, ENTRY - 8)[0]

def honest():
    line = dialled()
    register(line, 0, 0)
    word, fds = told(line)
    _, proof = table_of(fds)
    print("honest:", word, said(line, 1, proof ^ 1), said(line, 1, proof ^ 2), said(line, 1, proof), said(line, 1, 0), flush=True)

def cookie_of(end):
    return struct.unpack("Q", end.getsockopt(socket.SOL_SOCKET, 57, 8))[0]

def child(line):
    os.kill(DAEMON, signal.SIGCONT)
    word, fds = told(line)
    if not fds:
        print("stale:", word, "believed 0", flush=True)
        return
    table, proof = table_of(fds)
    words = []
    for with_proof in (proof ^ 1, proof):
        try:
            words.append(said(line, 1, with_proof))
        except OSError:
            words.append("end")
    asked, believed, end = set(), set(), time.time() + 3
    while time.time() < end and not believed:
        with socket.socket() as probe:
            now = cookie_of(probe)
        for cookie in range(now + 1, now + 200):
            at = ENTRY * (cookie % ENTRIES)
            if struct.unpack_from("Q", table, at)[0] != cookie:
                struct.pack_into("6Q", table, at, cookie, ASKED, cookie, 1, 2, 3)
                asked.add(cookie)
        for at in range(ENTRIES):
            cookie, state = struct.unpack_from("2Q", table, ENTRY * at)
            if cookie in asked and state & 0xffffffff != ASKED:
                believed.add(cookie)
        time.sleep(0.05)
    print("stale:", word, *words, "asked", len(asked) > 0, "believed", len(believed), flush=True)

if len(sys.argv) > 4:
    # The next program.
    for _ in range(10):
        with socket.create_connection(SERVER, 10) as end:
            message = "stale".ljust(32, ".").encode()
            end.sendall(struct.pack("!I", len(message)) + message)
            end.recv(64, socket.MSG_WAITALL)
            time.sleep(0.2)
    print("spoke", flush=True)
    sys.exit()
# (Cookies are handed out in runs per core.)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
if os.fork() == 0:
    honest()
    os._exit(0)
os.wait()
line = dialled()
os.kill(DAEMON, signal.SIGSTOP)
register(line, 0, 0)
if os.fork() == 0:
    time.sleep(0.2)
    child(line)
    os._exit(0)
os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), *sys.argv[1:4], "next"])
