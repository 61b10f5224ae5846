"""What happens to a call while it is under way, for those who follow it, in whichever process.

Events lie in a stream of the broker's server for an hour, in their order: who comes back asks for those after
the last one. They are a hint and may be lost: what became of a call stands in its row.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import redis

from catalog.calls import results
from catalog.models import Call
from catalog.models.calls import Mode
from core import redis_client

logger = logging.getLogger(__name__)

KEPT_SECONDS = 3600
MAX_EVENTS = 1000
MAX_EVENT_BYTES = 64 * 1024
MAX_PARTIAL_BYTES = 4 * 1024 * 1024  # of one call
# Without the server a follower looks at the row this often.
LOOK_EVERY = 1.0
FIRST = "0-0"
PARTIAL, ENDED = "partial", "ended"


@dataclass(frozen=True)
class Event:
    id: str
    kind: str
    data: dict[str, Any]


def tell(call: uuid.UUID, kind: str, data: dict[str, Any] | None = None) -> None:
    """Never raises: the call goes on whether or not it can be followed."""
    said = msgspec.json.encode(data or {})
    if len(said) > MAX_EVENT_BYTES:
        return
    key = _key(call)
    try:
        pipeline = redis_client.client().pipeline(transaction=False)
        pipeline.xadd(key, {"kind": kind, "data": said.decode()}, maxlen=MAX_EVENTS, approximate=True)
        pipeline.expire(key, KEPT_SECONDS)
        pipeline.execute()
    except redis.RedisError as exc:
        logger.warning("who follows call %s is not told: %s", call, exc)


def last(call: uuid.UUID) -> Event | None:
    try:
        newest: Any = redis_client.client().xrevrange(_key(call), count=1)
    except redis.RedisError:
        return None
    return _read(newest[0]) if newest else None


def last_partial(call: uuid.UUID) -> dict[str, Any] | None:
    """What was told last of what the call has come to; None where nothing was."""
    try:
        newest: Any = redis_client.client().xrevrange(_key(call), count=10)
    except redis.RedisError:
        return None
    told = (_read(each) for each in newest)
    return next((event.data for event in told if event.kind == PARTIAL), None)


def after(call: uuid.UUID, event_id: str, seconds: float) -> list[Event]:
    """The events after this one, the oldest first; nothing where none came within so many seconds."""
    wait = min(seconds, redis_client.MAX_WAIT_SECONDS)
    if wait <= 0:
        return []
    try:
        # Zero would block without an end.
        found: Any = redis_client.waiting_client().xread(
            {_key(call): event_id}, count=100, block=max(1, round(wait * 1000))
        )
    except redis.RedisError as exc:
        logger.warning("call %s is followed by its row alone: %s", call, exc)
        time.sleep(min(wait, LOOK_EVERY))
        return []
    return [_read(each) for _, events in found or () for each in events]


def follower_of(call: Call) -> "Partials | None":
    return Partials(call.key) if call.mode == Mode.STREAM else None


class Partials:
    """Passes on what a call has come to so far; a vendor that says more than is kept is not passed on."""

    def __init__(self, call: uuid.UUID) -> None:
        self._call = call
        self._left = MAX_PARTIAL_BYTES

    def __call__(self, partial: Mapping[str, Any]) -> None:
        sound = results.sound(dict(partial))
        self._left -= len(msgspec.json.encode(sound))
        if self._left > 0:
            tell(self._call, PARTIAL, sound)


def _key(call: uuid.UUID) -> str:
    return f"pegboard:call:{call}"


def _read(entry: tuple[str, dict[str, str]]) -> Event:
    number, said = entry
    return Event(number, said["kind"], msgspec.json.decode(said["data"], type=dict[str, Any]))
