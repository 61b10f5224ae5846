"""An HTTP proxy on loopback that opens tunnels (CONNECT), and records which.

with ConnectProxy() as proxy:
    settings.OUTBOUND_PROXY = proxy.url
"""

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass
class ConnectProxy:
    """`names` are hosts that only the proxy knows. `script` answers in place of the proxy: it gets the
    connection, and returns whether the tunnel is still to be opened."""

    names: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    authorization: str = ""
    status: int = 200
    reply: bytes = b""
    is_silent: bool = False
    targets: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(5)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def _start(self, work, *args):
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._over.is_set():
            try:
                conn, _ = self._server.accept()
            except OSError:
                return
            self._start(self._serve, conn)

    def _serve(self, conn):
        with contextlib.suppress(OSError), contextlib.ExitStack() as open_ones:
            open_ones.callback(conn.close)
            if self.tls:
                conn = open_ones.enter_context(self.tls.wrap_socket(conn, server_side=True))
            head = b""
            while b"\r\n\r\n" not in head:
                if not (received := conn.recv(4096)):
                    return
                head += received
            self.heads.append(head)
            method, target, _ = head.split(b" ", 2)
            assert method == b"CONNECT"
            self.targets.append(target.decode())
            if self.is_silent:
                self._over.wait(30)
                return
            if self.reply:
                conn.sendall(self.reply)
                return
            status = self.status
            if self.authorization and f"Proxy-Authorization: {self.authorization}".encode() not in head:
                status = 407
            if status != 200:
                conn.sendall(f"HTTP/1.1 {status} Refused\r\nContent-Length: 3\r\n\r\nno!".encode())
                return
            host, _, port = target.decode().rpartition(":")
            try:
                far = socket.create_connection((self.names.get(host, host), int(port)), 5)
            except OSError:
                conn.sendall(b"HTTP/1.1 503 Unreachable\r\nContent-Length: 0\r\n\r\n")
                return
            open_ones.callback(far.close)
            conn.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._relay(conn, far)

    def _relay(self, near, far):
        while not self._over.is_set():
            if getattr(near, "pending", int)():
                readable = [near]
            else:
                readable, _, _ = select.select([near, far], [], [], 0.1)
            for source in readable:
                data = source.recv(65_536)
                if not data:
                    return
                (far if source is near else near).sendall(data)
