"""The network of the containers: a loopback of its own, with the database at port 5432.

`python pod.py SOCKET` runs in a new network namespace and passes connections on to the Unix socket SOCKET.
It prints a line once it listens, and ends when its standard input does.
"""

import asyncio
import fcntl
import socket
import struct
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(path: str) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    await asyncio.start_server(relay, "127.0.0.1", 5432)
    print("ready", flush=True)  # noqa: T201 - its parent waits for it
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


start_loopback()
asyncio.run(main(sys.argv[1]))
