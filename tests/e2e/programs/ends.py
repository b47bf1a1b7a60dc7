"""Two ends of connections, and what TCP saw of their bytes: ROLE ADDRESS PORT COUNT NAME.

Each message says who is meant, and is answered with who got it and a hash of all of it. Roles: a server that
serves COUNT connections, in turn or (forking) in children, with a client that makes them; and a server (answering)
that serves COUNT connections at a time, with a client (talking) that goes on talking on all of them. That one says
`talks` when each has been answered, stops when there is a file of the name in its sixth argument, and says what is
in shared memory then. A client (coming) that makes one connection after the other until there is such a file, and
says of each how it went, for a server (serving) that goes on until the one that says that it is the last."""
import hashlib, os, socket, struct, sys, threading, time

def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET

# Where struct tcp_info has tcpi_bytes_acked and tcpi_bytes_received.
ACKED, RECEIVED = 120, 128

def by_memory(end, counter):
    """Whether the server's bytes went past TCP. (A client's may begin on TCP.)"""
    return struct.unpack_from("Q", end.getsockopt(socket.IPPROTO_TCP, 11, 192), counter)[0] <= 1

def take(end, length):
    parts = []
    while length:
        part = end.recv(min(length, 65536))
        if not part:
            raise EOFError("the stream ended early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)

def serve(end, name, counts):
    length, = struct.unpack("!I", take(end, 4))
    said = take(end, length)
    meant = said[:32].rstrip(b".").decode()
    end.sendall(name.ljust(32, ".").encode() + hashlib.sha256(said).digest())
    took = end.recv(1) == b""
    counts[0 if by_memory(end, ACKED) else 1] += 1
    counts[2] += meant not in (name, "last") or not took
    end.close()
    return meant

def listening(address, port):
    listener = socket.socket(family(address))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(128)
    print("listens", flush=True)
    return listener

def server(address, port, count, name):
    listener = listening(address, port)
    counts = [0, 0, 0]
    if role == "forking":
        # A child for each connection, which serves what its parent has accepted.
        for _ in range(count):
            end = listener.accept()[0]
            child = os.fork()
            if child == 0:
                own = [0, 0, 0]
                serve(end, name, own)
                os._exit(own[0] + 2 * own[1] + 4 * own[2])
            end.close()
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            counts = [so_far + (code >> at & 1) for at, so_far in enumerate(counts)]
        count = 0
    for _ in range(count):
        serve(listener.accept()[0], name, counts)
    print("memory %d tcp %d wrong %d" % tuple(counts), flush=True)

def serving(address, port, count, name):
    listener = listening(address, port)
    counts = [0, 0, 0]
    while serve(listener.accept()[0], name, counts) != "last":
        pass
    print("memory %d tcp %d wrong %d" % tuple(counts), flush=True)

def connect(address, port, meant, name, turn, counts):
    end = socket.socket(family(address))
    end.settimeout(60)
    end.connect((address, port))
    length = 32 + (turn * 7919) % (200000 if turn % 8 == 0 else 2000)
    said = meant.ljust(32, ".").encode() + bytes((turn + at) % 251 for at in range(length - 32))
    end.sendall(struct.pack("!I", length) + said)
    heard = take(end, 64)
    counts[2] += heard[:32].rstrip(b".").decode() != name or heard[32:] != hashlib.sha256(said).digest()
    way = 0 if by_memory(end, RECEIVED) else 1
    counts[way] += 1
    end.close()
    return way

def client(address, port, count, name):
    counts = [0, 0, 0]
    for turn in range(count):
        connect(address, port, name, name, turn, counts)
    print("memory %d tcp %d wrong %d" % tuple(counts), flush=True)

def coming(address, port, count, name):
    counts = [0, 0, 0]
    while not os.path.exists(sys.argv[6]):
        way = connect(address, port, name, name, sum(counts), counts)
        print(("by memory", "by tcp")[way], flush=True)
    connect(address, port, "last", name, 0, counts)
    print("memory %d tcp %d wrong %d" % tuple(counts), flush=True)

def answering(address, port, count, name):
    listener = listening(address, port)
    counts = [0, 0, 0]
    def answer(end):
        while True:
            head = end.recv(4, socket.MSG_WAITALL)
            if not head:
                break
            said = take(end, struct.unpack("!I", head)[0])
            counts[2] += said[:32].rstrip(b".").decode() != name
            end.sendall(name.ljust(32, ".").encode() + hashlib.sha256(said).digest())
        counts[0 if by_memory(end, ACKED) else 1] += 1
        end.close()
    threads = [threading.Thread(target=answer, args=(listener.accept()[0],)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("memory %d tcp %d wrong %d" % tuple(counts), flush=True)

def talking(address, port, count, name):
    counts = [0, 0, 0]
    turn = 0
    ends = [socket.socket(family(address)) for _ in range(count)]
    for end in ends:
        end.settimeout(60)
        end.connect((address, port))
    while not os.path.exists(sys.argv[6]):
        for end in ends:
            turn += 1
            length = 32 + (turn * 7919) % (200000 if turn % 8 == 0 else 2000)
            said = name.ljust(32, ".").encode() + bytes((turn + at) % 251 for at in range(length - 32))
            end.sendall(struct.pack("!I", length) + said)
            heard = take(end, 64)
            counts[2] += heard[:32].rstrip(b".").decode() != name or heard[32:] != hashlib.sha256(said).digest()
        if turn == count:
            print("talks", flush=True)
    for end in ends:
        counts[0 if by_memory(end, RECEIVED) else 1] += 1
        end.close()
    print("memory %d tcp %d wrong %d" % tuple(counts), flush=True)

def lying(address, port, count, name):
    """Connects, and when there is the file, undoes what was written into its memory, and connects again."""
    client(address, port, count, name)
    while not os.path.exists(sys.argv[6]):
        time.sleep(0.01)
    undone = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + fd).startswith("/memfd:isthmus-dmb"):
                with open("/proc/self/fd/" + fd, "r+b", 0) as memory:
                    memory.seek(20)
                    undone += memory.read(4) == b"\1\0\0\0"
                    memory.seek(20)
                    memory.write(bytes(4))
        except OSError:
            pass
    print("undone", undone, flush=True)
    client(address, port, count, name)

role, address, port, count, name = sys.argv[1:6]
roles = {"server": server, "forking": server, "client": client, "answering": answering, "talking": talking,
         "lying": lying, "serving": serving, "coming": coming}
roles[role](address, int(port), int(count), name)
