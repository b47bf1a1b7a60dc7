"""Connects to itself over AF_UNIX, then over TCP, and prints what came over each: `local_domain.py PATH`."""
import socket
import sys


def over(family, address):
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    client = socket.socket(family)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    server.sendall(b"word")
    print(family.name, client.recv(100).decode())
    duplicate = listener.dup()
    listener.close()
    other = socket.socket(family)
    other.connect(duplicate.getsockname())
    served, _ = duplicate.accept()
    served.sendall(b"again")
    print(family.name, other.recv(100).decode())


over(socket.AF_UNIX, sys.argv[1])
over(socket.AF_INET, ("127.0.0.1", 0))
