"""A server that starts a program for each connection, which accepts it, answers and ends; and its client.

one_each.py server PORT              listens, and starts a child whenever somebody comes
one_each.py child FD                 accepts from that listener once, and echoes
one_each.py client PORT COUNT BYTES  so many connections, one after the other; prints whether echoes were right
"""

import os
import select
import socket
import subprocess
import sys
import time

LIMIT = 20.0
PAUSE = 0.05


def server(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(16)
    number = listener.fileno()
    while True:
        select.select([listener], [], [])
        subprocess.run([sys.executable, __file__, "child", str(number)], pass_fds=[number], check=True)


def child(fd):
    connection, _ = socket.socket(fileno=fd).accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def client(port, count, size):
    for number in range(count):
        with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
            answers = connection.makefile("rb")
            block = os.urandom(size)
            for message in (b"hello", block):
                connection.sendall(message)
                right = answers.read(len(message)) == message
                print(number, len(message), "right" if right else "WRONG")
            connection.shutdown(socket.SHUT_WR)
            answers.read()
        # The child that served it ends.
        time.sleep(PAUSE)


role, rest = sys.argv[1], [int(word) for word in sys.argv[2:]]
{"server": server, "child": child, "client": client}[role](*rest)
