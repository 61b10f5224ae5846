"""Tunnels through an HTTP proxy, with or without TLS to the proxy."""

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from core.outbound.egress import Proxy, read_tunnel_status, tunnel_request
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import KIB
from core.outbound.sockets import BoundedSocket, tls_problem

MAX_HEAD_BYTES = 16 * KIB
_RECORD_BYTES = 16 * KIB

T = TypeVar("T")


class _ByteStream(Protocol):
    def receive(self, size: int) -> bytes: ...

    def transmit(self, data: bytes) -> None: ...


class _TlsLayer:
    """A TLS client over any stream. The ssl module's own sockets can secure only what the system sends."""

    def __init__(self, below: _ByteStream, context: ssl.SSLContext, host: str) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def shake_hands(self) -> None:
        self._run_step(self._tls.do_handshake)

    def receive(self, size: int) -> bytes:
        try:
            return self._run_step(partial(self._tls.read, size))
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def transmit(self, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[self._run_step(partial(self._tls.write, unsent)) :]

    def holds_more(self) -> bool:
        return self._tls.pending() > 0 or self._incoming.pending > 0

    def _run_step(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._send_outgoing()
                if received := self._below.receive(_RECORD_BYTES):
                    self._incoming.write(received)
                else:
                    self._incoming.write_eof()
            except ssl.SSLError:
                self._send_outgoing()  # sends the alert
                raise
            else:
                self._send_outgoing()
                return result

    def _send_outgoing(self) -> None:
        if data := self._outgoing.read():
            self._below.transmit(data)


class LayeredTlsSocket(BoundedSocket):
    """A socket with one TLS connection inside another: to the proxy, and through its tunnel to the origin."""

    def __init__(self, sock: BoundedSocket) -> None:
        """Take over the descriptor of `sock`."""
        self.budget = sock.budget
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self._layers: list[_TlsLayer] = []

    def add_layer(self, context: ssl.SSLContext, host: str) -> None:
        """Encrypt all data from now on. Raises ssl.SSLError."""
        layer = _TlsLayer(self._layers[-1] if self._layers else self, context, host)
        layer.shake_hands()
        self._layers.append(layer)

    def receive(self, size: int) -> bytes:
        """Return received data, still encrypted."""
        buffer = bytearray(size)
        return bytes(buffer[: super().recv_into(buffer)])

    def transmit(self, data: bytes) -> None:
        super().sendall(data)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        received = self._layers[-1].receive(nbytes or len(view))
        view[: len(received)] = received
        return len(received)

    def send(self, data: Any, flags: int = 0) -> int:
        self.sendall(data)
        return len(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._layers[-1].transmit(bytes(data))

    def holds_more(self) -> bool:
        return any(layer.holds_more() for layer in self._layers)


def open_tunnel(
    sock: BoundedSocket, proxy: Proxy, target: str, context: ssl.SSLContext
) -> tuple[BoundedSocket, int]:
    """Request a tunnel to `target` (`host:port`), and return its socket and the status of the reply.

    `sock` is connected to the proxy and has a budget that names it; it is closed on errors. `context` is for
    a proxy with https. Raises UnavailableError, and RefusedError for a certificate.
    """
    try:
        if proxy.scheme == "https":
            sock = layered = LayeredTlsSocket(sock)
            layered.add_layer(context, proxy.host)
        sock.sendall(tunnel_request(proxy, target))
        return sock, _read_status(sock, proxy)
    except ssl.SSLError as exc:
        sock.close()
        raise RefusedError("PROXY_REFUSED", f"{proxy.authority}: {tls_problem(exc)}.") from exc
    except UnavailableError:
        sock.close()
        raise


def _read_status(sock: BoundedSocket, proxy: Proxy) -> int:
    head, end = b"", -1
    buffer = bytearray(4 * KIB)
    while end < 0:
        count = sock.recv_into(buffer)
        head += buffer[:count]
        if not count or len(head) > MAX_HEAD_BYTES:
            raise UnavailableError("NO_REPLY", f"{proxy.authority} did not answer as an HTTP proxy does.")
        end = head.find(b"\r\n\r\n")
    try:
        status = read_tunnel_status(head)
    except ValueError as exc:
        raise UnavailableError("NOT_HTTP", f"{proxy.authority} does not speak HTTP.") from exc
    if 200 <= status < 300 and end + 4 < len(head):
        # Nothing was sent through the tunnel yet, so these bytes cannot belong to it.
        raise UnavailableError("NOT_HTTP", f"{proxy.authority} sent more than the reply about its tunnel.")
    return status
