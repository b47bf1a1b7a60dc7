"""An echo server that greets, and keeps its connections, and a client that talks to it: `traffic.py server PORT`, `traffic.py client PORT`."""
import socket
import sys
import threading
import time

role, port = sys.argv[1], int(sys.argv[2])
held = []


def echo(conn):
    try:
        while data := conn.recv(65536):
            conn.sendall(data)
    except OSError:
        pass
    # Nothing is closed: whoever was there may be dead, this end lives.


if role == "server":
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        conn, _ = listener.accept()
        held.append(conn)
        conn.sendall(b"!")
        threading.Thread(target=echo, args=(conn,), daemon=True).start()
else:
    conn = socket.create_connection(("127.0.0.1", port))
    # (What is written before the server has looked goes over TCP, and is not counted.)
    conn.recv(1)
    for _ in range(100):
        conn.sendall(b"x" * 1000)
        got = 0
        while got < 1000:
            got += len(conn.recv(1000))
    if "half" in sys.argv:
        conn.shutdown(socket.SHUT_WR)
    print("done", flush=True)
    time.sleep(60)
