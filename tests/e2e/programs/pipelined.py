"""How much a connection takes that nobody reads: a fresh one, and one over which megabytes have been read. All that
it took arrives. Prints both, in bytes."""

import hashlib
import socket
import threading
import time

MOVED = 12_000_000


def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return client, listener.accept()[0]


def read(end, total):
    seen, left = hashlib.sha256(), total
    while left:
        part = end.recv(min(left, 65536))
        if not part:
            return "the end"
        seen.update(part)
        left -= len(part)
    return seen.hexdigest()


def fill(end):
    """Until nothing more was taken for a third of a second."""
    end.setblocking(False)
    seen, total, last = hashlib.sha256(), 0, time.monotonic()
    while time.monotonic() - last < 0.3:
        part = bytes([total % 251]) * 65536
        try:
            count = end.send(part)
            seen.update(part[:count])
            total, last = total + count, time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    return total, seen.hexdigest()


def takes(moved):
    client, server = pair()
    reader = threading.Thread(target=read, args=(server, moved))
    reader.start()
    client.sendall(bytes(moved))
    reader.join()
    # A call that waits in vain, or finds nothing: some reader comes to that.
    server.setblocking(False)
    try:
        server.recv(1)
    except BlockingIOError:
        pass
    server.setblocking(True)
    total, expected = fill(client)
    assert read(server, total) == expected
    return total


print(takes(1), takes(MOVED))
