"""A call that is followed as it goes: what has come so far, and what came of it, in its order.

Who follows holds a thread and nothing else: a worker makes the call, which goes on when a follower hangs up.
"""

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from catalog.calls import events, invocation, queue
from catalog.calls.invocation import NoRoomError, NoRoomToFollowError
from catalog.calls.places import Holder
from catalog.models import Call
from core.postgresql.base import give_back
from designer.exports import wire
from designer.exports.document import ReleasedTool
from executor.calls import Answer, answer_of
from executor.released_documents import wires

Condition = Literal["started", "partial", "interrupted", "final", "error", "alive"]
LOOK_EVERY = 5.0  # seconds
# So that a proxy does not close a silent stream, and we hear of a follower that has gone.
ALIVE_EVERY = 15.0
# A follower comes back after this with the id of the last event.
LASTS = 900.0
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


@dataclass(frozen=True, kw_only=True)
class Told:
    """`partial` has `outputs`, which replace those before, `progress` or `custom`; any other condition but
    `alive` comes with the answer so far."""

    condition: Condition
    id: str = ""
    partial: Mapping[str, Any] | None = None
    answer: Answer | None = None


def follow(
    call: Call,
    tool: ReleasedTool,
    format_: str = "",
    after: str = "",
    place: ExitStack | None = None,
    alive_every: float = ALIVE_EVERY,
) -> "Followed":
    """From the beginning, or after the event of this id. `alive_every` so many seconds without anything else
    it is told that it goes on.

    `place` is what `placed` gave, and is taken over. Without one raises NoRoomToFollowError before anything
    is told.
    """
    with place or placed(invocation.holder_of(call), NoRoomToFollowError) as held:
        told = _told(call, tool, format_, after if _ID.fullmatch(after) else "", alive_every)
        return Followed(told, held.pop_all())


def placed(holder: Holder, error: type[NoRoomError] = NoRoomError) -> ExitStack:
    """A follower's place, for as long as the stack is open: who makes a call to follow it takes it before
    the call is written, so that a call that is refused for want of it was not made. Raises NoRoomError."""
    place = ExitStack()
    place.enter_context(invocation.room(holder, error))
    return place


class Followed:
    """Holds its place among the threads until it is closed, whether or not it was ever read."""

    def __init__(self, told: Generator[Told], place: ExitStack) -> None:
        self._told, self._place = told, place

    def __iter__(self) -> Generator[Told]:
        return self._told

    def close(self) -> None:
        self._told.close()
        self._place.close()


class Written:
    """The bytes of what is told. The server closes it, and so lets go of the follower's place."""

    def __init__(self, followed: Followed, written: Callable[[Told], bytes]) -> None:
        self._followed, self._written = followed, written

    def __iter__(self) -> Iterator[bytes]:
        return map(self._written, self._followed)

    def close(self) -> None:
        self._followed.close()


def _told(call: Call, tool: ReleasedTool, format_: str, after: str, alive_every: float) -> Generator[Told]:
    if not after:
        yield Told(condition="started", id=events.FIRST, answer=answer_of(call, tool, format_))
    seen, ends, spoke = after or events.FIRST, time.monotonic() + LASTS, time.monotonic()
    while time.monotonic() < ends:
        is_active = queue.settled(call).is_active
        give_back()
        heard = events.after(call.key, seen, min(LOOK_EVERY, alive_every) if is_active else 0.01)
        for event in heard:
            seen = event.id
            if event.kind == events.PARTIAL and (partial := _named(tool, event.data, format_)):
                spoke = time.monotonic()
                yield Told(condition="partial", id=seen, partial=partial)
        if not heard and not is_active:
            if call.outcome != "unknown":
                call.refresh_from_db()
            answer = answer_of(call, tool, format_)
            yield Told(condition=condition_of(answer), id=seen, answer=answer)
            return
        if time.monotonic() - spoke >= alive_every:
            spoke = time.monotonic()
            yield Told(condition="alive")


def condition_of(answer: Answer) -> Condition:
    if answer.outcome is None:
        return "started"
    if answer.outcome == "ok":
        return "final"
    is_asked = answer.outcome != "unavailable" and answer.result.resume is not None
    return "interrupted" if is_asked else "error"


def _named(tool: ReleasedTool, partial: dict[str, Any], format_: str) -> dict[str, Any]:
    outputs = partial.get("outputs")
    if not isinstance(outputs, dict):
        # What a designer hid may be said again where nothing is declared.
        return {} if tool.signature.hidden_outputs else partial
    names = wires(tool.signature, format_)[0]
    return {"outputs": wire.outputs_for_the_caller(tool.signature, names, outputs)}
