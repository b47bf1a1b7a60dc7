"""asyncio echo: `echo_asyncio.py server PORT` or `echo_asyncio.py client PORT CONNECTIONS BYTES`."""
import asyncio
import hashlib
import sys


async def serve(port):
    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


async def one(port, number, size):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = bytes((i * 7 + number) % 251 for i in range(size))

    async def send():
        for at in range(0, size, 10007):
            writer.write(data[at : at + 10007])
            await writer.drain()
        writer.write_eof()

    sender = asyncio.ensure_future(send())
    back = await reader.read(-1)
    await sender
    writer.close()
    return hashlib.sha256(back).hexdigest() + (" same" if back == data else " DIFFERENT")


async def connect(port, connections, size):
    results = await asyncio.gather(*(one(port, n, size) for n in range(connections)))
    print("\n".join(results))


if sys.argv[1] == "server":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(connect(*map(int, sys.argv[2:5])))
