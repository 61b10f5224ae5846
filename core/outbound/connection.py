"""One HTTP request on one connection, bounded in time and size in every direction.

Every wait goes through `BoundedSocket`, which takes its timeout from what is left of the deadline
before each read and write: dripped headers, endless interim replies and slow bodies end on time
without a thread to watch them. Nothing here follows a redirect, reads a proxy or netrc from the
environment, or keeps a cookie.
"""

import functools
import http.client
import math
import os
import re
import socket
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from time import monotonic
from typing import Any, cast

import urllib3.exceptions
from urllib3.connection import HTTPConnection
from urllib3.response import BaseHTTPResponse
from urllib3.util.response import assert_header_parsing

from core.outbound.addresses import CheckedUrl, Policy, check_addresses
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)

KIB = 1024
MIB = 1024 * KIB
_CHUNK = 64 * KIB

# family, type, protocol, canonical name, socket address: a row of socket.getaddrinfo
Row = tuple[int, int, int, str, tuple[Any, ...]]
Resolver = Callable[[str, int], Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes. `request` and `body` hold for one request, `session` and `session_bytes` for all.

    With `is_asked_for` the caller has set `request` as a deadline: then silence is lateness like any other.
    Where a person can raise a limit of bytes, `body_way_out` and `session_way_out` say how.
    """

    lookup: float = 3.0
    connect: float = 3.0
    request: float = 20.0
    session: float = 300.0
    body: int = 10 * MIB
    session_bytes: int = 64 * MIB
    ratio: int = 200
    ratio_from: int = MIB
    backoff: tuple[float, ...] = (0.2, 1.0)
    patience: float = 5.0
    is_asked_for: bool = False
    body_way_out: str = ""
    session_way_out: str = ""


DEFAULT_LIMITS = Limits()


class Budget:
    """What one request may still take. Its errors are ours and pass through the HTTP library untouched."""

    def __init__(self, host: str, limits: Limits, session_ends: float) -> None:
        began = monotonic()
        ends = began + limits.request
        self.host = host
        self.limits = limits
        self.ends = min(ends, session_ends)
        self._silent_since = began
        # What the session's end cuts off may have been about to come.
        is_whole = ends <= session_ends and not limits.is_asked_for
        self._long_silence = limits.request / 2 if is_whole else math.inf
        self.allotted = limits.request if ends <= session_ends else limits.session
        self.body = 0
        self._received: int | None = None

    def wait(self, at_most: float = math.inf) -> float:
        """Seconds that the next step may take."""
        left = self.ends - monotonic()
        if left <= 0:
            raise self.late()
        return min(left, at_most)

    def late(self) -> UnavailableError:
        """Whoever was silent for half of the time hangs; whoever was not is slow."""
        if monotonic() - self._silent_since < self._long_silence:
            return UnavailableError("DEADLINE", f"{self.host} did not finish within {self.allotted:g} s.")
        if self.body:
            return UnavailableError("IDLE", f"{self.host} stopped after {self.body:,} bytes.")
        return UnavailableError("IDLE", f"{self.host} sent nothing for {self.allotted:g} s.")

    def reset(self) -> UnavailableError:
        return UnavailableError("RESET", f"{self.host}: the connection was reset.")

    def head_is_read(self) -> None:
        self._received = 0

    def count(self, size: int) -> None:
        """Framing counts as well: endless chunk sizes or trailers are no body, and still have to end."""
        self._silent_since = monotonic()
        if self._received is not None:
            self._received += size
            if self._received > 2 * self.limits.body:
                raise self.too_large()

    def too_large(self, announced: int = 0) -> ProtocolViolationError:
        limit = size_text(self.limits.body)
        sent = f"announced {size_text(announced)}; limit {limit}" if announced else f"sent more than {limit}"
        why = f"{self.host} {sent}. {self.limits.body_way_out}".rstrip()
        return ProtocolViolationError("BODY_TOO_LARGE", why)


def too_much_in_all(host: str, limits: Limits) -> ProtocolViolationError:
    said = f"{host} sent more than {size_text(limits.session_bytes)} in all. {limits.session_way_out}"
    return ProtocolViolationError("BODY_TOO_LARGE", said.rstrip())


class BoundedSocket(socket.socket):
    """Reads and writes within `budget`, and speaks of failures in our own words."""

    budget: Budget

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        with self._bounded():
            size = super().recv_into(buffer, nbytes, flags)
        self.budget.count(size)
        return size

    def send(self, data: Any, flags: int = 0) -> int:
        with self._bounded():
            return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        with self._bounded():
            super().sendall(data, flags)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        self.settimeout(self.budget.wait())
        try:
            yield
        except TimeoutError as exc:
            raise self.budget.late() from exc
        except OSError as exc:
            raise self.budget.reset() from exc


class BoundedTlsSocket(BoundedSocket, ssl.SSLSocket):  # type: ignore[misc]  # Any for a buffer is wide enough
    """The same over TLS; `tls_context` makes the ssl module create these."""


@functools.lru_cache(maxsize=64)
def tls_context(authorities: str = "") -> ssl.SSLContext:
    """Trusts `authorities` (PEM) alone when given, else the system's; SSL_CERT_FILE has no say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = BoundedTlsSocket
    context.set_alpn_protocols(["http/1.1"])
    if authorities:
        context.load_verify_locations(cadata=authorities)
    else:
        paths = ssl.get_default_verify_paths()
        cafile = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else None
        capath = paths.openssl_capath if os.path.isdir(paths.openssl_capath) else None
        context.load_verify_locations(cafile, capath)
    return context


LARGEST_AUTHORITIES = 64 * KIB


def complaint_about_authorities(pem: str) -> str:
    """What is wrong with certificates that somebody wants to trust, in one sentence; empty: nothing."""
    if len(pem) > LARGEST_AUTHORITIES:
        return f"Give certificates of up to {size_text(LARGEST_AUTHORITIES)} together."
    if "PRIVATE KEY" in pem:
        return "This holds a private key. Keep that to yourself, and paste only the certificates."
    if not pem:
        return ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(ssl.SSLError, ValueError):
        context.load_verify_locations(cadata=pem.encode("ascii", "replace").decode())
    if context.cert_store_stats()["x509"] == max(1, pem.count("-----BEGIN CERTIFICATE-----")):
        return ""
    return "Paste certificates in PEM form: -----BEGIN CERTIFICATE----- and what follows, each only once."


@functools.cache
def _lookups() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="lookup")


