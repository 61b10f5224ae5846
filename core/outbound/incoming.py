"""A reply while it arrives, possibly after events of a second stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from urllib3.response import BaseHTTPResponse

from core.outbound.limits import Budget
from core.outbound.reply import Reply
from core.outbound.response import plain_headers

EVENTS = "text/event-stream"
DOCUMENT = "application/json"


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

    def reply(self, body: bytes, url: str, *, is_beside: bool) -> Reply:
        """Return the reply with this body. `is_beside`: the body may contain events of two streams.

        A document without events of the other stream is returned as it was sent.
        """
        response = self.response
        if response is None:
            return Reply(HTTPStatus.OK, {"content-type": EVENTS}, body, url)
        headers = plain_headers(response)
        if is_beside and self._is_document:
            if body == self.event:
                body = self.document
            else:
                headers["content-type"] = EVENTS
        return Reply(response.status, headers, body, url)

    @property
    def _is_document(self) -> bool:
        kind = self.response.headers.get("content-type", "") if self.response else ""
        return kind.lower().startswith(DOCUMENT)
