"""Echo server with one multiprocessing.Process per connection: `server_process.py PORT`."""
import multiprocessing
import socket
import sys


def handle(conn):
    while data := conn.recv(65536):
        conn.sendall(data)
    conn.close()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
    while True:
        conn, _ = listener.accept()
        multiprocessing.Process(target=handle, args=(conn,), daemon=True).start()
        conn.close()
