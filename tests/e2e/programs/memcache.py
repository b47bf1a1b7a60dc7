"""Talks memcached's text protocol and prints what came back: `memcache.py PORT`."""
import hashlib
import socket
import sys

sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
stream = sock.makefile("rwb")


def ask(command, data=None):
    stream.write(command.encode() + b"\r\n")
    if data is not None:
        stream.write(data + b"\r\n")
    stream.flush()
    return stream.readline().strip().decode()


for n in range(40):
    value = bytes((i * 31 + n) % 256 for i in range(n * 700))
    print(n, ask(f"set key{n} {n} 0 {len(value)}", value))
for n in range(40):
    head = ask(f"get key{n}")
    size = int(head.split()[3])
    value = stream.read(size + 2)[:-2]
    print(head, hashlib.sha256(value).hexdigest()[:16], stream.readline().strip().decode())
print(ask("get missing"), ask("set counter 0 0 1", b"5"), ask("incr counter 37"), ask("delete key1"), ask("nonsense"))
for n in range(2000):
    assert ask("incr counter 1") == str(43 + n)
print(ask("incr counter 0"))
print(ask("quit") == "")
