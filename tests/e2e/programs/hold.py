"""Opens connections and keeps them: `hold.py server PORT [plain] [undumpable]`, `hold.py client PORT`."""
import ctypes
import socket
import sys
import time

role, port = sys.argv[1], int(sys.argv[2])
if "undumpable" in sys.argv:
    PR_SET_DUMPABLE = 4
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
if role == "server":
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if "plain" in sys.argv:
        TCP_FASTOPEN_CONNECT = 30
        listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    held = []
    while True:
        conn, _ = listener.accept()
        conn.recv(1)
        held.append(conn)
else:
    conn = socket.create_connection(("127.0.0.1", port))
    conn.sendall(b"x")
    time.sleep(60)