# Threads do not survive a fork, and a pool that believes in them would hang every lookup of a worker.
os.register_at_fork(after_in_child=_lookups.cache_clear)


def system_resolver(host: str, port: int) -> Sequence[Row]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def look_up(url: CheckedUrl, resolver: Resolver, budget: Budget) -> Sequence[Row]:
    """One lookup in a pool of few threads, because getaddrinfo knows no timeout."""
    future = _lookups().submit(resolver, url.host, url.port)
    try:
        return future.result(timeout=budget.wait(budget.limits.lookup))
    except TimeoutError as exc:
        future.cancel()
        raise UnavailableError(
            "DNS", f"The name {url.host} could not be looked up within {budget.limits.lookup:g} s."
        ) from exc
    except (OSError, UnicodeError) as exc:
        raise UnavailableError("DNS", f"The name {url.host} could not be found.") from exc


class _Head(http.client.HTTPResponse):
    """Refuses a line among the headers that is none: the lengths that follow it would be lost unseen.

    urllib3 writes such a reply, and the address with its key, into the log.
    """

    def begin(self) -> None:
        super().begin()
        assert_header_parsing(self.msg)


class Connection(HTTPConnection):
    """Keeps one connection to one origin and dials only addresses that the policy has judged."""

    response_class = _Head

    def __init__(
        self,
        url: CheckedUrl,
        policy: Policy,
        resolver: Resolver,
        authorities: str = "",
        reached: dict[str, str] | None = None,
    ) -> None:
        """`reached` learns which entry of the policy opened which private address."""
        super().__init__(url.host, url.port)
        self._url = url
        self._policy = policy
        self._resolver = resolver
        self._authorities = authorities
        self._reached = {} if reached is None else reached
        self._dialled: BoundedSocket | None = None
        self._budget: Budget

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, budget: Budget
    ) -> BaseHTTPResponse:
        """Sends one request and reads the head of the reply."""
        self._budget = budget
        if isinstance(self.sock, BoundedSocket):
            if self.is_connected:
                self.sock.budget = budget
            else:
                self.close()
        self.request(
            method,
            target,
            body=body,
            headers={"Host": self._url.authority, **headers},
            preload_content=False,
            decode_content=False,
        )
        response = self.getresponse()
        budget.head_is_read()
        return response

    def connect(self) -> None:
        rows = look_up(self._url, self._resolver, self._budget)
        check_addresses(
            [row[4] for row in rows], self._url.port, self._policy, public=self._url.may_be_public
        )
        sock = self._dial(rows)
        if self._url.scheme == "https":
            sock = self._secured(sock)
        sock.budget = self._budget
        self.sock = self._dialled = sock

    def abandon(self) -> None:
        """Closes the socket at once; `close` leaves it to a reply that nobody may ever read to its end."""
        self.close()
        if self._dialled and (descriptor := self._dialled.detach()) != -1:
            os.close(descriptor)

    def _dial(self, rows: Sequence[Row]) -> BoundedSocket:
        """The first of the judged addresses that answers; the last one's failure when none does."""
        *others, last = rows
        for row in others:
            with suppress(OSError):
                return self._dial_one(row)
        try:
            return self._dial_one(last)
        except TimeoutError as exc:
            patience = f"{self._budget.limits.connect:g} s"
            message = f"{self._budget.host} accepted no connection within {patience}."
            raise UnavailableError("CONNECT_TIMEOUT", message) from exc
        except OSError as exc:
            message = f"{self._budget.host} could not be reached: {exc.strerror}."
            raise UnavailableError("CONNECT", message) from exc

    def _dial_one(self, row: Row) -> BoundedSocket:
        patience = self._budget.wait(self._budget.limits.connect)
        sock = BoundedSocket(*row[:3])
        with ExitStack() as undoing:
            undoing.callback(sock.close)
            sock.settimeout(patience)
            sock.connect(row[4])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            undoing.pop_all()
        if entry := self._policy.entry_for(ip_address(row[4][0]), self._url.port):
            self._reached[row[4][0]] = str(entry)
        return sock

    def _secured(self, sock: BoundedSocket) -> BoundedSocket:
        try:
            sock.settimeout(self._budget.wait())
            secured = tls_context(self._authorities).wrap_socket(sock, server_hostname=self.host)
            return cast(BoundedTlsSocket, secured)
        except TimeoutError as exc:
            raise self._budget.late() from exc
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as exc:
            raise self._budget.reset() from exc
        except ssl.SSLError as exc:
            raise RefusedError("TLS", f"{self._budget.host}: {_tls_complaint(exc)}.") from exc
        except OSError as exc:
            raise self._budget.reset() from exc
        finally:
            sock.close()


