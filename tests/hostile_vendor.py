"""A vendor on loopback that answers in any way a test can think of, honest or not.

    with HostileVendor(BEHAVIOURS["drips its headers"]) as vendor:
        Session(vendor.url, ...).get("/tools")

A script gets the line and the request, and returns True to keep the connection open.
"""

import contextlib
import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

GOOD = json.dumps({"items": [], "paging": {"pageLimit": 100}}).encode()
DRIP = 0.03


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def json(self) -> object:
        return json.loads(self.body)


@dataclass
class Line:
    """The vendor's end of one connection."""

    conn: socket.socket
    over: threading.Event

    def send(self, data: bytes) -> None:
        self.conn.sendall(data)

    def wait(self, seconds: float = 60) -> None:
        """Holds still until the test is over or the time is."""
        self.over.wait(seconds)

    def drip(self, data: bytes, every: float = DRIP) -> None:
        for byte in data:
            if self.over.is_set():
                return
            self.send(bytes([byte]))
            self.wait(every)

    def flood(self, data: bytes) -> None:
        while not self.over.is_set():
            self.send(data)


Script = Callable[[Line, Request], bool | None]


def reply(
    body: bytes = GOOD, *, status: int = 200, headers: Mapping[str, str] | None = None, keep: bool = True
) -> Script:
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    head = f"HTTP/1.1 {status} Whatever\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n"
    return raw(head.encode("latin-1") + body, keep=keep)


