"""A process with live connections starts children in every way Python knows, and the connections go on working.

`children.py PORT` needs an echo server on PORT.
"""
import hashlib
import multiprocessing
import os
import socket
import subprocess
import sys

port = int(sys.argv[1])
connections = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3)]


def exchange(sock, size=50000):
    data = os.urandom(size)
    half = size // 2
    back = b""
    for part in (data[:half], data[half:]):
        sock.sendall(part)
        want = len(back) + len(part)
        while len(back) < want:
            piece = sock.recv(65536)
            if not piece:
                return "EOF"
            back += piece
    return "same" if back == data else "DIFFERENT"


def all_good(what):
    print(what, [exchange(c) for c in connections])


def in_child(numbers):
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    result = exchange(sock)
    return result, hashlib.sha256(bytes(numbers)).hexdigest()[:8]


if __name__ == "__main__":
    all_good("before")
    for close_fds in (True, False):
        out = subprocess.run(["/bin/echo", "hello"], capture_output=True, close_fds=close_fds, check=True)
        all_good(f"subprocess close_fds={close_fds} {out.stdout!r}")
    out = subprocess.run("cat; echo done", shell=True, input=b"through a pipe\n", capture_output=True, check=True)
    all_good(f"shell {out.stdout!r}")
    out = subprocess.run(["/bin/echo", "pre"], capture_output=True, preexec_fn=lambda: None, check=True)
    all_good(f"preexec_fn {out.stdout!r}")
    print(os.system("true"), os.popen("echo popen").read())
    all_good("os.system")
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.map(in_child, [[1, 2], [3, 4], [5, 6], [7, 8]]))
        all_good(method)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if exchange(connections[0]) == "same" else 1)
    print("forked child", os.waitpid(pid, 0)[1])
    all_good("after fork")
