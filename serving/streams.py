"""The stream of a call: its events so far, then its result, in order."""

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from catalog.models import Call
from core.postgresql.base import give_back
from designer.exports import wire
from designer.exports.document import ReleasedTool
from execution.calls import events, places, queue
from execution.calls.masking import is_masked, masked_call
from execution.calls.places import Holder, NoRoomError, NoRoomToFollowError
from people.models import ApiKey
from protocols.server import EventCondition
from serving.calls import Answer, answer_of
from serving.released_documents import wires

POLL_SECONDS = 5.0  # seconds
# So that a proxy does not close a silent stream, and a disconnected follower is noticed.
KEEPALIVE_SECONDS = 15.0
# After this time the follower reconnects with the id of the last event.
MAX_STREAM_SECONDS = 900.0
_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


@dataclass(frozen=True, kw_only=True)
class StreamEvent:
    """An event. `partial` contains `outputs`, which replace earlier ones, `progress` or `custom`; every other
    condition except `alive` has the answer so far.
    """

    condition: EventCondition
    id: str = ""
    partial: Mapping[str, Any] | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class StreamedCall:
    """A call of a released tool, streamed to a key by the names of a format."""

    call: Call
    tool: ReleasedTool
    key: ApiKey | None
    format_: str = ""

    def answer(self) -> Answer:
        """Return the result of the call so far, as the key may read it."""
        return answer_of(masked_call(self.call, self.key), self.tool, self.format_)


def follow(
    streamed_call: StreamedCall,
    *,
    after: str = "",
    place: ExitStack | None = None,
    alive_every: float = KEEPALIVE_SECONDS,
) -> "CallStream":
    """Stream the call from the beginning, or after the event with the id `after`. After `alive_every` seconds
    without an event an `alive` event is sent.

    `place` comes from `reserve_room`; the stream closes it. Without one, raises NoRoomToFollowError before
    the first event.
    """
    holder = places.holder_of(streamed_call.call)
    with place or reserve_room(holder, NoRoomToFollowError) as room_stack:
        event_stream = _generate_events(streamed_call, after if _ID.fullmatch(after) else "", alive_every)
        return CallStream(event_stream, room_stack.pop_all())


def reserve_room(holder: Holder, error: type[NoRoomError] = NoRoomError) -> ExitStack:
    """Reserve room for a follower as long as the stack is open. Reserved before the call is stored, so that a
    call that is refused for lack of room is not sent. Raises NoRoomError.
    """
    stack = ExitStack()
    stack.enter_context(places.room(holder, error))
    return stack


class CallStream:
    """Occupies its room among the threads until it is closed, whether or not it is read."""

    def __init__(self, stream_events: Generator[StreamEvent], room: ExitStack) -> None:
        self._events, self._room = stream_events, room

    def __iter__(self) -> Generator[StreamEvent]:
        return self._events

    def close(self) -> None:
        self._events.close()
        self._room.close()


class EncodedStream:
    """The bytes of the events. The server closes it, which frees the follower's room."""

    def __init__(self, call_stream: CallStream, encode: Callable[[StreamEvent], bytes]) -> None:
        self._call_stream, self._encode = call_stream, encode

    def __iter__(self) -> Iterator[bytes]:
        return map(self._encode, self._call_stream)

    def close(self) -> None:
        self._call_stream.close()


def _generate_events(streamed_call: StreamedCall, after: str, alive_every: float) -> Generator[StreamEvent]:
    call, tool = streamed_call.call, streamed_call.tool
    # Partial results may repeat any part of an input, so a key that gets masks gets none of them.
    gets_masks = is_masked(call, streamed_call.key)
    if not after:
        yield StreamEvent(condition="started", id=events.FIRST, answer=streamed_call.answer())
    last_id, deadline, last_sent_at = (
        after or events.FIRST,
        time.monotonic() + MAX_STREAM_SECONDS,
        time.monotonic(),
    )
    while time.monotonic() < deadline:
        is_active = queue.current_call(call).is_active
        give_back()
        new_events = events.events_after(
            call.key, last_id, min(POLL_SECONDS, alive_every) if is_active else 0.01
        )
        for event in new_events:
            last_id = event.id
            if gets_masks or event.kind != events.PARTIAL:
                continue
            outputs = event.data.get("outputs")
            if not isinstance(outputs, dict):
                # Without declared outputs the data may repeat what a designer has hidden.
                partial = {} if tool.signature.hidden_outputs else event.data
            else:
                names = wires(tool.signature, streamed_call.format_)[0]
                partial = {"outputs": wire.outputs_for_the_caller(tool.signature, names, outputs)}
            if partial:
                last_sent_at = time.monotonic()
                yield StreamEvent(condition="partial", id=last_id, partial=partial)
        if not new_events and not is_active:
            if call.outcome != "unknown":
                call.refresh_from_db()
            answer = streamed_call.answer()
            yield StreamEvent(condition=condition_of(answer), id=last_id, answer=answer)
            return
        if time.monotonic() - last_sent_at >= alive_every:
            last_sent_at = time.monotonic()
            yield StreamEvent(condition="alive")


def condition_of(answer: Answer) -> EventCondition:
    if answer.outcome is None:
        return "started"
    if answer.outcome == "ok":
        return "final"
    waits_for_answer = answer.outcome != "unavailable" and answer.result.resume is not None
    return "interrupted" if waits_for_answer else "error"