# X509_V_ERR_*: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/
_CERTIFICATE_COMPLAINTS = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "its certificate is self-signed",
    19: "its certificate comes from an authority that is not trusted here",
    20: "its certificate comes from an authority that is not trusted here",
    62: "its certificate is for another host name",
    64: "its certificate is for another address",
}


def _tls_complaint(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return _CERTIFICATE_COMPLAINTS.get(exc.verify_code, "its certificate could not be verified")
    reason = exc.reason or "unknown reason"
    if reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION"):
        return "it speaks no TLS version that is still safe (1.2 or newer)"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "it does not speak TLS on this port"
    return f"no secure connection could be made ({reason.replace('_', ' ').lower()})"


def read_body(response: BaseHTTPResponse, budget: Budget) -> Iterator[bytes]:
    """The decoded body in pieces; announced and real sizes are held against the limits on the way."""
    transfer = response.headers.get("transfer-encoding", "")
    if transfer and transfer.lower() != "chunked":
        raise _unsupported("Transfer-Encoding", transfer, budget)
    announced = getattr(response, "length_remaining", None) or 0
    if announced > budget.limits.body:
        raise budget.too_large(announced)
    coding = response.headers.get("content-encoding", "").strip().lower()
    pieces = _pieces(response, budget)
    if coding in ("", "identity"):
        return pieces
    if coding in ("gzip", "x-gzip"):
        return _gunzip(pieces, budget)
    raise _unsupported("Content-Encoding", coding, budget)


def _unsupported(header: str, value: str, budget: Budget) -> ProtocolViolationError:
    return ProtocolViolationError(
        "ENCODING", f"{budget.host} used {header} '{printable(value)}', not supported."
    )


def _pieces(response: BaseHTTPResponse, budget: Budget) -> Iterator[bytes]:
    for piece in _chunks(response, budget) if getattr(response, "chunked", False) else _arrivals(response):
        budget.body += len(piece)
        yield piece


def _arrivals(response: BaseHTTPResponse) -> Iterator[bytes]:
    """What has come so far, without waiting for more: a stalled body can then say how far it came."""
    while piece := response.read1(_CHUNK, decode_content=False):
        yield piece


def _chunks(response: BaseHTTPResponse, budget: Budget) -> Iterator[bytes]:
    try:
        yield from response.read_chunked(_CHUNK, decode_content=False)
    except ValueError as exc:  # a negative size
        raise _bad_chunk_size(budget) from exc


def _bad_chunk_size(budget: Budget) -> ProtocolViolationError:
    return ProtocolViolationError("FRAMING", f"{budget.host} sent a chunk size that is no number.")


def _gunzip(pieces: Iterable[bytes], budget: Budget) -> Iterator[bytes]:
    """One gzip stream. Steps are small, so that a bomb is known by its ratio before it fills memory."""
    limits = budget.limits
    stream = zlib.decompressobj(31)
    wire = plain = 0
    try:
        for piece in pieces:
            while piece:
                if stream.eof:
                    raise zlib.error("bytes after the end of the stream")
                part = stream.decompress(piece, limits.ratio_from)
                rest = stream.unconsumed_tail or stream.unused_data
                wire += len(piece) - len(rest)
                plain += len(part)
                if plain > limits.ratio_from and plain > limits.ratio * wire:
                    raise ProtocolViolationError(
                        "BODY_RATIO",
                        f"{budget.host}: the compressed reply expands more than {limits.ratio} times.",
                    )
                yield part
                piece = rest
        yield stream.flush()
    except zlib.error as exc:
        raise ProtocolViolationError(
            "ENCODING", f"{budget.host}: the reply is not gzip as announced."
        ) from exc
    if wire and not stream.eof:
        raise _ended_early(budget)


def _ended_early(budget: Budget, announced: int = 0) -> UnavailableError:
    if announced:
        return UnavailableError(
            "BODY_TRUNCATED", f"{budget.host} closed after {budget.body:,} of {announced:,} bytes."
        )
    return UnavailableError("BODY_TRUNCATED", f"{budget.host}: the reply ended early.")


@contextmanager
def in_our_words(budget: Budget) -> Iterator[None]:
    """The one place where exceptions of the HTTP library become ours."""
    try:
        yield
    except urllib3.exceptions.ProtocolError as exc:
        raise _body_fault(exc, budget) from exc
    except (http.client.HTTPException, urllib3.exceptions.HTTPError) as exc:
        raise _head_fault(exc, budget) from exc


def _head_fault(exc: Exception, budget: Budget) -> ProtocolError:
    host = budget.host
    match exc:
        case http.client.RemoteDisconnected():
            return UnavailableError("NO_REPLY", f"{host} closed the connection without a reply.")
        case http.client.LineTooLong() if "header" in str(exc):
            return ProtocolViolationError("HEADERS", f"{host} sent a header longer than 64 KB.")
        case http.client.LineTooLong():
            return ProtocolViolationError("NOT_HTTP", f"{host} does not speak HTTP (got an endless line).")
        case http.client.BadStatusLine() | http.client.UnknownProtocol():
            got = printable(str(exc.args[0]), 40)
            return ProtocolViolationError("NOT_HTTP", f'{host} does not speak HTTP (got "{got}").')
        case urllib3.exceptions.HeaderParsingError():
            return ProtocolViolationError("HEADERS", f"{host} sent a header that cannot be read.")
        case urllib3.exceptions.InvalidHeader():
            return ProtocolViolationError("FRAMING", f"{host} sent contradicting lengths.")
    return ProtocolViolationError("HEADERS", f"{host} sent more than 100 headers.")


def _body_fault(exc: urllib3.exceptions.ProtocolError, budget: Budget) -> ProtocolError:
    # urllib3 wraps what it met while reading; the second argument is that exception itself.
    match exc.args[-1]:
        case urllib3.exceptions.IncompleteRead(expected=int(missing)):
            return _ended_early(budget, budget.body + missing)
        case urllib3.exceptions.InvalidChunkLength():
            return _bad_chunk_size(budget)
        case http.client.IncompleteRead():
            return _ended_early(budget)
    if "prematurely" in str(exc):
        return _ended_early(budget)
    return ProtocolViolationError("FRAMING", f"{budget.host} sent a chunk line without end.")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def plain_headers(response: BaseHTTPResponse) -> dict[str, str]:
    """Lower-case names, repeated ones joined; no cookie, and nothing that could not be sent back."""
    return {
        name.lower(): value
        for name, value in response.headers.itermerged()
        if name.lower() != "set-cookie" and not _CONTROL.search(value)
    }


def size_text(size: int) -> str:
    for unit, factor in (("GB", 1024 * MIB), ("MB", MIB), ("KB", KIB)):
        if size >= factor:
            number = size / factor
            return f"{number:.1f} {unit}" if unit == "GB" or size % factor else f"{number:.0f} {unit}"
    return f"{size} bytes"
