"""A line between the product and one of its servers that can be slow, silent, cut or gone."""

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults import tally

CHUNK = 65_536
RESET = struct.pack("ii", 1, 0)  # linger for no time: close() sends RST


class Wire:
    """Listens on loopback and passes everything on to a Unix socket, and back.

    `latency` and `jitter` are seconds added to each chunk of a reply, `rate` bounds replies in bytes a
    second. While `is_silent`, lines stay open and nothing passes; while `is_down`, no client is let in.
    """

    def __init__(self, target: str, seed: int = 0) -> None:
        self.target = target
        self.latency = self.jitter = self.rate = 0.0
        self.is_silent = self.is_down = False
        self.opened = 0
        self._random = random.Random(seed)
        self._lines: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def heal(self) -> None:
        if self.latency or self.rate or self.is_silent or self.is_down:
            tally.fault("line slow, silent or down")
        self.latency = self.jitter = self.rate = 0.0
        self.is_silent = self.is_down = False

    def cut(self) -> None:
        """Every line ends at once, as when a firewall resets them."""
        if not self.is_down:
            tally.fault("lines cut")
        for line in list(self._lines):
            with contextlib.suppress(OSError):
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                line.shutdown(socket.SHUT_RDWR)

    @property
    def open_lines(self) -> int:
        return len(self._lines) // 2

    def close(self) -> None:
        self.is_down = True
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            if self.is_down:
                raise ConnectionRefusedError
            self._wait_while_silent()
            server.connect(self.target)
        except OSError:
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
            server.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.opened += 1
        self._lines |= {client, server}
        back = threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True)
        back.start()
        self._pass_on(client, server, False)
        back.join()
        self._lines -= {client, server}
        client.close()
        server.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if is_reply and (self.latency or self.rate):
                    self._dawdle(len(data))
                self._wait_while_silent()
                target.sendall(data)
        for line in (source, target):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _dawdle(self, size: int) -> None:
        wait = self.latency + self._random.uniform(-self.jitter, self.jitter)
        time.sleep(max(0.0, wait) + (size / self.rate if self.rate else 0.0))

    def _wait_while_silent(self) -> None:
        while self.is_silent:
            time.sleep(0.02)


@contextmanager
def wire(target: str) -> Iterator[Wire]:
    wire = Wire(target)
    try:
        yield wire
    finally:
        wire.close()
