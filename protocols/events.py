"""Server-sent events: a reply that is a stream of small messages.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

Unknown fields and comments are ignored, as is an event that the stream cuts off. The data of an event are
bytes: the standard repairs invalid UTF-8, and here the reader of the data decides.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.outbound.errors import ProtocolViolationError
from core.outbound.listening import EVENT_ENDS, MAX_EVENT_END

MAX_EVENTS = 10_000
MAX_LINES = 200_000
KIND = "text/event-stream"

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n)")
# These bytes show whether the body continues, or started again because the request was repeated.
_TAIL = 64


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """An event. name: "message" by default. data: may be empty, and may not be UTF-8.

    id, retry_ms: the last ones received: from where, and after how long, a broken stream resumes.
    """

    name: str
    data: bytes
    id: str = ""
    retry_ms: int = 0


def parse(body: bytes) -> Iterator[ServerSentEvent]:
    """Yield the complete events in `body`. Raises ProtocolViolationError: TOO_MANY_EVENTS."""
    name, last_id, retry_ms, count = b"", b"", 0, 0
    data: list[bytes] = []
    for number, match in enumerate(_LINE.finditer(body.removeprefix(_BOM))):
        if number >= MAX_LINES or count >= MAX_EVENTS:
            limits = f"{MAX_EVENTS:,} events or {MAX_LINES:,} lines"
            message = f"The reply streams more than {limits}; that is the limit."
            raise ProtocolViolationError("TOO_MANY_EVENTS", message)
        line = match[1]
        if not line:
            if data:
                yield ServerSentEvent(
                    _decode(name) or "message", b"\n".join(data), _decode(last_id), retry_ms
                )
                count += 1
            name, data = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            last_id = value
        elif field == b"retry" and len(value) < 10 and value.isdigit():
            retry_ms = int(value)


def until(is_wanted: Callable[[ServerSentEvent], bool]) -> Callable[[bytes], bool]:
    """Return an `is_enough` for a session that is True once a wanted event has arrived. It reads every
    event once."""
    length, start, tail, count = 0, 0, b"", 0

    def is_enough(body: bytes) -> bool:
        nonlocal length, start, tail, count
        if body[max(0, length - len(tail)) : length] != tail:  # the request was repeated
            length = start = count = 0
        # The part that was searched contains no event end, except one that was cut off.
        search_from = max(start, length - MAX_EVENT_END)
        end = max(
            (index + len(mark) for mark in EVENT_ENDS if (index := body.rfind(mark, search_from)) >= 0),
            default=start,
        )
        part, length, start, tail = body[start:end], len(body), end, body[-_TAIL:]
        for event in parse(part):
            count += 1
            if is_wanted(event):
                return True
        # `parse` rejects a body with more events and states why.
        return count > MAX_EVENTS

    return is_enough


def _decode(field: bytes) -> str:
    return field.decode(errors="replace")
