"""Read a response within its limits, possibly after events of a second stream, and convert the errors of the
HTTP library.
"""

import http.client
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import urllib3.exceptions
from urllib3.response import BaseHTTPResponse

from core.outbound.errors import ProtocolError, ProtocolViolationError, UnavailableError, printable
from core.outbound.limits import KIB, Budget
from core.outbound.reply import Reply

_CHUNK = 64 * KIB
EVENTS = "text/event-stream"
DOCUMENT = "application/json"


def read_body(response: BaseHTTPResponse, budget: Budget) -> Iterator[bytes]:
    """Yield the decoded body in pieces. Raises ProtocolViolationError if an announced or real size is too
    large."""
    transfer = response.headers.get("transfer-encoding", "")
    if transfer and transfer.lower() != "chunked":
        raise _unsupported_encoding("Transfer-Encoding", transfer, budget)
    announced = getattr(response, "length_remaining", None) or 0
    if announced > budget.limits.body:
        raise budget.too_large(announced)
    coding = response.headers.get("content-encoding", "").strip().lower()
    pieces = _read_pieces(response, budget)
    if coding in ("", "identity"):
        return pieces
    if coding in ("gzip", "x-gzip"):
        return _gunzip(pieces, budget)
    raise _unsupported_encoding("Content-Encoding", coding, budget)


def _unsupported_encoding(header: str, value: str, budget: Budget) -> ProtocolViolationError:
    return ProtocolViolationError(
        "ENCODING", f"{budget.host} used {header} '{printable(value)}', not supported."
    )


def _read_pieces(response: BaseHTTPResponse, budget: Budget) -> Iterator[bytes]:
    is_chunked = getattr(response, "chunked", False)
    # `read1` does not wait for more than has arrived, so that an error can state the size so far.
    arrivals = iter(partial(response.read1, _CHUNK, decode_content=False), b"")
    try:
        for piece in response.read_chunked(_CHUNK, decode_content=False) if is_chunked else arrivals:
            budget.body += len(piece)
            yield piece
    except ValueError as exc:
        if not is_chunked:
            raise
        raise _bad_chunk_size(budget) from exc  # it is negative


def _bad_chunk_size(budget: Budget) -> ProtocolViolationError:
    return ProtocolViolationError("FRAMING", f"{budget.host} sent an invalid chunk size.")


def _gunzip(pieces: Iterable[bytes], budget: Budget) -> Iterator[bytes]:
    # A body is one or more gzip members (RFC 1952, section 2.2). The steps are small, so that the ratio
    # reveals a bomb before it fills the memory.
    limits = budget.limits
    stream = zlib.decompressobj(31)
    wire = plain = 0
    try:
        for piece in pieces:
            while piece:
                if stream.eof:
                    stream = zlib.decompressobj(31)
                part = stream.decompress(piece, limits.ratio_from)
                remainder = stream.unconsumed_tail or stream.unused_data
                wire += len(piece) - len(remainder)
                plain += len(part)
                if plain > limits.ratio_from and plain > limits.ratio * wire:
                    raise ProtocolViolationError(
                        "BODY_RATIO",
                        f"{budget.host}: the compressed reply expands more than {limits.ratio} times.",
                    )
                yield part
                piece = remainder
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
def converted_errors(budget: Budget) -> Iterator[None]:
    """Convert the exceptions of the HTTP library into ProtocolErrors."""
    try:
        yield
    except urllib3.exceptions.ProtocolError as exc:
        # urllib3 wraps the exception of the read; its last argument is that exception.
        fault: ProtocolError
        match exc.args[-1]:
            case urllib3.exceptions.IncompleteRead(expected=int(missing)):
                fault = _ended_early(budget, budget.body + missing)
            case urllib3.exceptions.InvalidChunkLength():
                fault = _bad_chunk_size(budget)
            case http.client.IncompleteRead():
                fault = _ended_early(budget)
            case _ if "prematurely" in str(exc):
                fault = _ended_early(budget)
            case _:
                fault = ProtocolViolationError("FRAMING", f"{budget.host} sent a chunk line without end.")
        raise fault from exc
    except (http.client.HTTPException, urllib3.exceptions.HTTPError) as exc:
        raise _head_fault(exc, budget) from exc


def with_converted_errors(budget: Budget, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces that are read later, with converted exceptions."""
    with converted_errors(budget):
        yield from pieces


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
            line = printable(str(exc.args[0]), 40)
            return ProtocolViolationError("NOT_HTTP", f'{host} does not speak HTTP (got "{line}").')
        case urllib3.exceptions.HeaderParsingError():
            return ProtocolViolationError("HEADERS", f"{host} sent a header that cannot be read.")
        case urllib3.exceptions.InvalidHeader():
            return ProtocolViolationError("FRAMING", f"{host} sent contradicting lengths.")
    return ProtocolViolationError("HEADERS", f"{host} sent more than 100 headers.")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def plain_headers(response: BaseHTTPResponse) -> dict[str, str]:
    """Return headers with lower-case names, repeated ones joined, without cookies and control characters."""
    return {
        name.lower(): value
        for name, value in response.headers.itermerged()
        if name.lower() != "set-cookie" and not _CONTROL.search(value)
    }


@dataclass
class Incoming:
    """A reply in progress. `response`: None before its head has arrived. `is_whole`: the body is complete."""

    response: BaseHTTPResponse | None = None
    is_whole: bool = False
    # The body of a JSON document, and the event that was made of it.
    document: bytes = b""
    event: bytes = b""

    def as_events(self, pieces: Iterator[bytes], budget: Budget) -> Iterator[bytes]:
        """Yield the body as pieces of an event stream: a document becomes one event."""
        for piece in pieces:
            if not self._is_document:
                yield piece
                continue
            self.document += piece
            if len(self.document) > budget.limits.body:
                raise budget.too_large()
        self.is_whole = True
        if self.document:
            # JSON has line ends between values only, so blanks can replace them.
            line = self.document.replace(b"\r", b" ").replace(b"\n", b" ")
            self.event = b"data: " + line + b"\n\n"
            yield self.event

    def reply(self, body: bytes, url: str, *, has_second_stream: bool) -> Reply:
        """Return the reply with this body. `has_second_stream`: the body may contain events of two streams.

        A document without events of the other stream is returned as it was sent.
        """
        response = self.response
        if response is None:
            return Reply(HTTPStatus.OK, {"content-type": EVENTS}, body, url)
        headers = plain_headers(response)
        if has_second_stream and self._is_document:
            if body == self.event:
                body = self.document
            else:
                headers["content-type"] = EVENTS
        return Reply(response.status, headers, body, url)

    @property
    def _is_document(self) -> bool:
        kind = self.response.headers.get("content-type", "") if self.response else ""
        return kind.lower().startswith(DOCUMENT)
