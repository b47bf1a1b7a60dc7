"""Ends of connections that stay on TCP, each for a reason of its own: `refused.py server PORT [how]`, `refused.py client PORT [how]`.
And what others do to a program before it starts: `refused.py unasked PROGRAM...`, `refused.py hidden UID PROGRAM...`."""
import array
import ctypes
import os
import resource
import select
import socket
import struct
import sys
import time

role = sys.argv[1]
port = int(sys.argv[2]) if role in ("server", "client") else 0
how = sys.argv[3] if len(sys.argv) > 3 else ""
host = os.environ.get("HOST", "127.0.0.1")
TCP_FASTOPEN_CONNECT = 30
TCP_ULP = 31
TCP_MD5SIG = 14
TCP_REPAIR = 19
SO_TIMESTAMP = 29
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
MSG_FASTOPEN = 0x20000000
SO_ZEROCOPY = 60


CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x44000


def filtered(*instructions):
    """Installs a filter of system calls: code, jump if so, jump if not, operand of each instruction."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
    fprog = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(instructions), ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_SECCOMP, 2, fprog)


def unasked(command):
    """Becomes a program that may have no netlink socket, as sandboxes do it."""
    load, is_equal, give = 0x20, 0x15, 0x06
    socket_call = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
    filtered((load, 0, 0, 0), (is_equal, 0, 3, socket_call), (load, 0, 0, 16), (is_equal, 0, 1, socket.AF_NETLINK),
             (give, 0, 0, 0x50001), (give, 0, 0, 0x7FFF0000))
    os.execv(command[0], command)


def hidden(uid, command):
    """Becomes a user's program that sees in /proc what it might trace, and nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    assert libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) == 0, os.strerror(ctypes.get_errno())
    assert libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=2") == 0, os.strerror(ctypes.get_errno())
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    os.execv(command[0], command)


def leave_memory(more):
    """From here on the process may map so many more bytes."""
    taken = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize:"))
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, resource.RLIM_INFINITY))


def leave_descriptors(highest, count):
    """From here on the process may open `count` more."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + count, highest + 1 + count))


def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if how == "deferred":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
    listener.bind((host, port))
    listener.listen()
    if how == "deferred-late":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
    return listener


def pass_to_child(conn):
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _, parts, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
        received = socket.socket(fileno=array.array("i", parts[0][2])[0])
        received.recv(1)
        time.sleep(60)
        os._exit(0)
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [conn.fileno()]))])
    conn.close()


def serve_in_child(conn):
    """What the parent keeps open to ask the kernel with is not the child's, which cannot open its own."""
    if os.fork() == 0:
        leave_descriptors(conn.fileno(), 0)
        conn.recv(1)
        time.sleep(60)
        os._exit(0)
    conn.close()


def fill_rows():
    """As many listeners as the table has rows for one port, at ports that share them; those that somebody else has are passed over."""
    others = []
    for other in range(1024 + port % 128, 65536, 128):
        try:
            if other != port:
                others.append(socket.create_server((host, other)))
        except OSError:
            continue
        if len(others) == 128:
            break
    return others


def confine():
    """By a filter that allows everything, which nobody but the kernel knows."""
    filtered((6, 0, 0, 0x7FFF0000))


def crowd():
    """Forty listeners at the port, as processes of a server have that all want their share."""
    all = []
    for _ in range(40):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen()
        all.append(listener)
    ready = select.poll()
    for listener in all:
        ready.register(listener, select.POLLIN)
    held = []
    while True:
        for fd, _ in ready.poll():
            conn, _ = next(one for one in all if one.fileno() == fd).accept()
            conn.recv(1)
            held.append(conn)


def serve():
    others = []
    if how == "many":
        others = fill_rows()
    if how == "crowd":
        crowd()
    listener = socket.socket(fileno=int(how[10:])) if how.startswith("inherited=") else listen(port)
    if how == "inherits":
        os.set_inheritable(listener.fileno(), True)
        os.execv(sys.argv[4], [*sys.argv[4:], sys.executable, sys.argv[0], "server", str(port), f"inherited={listener.fileno()}"])
    if how == "changes":
        os.setuid(65534)
    if how == "confined":
        confine()
    held = []
    while how != "busy":
        try:
            conn, _ = listener.accept()
        except OSError:
            break
        if how == "few":
            leave_descriptors(conn.fileno(), 0)
        if how == "few-child":
            serve_in_child(conn)
            continue
        if how == "passes":
            pass_to_child(conn)
            continue
        if how == "slow":
            time.sleep(1)
        conn.recv(1)
        held.append(conn)
    time.sleep(60)


def connect():
    conn = socket.socket()
    if how == "fast-open":
        conn.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    if how == "device":
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, os.environ.get("DEVICE", "lo").encode() + b"\0")
    if how == "deferred":
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
    if how == "stamped":
        conn.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
    if how == "signed":
        # For another peer: connections to this one carry no signature.
        address = struct.pack("=HH4s120x", socket.AF_INET, 0, socket.inet_aton("198.18.9.9"))
        conn.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, address + struct.pack("=xxHi80s", 3, 0, b"key"))
    if how == "repaired":
        # (-1 ends it without a probe of the peer.)
        conn.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        conn.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, -1)
    if how == "undumpable":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if how == "between":
        os.seteuid(65534)
    if how == "changes":
        os.setuid(65534)
    if how == "confined":
        confine()
    if how == "zero-copy":
        conn.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    if how == "few":
        # Of what exceeds 128 numbers a quarter may be the library's: enough for the registry, and for no memory.
        leave_descriptors(127, 8)
    if how == "none":
        leave_descriptors(conn.fileno(), 0)
    if how == "narrow":
        leave_memory(1 << 20)
    if how == "sends":
        conn.sendto(b"x", MSG_FASTOPEN, (host, port))
        return conn
    if how == "asks":
        # As ab does: connect() once more, to learn what became of it.
        conn.setblocking(False)
        conn.connect_ex((host, port))
        time.sleep(0.2)
        conn.connect_ex((host, port))
        conn.setblocking(True)
    elif how == "datagrams":
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.connect((host, port))
        return datagrams
    else:
        conn.connect((host, port))
    if how == "retracts":
        # For kTLS, which the kernel may well not have.
        try:
            conn.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError:
            pass
    conn.sendall(b"x")
    if how == "ends":
        conn.shutdown(socket.SHUT_WR)
    return conn


if role == "unasked":
    unasked(sys.argv[2:])
elif role == "hidden":
    hidden(int(sys.argv[2]), sys.argv[3:])
elif role == "server":
    serve()
else:
    for _ in range(400 if how == "brief" else 0):
        connect().close()
    conn = connect()
    print("connected", flush=True)
    # Whoever does nothing learns nothing: what became of an offer is seen when the socket is used.
    for _ in range(600):
        time.sleep(0.1)
        if how == "still":
            continue
        try:
            conn.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
