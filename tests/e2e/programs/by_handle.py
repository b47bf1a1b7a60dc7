"""Functions of libc by its handle, as ctypes has them: `by_handle.py PORT` exchanges a megabyte with an echo server."""
import ctypes
import socket
import sys

libc = ctypes.CDLL("libc.so.6", use_errno=True)
own = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
fd, back, total = own.fileno(), ctypes.create_string_buffer(1000), 0
for i in range(1000):
    text = bytes([97 + i % 26]) * 1000
    # Each way of writing meets each way of reading.
    sent = libc.send(fd, text, 1000, 0) if i & 1 else own.send(text)
    assert sent == 1000, sent
    if i & 2:
        own.setblocking(True)
        assert libc.recv(fd, back, 1000, socket.MSG_WAITALL) == 1000, ctypes.get_errno()
        answer = back.raw
    else:
        own.settimeout(5)
        answer = own.recv(1000, socket.MSG_WAITALL)
        while len(answer) < 1000:
            answer += own.recv(1000 - len(answer))
    assert answer == text
    total += len(answer)
print("exchanged", total)