def json_reply(document: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Script:
    return reply(json.dumps(document).encode(), status=status, headers=headers)


def raw(data: bytes, *, keep: bool = False) -> Script:
    def script(line: Line, request: Request) -> bool:
        line.send(data)
        return keep

    return script


def then_waits(data: bytes) -> Script:
    def script(line: Line, request: Request) -> None:
        line.send(data)
        line.wait()

    return script


def drips(data: bytes, *, after: bytes = b"") -> Script:
    def script(line: Line, request: Request) -> None:
        line.send(after)
        line.drip(data)

    return script


def floods(data: bytes, *, after: bytes = b"") -> Script:
    def script(line: Line, request: Request) -> None:
        line.send(after)
        line.flood(data)

    return script


def resets(line: Line, request: Request) -> None:
    line.conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def in_turn(*scripts: Script) -> Script:
    """The n-th request gets the n-th script; the last one stays."""
    scripts_left = list(scripts)

    def script(line: Line, request: Request) -> bool | None:
        return (scripts_left.pop(0) if len(scripts_left) > 1 else scripts_left[0])(line, request)

    return script


def by_path(routes: Mapping[str, Script]) -> Script:
    missing = json_reply({"message": "no such path"}, status=404)

    def script(line: Line, request: Request) -> bool | None:
        return routes.get(request.path, missing)(line, request)

    return script


@dataclass
class HostileVendor:
    script: Script
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    reads: bool = True
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    port: int = 0  # a reserved one, or 0 for any

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def __enter__(self) -> Self:
        address, is_reserved = (self.host, self.port), bool(self.port)
        self._listener = socket.create_server(address, backlog=64, reuse_port=is_reserved)
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # Closing a listener does not wake the thread that accepts on it; shutting it down does.
        self._listener.shutdown(socket.SHUT_RDWR)
        for conn in list(self._open):
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, conn)

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, conn: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            stack.enter_context(conn)
            if self.tls:
                conn = stack.enter_context(self.tls.wrap_socket(conn, server_side=True))
            self._open.add(conn)
            stack.callback(self._open.discard, conn)
            if self._over.is_set():
                return  # or a later vendor at this port would miss the requests of this connection
            line = Line(conn, self._over)
            if not self.reads:
                line.wait()
            with conn.makefile("rb") as stream:
                while request := _read_request(stream):
                    self.requests.append(request)
                    if not self.script(line, request):
                        return


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port for the vendors of several tests, one after the other: rows contain its address."""
    with socket.socket() as reservation:
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reservation.bind(("127.0.0.1", 0))
        yield reservation.getsockname()[1]


def _read_request(stream) -> Request | None:
    first = stream.readline().decode("latin-1").split()
    if len(first) < 2:
        return None
    headers = {}
    while (line := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(first[0], first[1], headers, body)


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_GZIP = {"Content-Encoding": "gzip"}


def _redirect(location: str, status: int = 302) -> Script:
    return reply(b"", status=status, headers={"Location": location})


BEHAVIOURS: dict[str, Script] = {
    "is good": reply(),
    "is good and compressed": reply(gzip.compress(GOOD), headers=_GZIP),
    "is good in chunks": raw(_CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD), keep=True),
    "announces 10 GB": then_waits(_HEAD + b"Content-Length: 10737418240\r\n\r\n"),
    "sends endless chunks": floods(b"10000\r\n" + bytes(65536) + b"\r\n", after=_CHUNKED),
    "sends an endless body": floods(bytes(65536), after=_HEAD + b"Connection: close\r\n\r\n"),
    "sends an endless chunk size": floods(b"0" * 65536, after=_CHUNKED),
    "sends endless trailers": floods(b"X-A: " + b"b" * 60 + b"\r\n", after=_CHUNKED + b"0\r\n"),
    "sends a gzip bomb": reply(gzip.compress(bytes(4_000_000)), headers=_GZIP),
    "compresses twice": reply(gzip.compress(gzip.compress(GOOD)), headers={"Content-Encoding": "gzip, gzip"}),
    "compresses with brotli": reply(b"\x0b\x02\x80{}\x03", headers={"Content-Encoding": "br"}),
    "cuts its gzip": reply(gzip.compress(GOOD)[:-9], headers=_GZIP),
    "says gzip and is not": reply(GOOD, headers=_GZIP),
    "sends more after its gzip": reply(gzip.compress(GOOD) + b"more", headers=_GZIP),
    "drips its headers": drips(_HEAD + b"X-Long: " + b"y" * 5000),
    "drips its body": drips(b" " * 5000, after=_HEAD + b"Content-Length: 5000\r\n\r\n"),
    "accepts and is silent": then_waits(b""),
    "stops in mid-body": then_waits(_HEAD + b"Content-Length: 1000\r\n\r\n" + b"12345"),
    "closes in mid-body": raw(_HEAD + b"Content-Length: 1000\r\n\r\n" + b"1234567890"),
    "closes in mid-chunk": raw(_CHUNKED + b"100\r\n12345"),
    "closes between chunks": raw(_CHUNKED + b"5\r\n12345\r\n"),
    "resets the connection": resets,
    "closes without a reply": raw(b""),
    "speaks SSH": then_waits(b"\x00\x01SSH-2.0-OpenSSH_9.9\r\n"),
    "speaks HTTP/0.9": raw(b"<html>welcome</html>"),
    "speaks HTTP/2": raw(b"HTTP/2.0 200 OK\r\n\r\n"),
    "sends a status line without end": raw(b"HTTP/1.1 200 " + b"x" * 70_000),
    "sends 5,000 headers": raw(_HEAD + b"X-A: b\r\n" * 5000 + b"\r\n"),
    "sends a header of 2 MB": raw(_HEAD + b"X-A: " + b"b" * 2_000_000 + b"\r\n\r\n"),
    "sends endless interim replies": floods(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "gives two lengths": raw(_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345"),
    "gives a negative length": raw(_HEAD + b"Content-Length: -5\r\n\r\n" + GOOD),
    "sends a bad chunk size": raw(_CHUNKED + b"zz\r\nxx\r\n0\r\n\r\n"),
    "sends a negative chunk size": raw(_CHUNKED + b"-5\r\nxx\r\n0\r\n\r\n"),
    "compresses the transfer": raw(_HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "redirects to metadata": _redirect("http://169.254.169.254/latest/meta-data/?token=secret"),
    "redirects to a file": _redirect("file:///etc/passwd"),
    "redirects to a path": _redirect("/tools/?token=secret", 308),
    "redirects nowhere": _redirect(""),
    "redirects to nonsense": _redirect("http://[::1/"),
    "answers 204": reply(b"", status=204),
    "answers 202": reply(status=202),
    "answers 103": reply(b"", status=103),
    "answers 429 for 1000 days": reply(status=429, headers={"Retry-After": "86400000"}),
    "answers 503": reply(status=503),
    "answers 500 and asks to wait": reply(status=500, headers={"Retry-After": "90"}),
    "answers 400": reply(status=400),
    "answers 401 and points elsewhere": reply(
        status=401, headers={"WWW-Authenticate": 'Bearer resource_metadata="http://127.0.0.66/x"'}
    ),
    "answers 403": reply(status=403),
    "answers 404": reply(status=404),
    "answers 999": reply(status=999),
    "streams events without an answer": drips(
        b": ping\n\n" * 1000, after=b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    ),
    "shows a login page": reply(
        b"<html>Sign in</html>", headers={"Content-Type": "text/html; charset=utf-8"}
    ),
    "sends an empty body": reply(b""),
    "sends JSON 200,000 deep": reply(b"[" * 200_000 + b"]" * 200_000),
    "sends a number of 5 million digits": reply(b"[" + b"9" * 5_000_000 + b"]"),
    "sends NaN": reply(b"[NaN]"),
    "sends 1e400": reply(b"[1e400]"),
    "repeats a key": reply(b'{"name": 1, "name": 2}'),
    "sends NUL": reply(b'["a\\u0000b"]'),
    "sends half a surrogate pair": reply(b'["a\\ud83db"]'),
    "sends Latin-1": reply('["é"]'.encode("latin-1")),
    "sends UTF-16": reply('["é"]'.encode("utf-16")),
    "sends two documents": reply(b'{"a":1} {"b":2}'),
}
