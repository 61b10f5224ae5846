"""Server-sent events: a reply that is a stream of small messages.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

Unknown fields and comments are passed over, and an event that the stream ends inside of is not one.
Where the standard mends broken text, this refuses it: what was mended is not what the vendor said.
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
# By these bytes it is seen whether the body goes on, or came anew because the request was sent again.
_TAIL = 64


@dataclass(frozen=True, slots=True)
class Event:
    """`name` is "message" unless the vendor gave one; `data` may be empty.

    `id` and `retry_ms` are the last ones given: where, and how much later, a stream that breaks off goes on.
    """

    name: str
    data: str
    id: str = ""
    retry_ms: int = 0


def parse(body: bytes) -> Iterator[Event]:
    """The whole events in `body`, lazily. Raises ProtocolViolationError: NOT_UTF8, TOO_MANY_EVENTS."""
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
                yield Event(_text(name) or "message", _text(b"\n".join(data)), _text(last_id), retry_ms)
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


def until(is_wanted: Callable[[Event], bool]) -> Callable[[bytes], bool]:
    """For `is_enough` of a session: true once an event that is wanted is there. Reads every event once."""
    seen, start, tail, count = 0, 0, b"", 0

    def is_enough(body: bytes) -> bool:
        nonlocal seen, start, tail, count
        if body[max(0, seen - len(tail)) : seen] != tail:  # the request was sent again
            seen = start = count = 0
        # What has been looked through already holds no end, except of what is cut off there.
        fresh = max(start, seen - MAX_EVENT_END)
        end = max(
            (place + len(mark) for mark in EVENT_ENDS if (place := body.rfind(mark, fresh)) >= 0),
            default=start,
        )
        part, seen, start, tail = body[start:end], len(body), end, body[-_TAIL:]
        for event in parse(part):
            count += 1
            if is_wanted(event):
                return True
        # `parse` refuses a body with more events, and says why.
        return count > MAX_EVENTS

    return is_enough


def _text(field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError as exc:
        raise ProtocolViolationError("NOT_UTF8", f"The reply is not UTF-8 (byte {exc.start}).") from exc
