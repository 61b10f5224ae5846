"""A reply as it comes in, which may be heard of only after what is read beside it."""

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
    """There is no `response` before its head has come. `is_whole`: nothing of it is still to come."""

    response: BaseHTTPResponse | None = None
    is_whole: bool = False
    # Of one that is a document, and that was made an event.
    document: bytes = b""
    event: bytes = b""

    def as_events(self, pieces: Iterator[bytes], budget: Budget) -> Iterator[bytes]:
        """Its pieces, so that they can stand among those of a stream of events: a document as one event."""
        for piece in pieces:
            if not self._is_document:
                yield piece
                continue
            self.document += piece
            if len(self.document) > budget.limits.body:
                raise budget.too_large()
        self.is_whole = True
        if self.document:
            # Between the values of JSON a line may end, and within them none does.
            line = self.document.replace(b"\r", b" ").replace(b"\n", b" ")
            self.event = b"data: " + line + b"\n\n"
            yield self.event

    def reply(self, body: bytes, url: str, *, is_beside: bool) -> Reply:
        """What has come as `body`; `is_beside` where that is of two streams. A document to which nothing came
        beside it is as it was sent."""
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
