"""A listener whose connections a program without the library accepts, and clients of every way to wait.

borrowed_listener.py server PORT     listens, and leaves accepting to a child without LD_PRELOAD
borrowed_listener.py child FD        that child: a greeting first on every other connection, then an echo
borrowed_listener.py client PORT     prints what each way of waiting got
"""

import ctypes
import os
import select
import socket
import subprocess
import sys

LIMIT = 20.0
PR_SET_PDEATHSIG = 1
SIGKILL = 9


def server(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(16)
    os.set_inheritable(listener.fileno(), True)
    bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [sys.executable, __file__, "child", str(listener.fileno())]
    sys.exit(subprocess.run(command, env=bare, close_fds=False).returncode)


def child(fd):
    # It goes with its parent, whom the test ends.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    listener = socket.socket(fileno=fd)
    greets = False
    while True:
        connection, _ = listener.accept()
        if greets:
            connection.sendall(b"hello ")
        greets = not greets
        while data := connection.recv(1000):
            connection.sendall(data)
        connection.close()


def by_recv(connection, wanted):
    got = b""
    while len(got) < wanted and (data := connection.recv(100)):
        got += data
    return got


def waiting(wait):
    def read(connection, wanted):
        connection.setblocking(False)
        got = b""
        while len(got) < wanted:
            wait(connection)
            try:
                data = connection.recv(100)
            except BlockingIOError:
                continue
            if not data:
                break
            got += data
        return got

    return read


def by_epoll(timeout):
    def wait(connection):
        with select.epoll() as poller:
            poller.register(connection, select.EPOLLIN)
            while not poller.poll(timeout):
                pass

    return wait


def by_poll(connection):
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    poller.poll(LIMIT * 1000)


def client(port):
    ways = {
        "recv": by_recv,
        "poll": waiting(by_poll),
        "select": waiting(lambda connection: select.select([connection], [], [], LIMIT)),
        "epoll": waiting(by_epoll(LIMIT)),
        "epoll, briefly": waiting(by_epoll(0.005)),
    }
    for name, read in ways.items():
        for greeting in (b"", b"hello "):
            connection = socket.create_connection(("127.0.0.1", port), LIMIT)
            connection.settimeout(LIMIT)
            connection.sendall(b"request")
            expected = greeting + b"request"
            got = read(connection, len(expected))
            print(name, got.decode(), "as expected" if got == expected else "NOT AS EXPECTED")
            connection.close()


if __name__ == "__main__":
    role, number = sys.argv[1], int(sys.argv[2])
    {"server": server, "child": child, "client": client}[role](number)
