"""Events of running calls, for clients that follow them in any process.

A stream of the broker stores them for an hour, in order, so a client can resume after the last one it
received.
Events are hints and may be lost. The row of a call has its state.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import redis

from core import redis_client
from execution.calls import results

logger = logging.getLogger(__name__)

RETENTION_SECONDS = 3600
MAX_EVENTS = 1000
MAX_EVENT_BYTES = 64 * 1024
MAX_PARTIAL_BYTES = 4 * 1024 * 1024
# A follower reads the row this often if the broker is unavailable.
POLL_SECONDS = 1.0
FIRST = "0-0"
PARTIAL, ENDED = "partial", "ended"


@dataclass(frozen=True)
class CallEvent:
    id: str
    kind: str
    data: dict[str, Any]


def publish(call: uuid.UUID, kind: str, data: dict[str, Any] | None = None) -> None:
    """Publish an event. Never raises, because the call does not depend on its followers."""
    payload = msgspec.json.encode(data or {})
    if len(payload) > MAX_EVENT_BYTES:
        return
    key = _redis_key(call)
    try:
        pipeline = redis_client.client().pipeline(transaction=False)
        pipeline.xadd(key, {"kind": kind, "data": payload.decode()}, maxlen=MAX_EVENTS, approximate=True)
        pipeline.expire(key, RETENTION_SECONDS)
        pipeline.execute()
    except redis.RedisError as exc:
        logger.warning("an event of call %s was not published: %s", call, exc)


def last(call: uuid.UUID) -> CallEvent | None:
    try:
        newest: Any = redis_client.client().xrevrange(_redis_key(call), count=1)
    except redis.RedisError:
        return None
    return _parse_event(newest[0]) if newest else None


def last_partial(call: uuid.UUID) -> dict[str, Any] | None:
    """Return the last partial result of a call, or None."""
    try:
        newest: Any = redis_client.client().xrevrange(_redis_key(call), count=10)
    except redis.RedisError:
        return None
    events = (_parse_event(entry) for entry in newest)
    return next((event.data for event in events if event.kind == PARTIAL), None)


def events_after(call: uuid.UUID, event_id: str, seconds: float) -> list[CallEvent]:
    """Return the events after this one, oldest first, or [] if none arrives within `seconds`."""
    timeout = min(seconds, redis_client.MAX_WAIT_SECONDS)
    if timeout <= 0:
        return []
    try:
        # Zero would block for ever.
        streams: Any = redis_client.waiting_client().xread(
            {_redis_key(call): event_id}, count=100, block=max(1, round(timeout * 1000))
        )
    except redis.RedisError as exc:
        logger.warning("call %s is followed only by its row: %s", call, exc)
        time.sleep(min(timeout, POLL_SECONDS))
        return []
    return [_parse_event(entry) for _, events in streams or () for entry in events]


class Partials:
    """Publishes the partial results of a call, up to a limit of bytes."""

    def __init__(self, call: uuid.UUID) -> None:
        self._call = call
        self._left = MAX_PARTIAL_BYTES

    def __call__(self, partial: Mapping[str, Any]) -> None:
        sound = results.sound(dict(partial))
        self._left -= len(msgspec.json.encode(sound))
        if self._left > 0:
            publish(self._call, PARTIAL, sound)


def _redis_key(call: uuid.UUID) -> str:
    return f"pegboard:call:{call}"


def _parse_event(entry: tuple[str, dict[str, str]]) -> CallEvent:
    event_id, fields = entry
    return CallEvent(event_id, fields["kind"], msgspec.json.decode(fields["data"], type=dict[str, Any]))
