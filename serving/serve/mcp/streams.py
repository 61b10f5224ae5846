"""Replies that are streams of events. Each occupies a thread while it is open, so their number is limited."""

import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

import msgspec
from django.conf import settings

from people.models import ApiKey
from protocols.server import EVENT_STREAM, Reply

STREAM_SECONDS = 300.0  # seconds
# So that a proxy does not close a silent stream, and a client that has left is noticed.
PING_EVERY = 15.0
PING = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def streams_in_a_process() -> int:
    """Return how many streams of one kind may be open. They need the threads that calls leave free."""
    return max(2, settings.CALLS_IN_A_PROCESS // 30)


class StreamSlots:
    """Limits the open streams of one kind in this process, and those of one API key."""

    def __init__(
        self,
        limit: Callable[[], int] = streams_in_a_process,
        *,
        limit_for_key: Callable[[], int] | None = None,
    ) -> None:
        self._limit = limit
        self._limit_for_key = limit_for_key or limit
        self._open: Counter[int] = Counter()
        self._lock = threading.Lock()

    def take(self, key: ApiKey) -> bool:
        with self._lock:
            is_free = self._open.total() < self._limit() and self._open[key.pk] < self._limit_for_key()
            if is_free:
                self._open[key.pk] += 1
        return is_free

    def leave(self, key: ApiKey) -> None:
        with self._lock:
            # The subtraction also drops keys without open streams.
            self._open -= Counter([key.pk])

    def stream(self, events: Generator[bytes], key: ApiKey) -> Reply:
        """Return a reply with the events. Its slot, which `take` has reserved, is free when the reply
        closes.
        """
        body = _Stream(events, partial(self.leave, key))
        return Reply(body=body, headers=_HEADERS, media_type=EVENT_STREAM)


class _Stream:
    """A response body that frees its slot once. The server closes it, whether or not it was read."""

    def __init__(self, events: Generator[bytes], leave: Callable[[], None]) -> None:
        self._events = events
        self._leave = leave
        self._is_held = True

    def __iter__(self) -> Generator[bytes]:
        return self._events

    def close(self) -> None:
        self._events.close()
        if self._is_held:
            self._is_held = False
            self._leave()


def event(message: Mapping[str, Any]) -> bytes:
    return b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n"
