"""Who asks for what is not his, or is nothing: ADDRESS PORT OWNER USER.

This process has no library, and knows the daemon's protocol. It asks for the marks of sockets that are no listeners, of
a listener that nobody marked, and of OWNER's at PORT, while that runs and serves: before it has a table itself, and with
one, as USER. Says what it was told."""
import array, ctypes, mmap, os, socket, struct, sys

OWNER, USER = int(sys.argv[3]), int(sys.argv[4])
HELLO, REGISTER, ADOPT = 1, 8, 12
KINDS = {128: "refused", 129: "welcome", 130: "done", 131: "passed"}

def ask(line, kind, body, passed=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else []
    line.sendmsg([struct.pack("!BBHI", 1, kind, 0, 7) + body], rights)
    packet, parts, _, _ = line.recvmsg(80, socket.CMSG_SPACE(4))
    fds = array.array("i")
    for _, kind, data in parts:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(data[:4])
    word = KINDS.get(packet[1], packet[1]) if packet else "end"
    return (word + ":%x" % struct.unpack_from("!I", packet, 8)[0] if word == "refused" else word), list(fds)

def adopt(line, fd):
    return ask(line, ADOPT, b"", [fd])[0]

def listener_of(owner):
    """The first descriptor of another process that is a TCP socket which listens."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(owner)
    for fd in sorted(map(int, os.listdir("/proc/%d/fd" % owner))):
        copy = libc.syscall(438, process, fd, 0)
        try:
            taken = socket.socket(fileno=copy)
            if taken.family == socket.AF_INET and taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return taken
        except OSError:
            pass
    raise SystemExit("there is no listener")

theirs = listener_of(OWNER)
# (Before it has the user: it may not open the socket's folder.)
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.settimeout(20)
if USER:
    os.setresuid(USER, USER, USER)
line.connect(os.environ["SMC_ISMD"])
assert ask(line, HELLO, struct.pack("!HH", 0, 0))[0] == "welcome"
print("without a table:", adopt(line, theirs.fileno()), flush=True)
_, fds = ask(line, REGISTER, struct.pack("!II", 0, 0))
proof, = struct.unpack_from("Q", mmap.mmap(fds[0], 65536), 56)
print("unproven:", adopt(line, theirs.fileno()), flush=True)
assert ask(line, REGISTER, struct.pack("!II", 1, proof))[0] == "done"
own = socket.socket()
own.bind(("127.0.0.1", 0))
words = [adopt(line, own.fileno())]
own.listen()
words.append(adopt(line, own.fileno()))
with socket.create_connection(own.getsockname()) as end, socket.socket(socket.AF_UNIX) as local:
    local.bind("")
    local.listen()
    words += [adopt(line, fd) for fd in (end.fileno(), local.fileno(), os.pipe()[0], line.fileno(), 1)]
print("nothing:", *words, flush=True)
words = {adopt(line, theirs.fileno()) for _ in range(2000)}
print("another's:", *words, flush=True)
