"""Replies that are streams of events. Each holds a thread for as long as it is open, so there are few."""

import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

import msgspec
from django.conf import settings

from people.models import ApiKey
from protocols.server import EVENT_STREAM, Reply

LASTS = 300.0  # seconds
# So that a proxy does not close a silent stream, and we hear of a client that has gone.
PING_EVERY = 15.0
PING = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def streams_in_a_process() -> int:
    """Return how many streams of one kind may be open. They need the threads that calls leave free."""
    return max(2, settings.CALLS_IN_A_PROCESS // 30)


class Places:
    """How many streams of one kind may be open in this process, and how many of them for one API key."""

    def __init__(
        self, most: Callable[[], int] = streams_in_a_process, *, for_one: Callable[[], int] | None = None
    ) -> None:
        self._most = most
        self._for_one = for_one or most
        self._held: Counter[int] = Counter()
        self._lock = threading.Lock()

    def take(self, key: ApiKey) -> bool:
        with self._lock:
            is_free = self._held.total() < self._most() and self._held[key.pk] < self._for_one()
            if is_free:
                self._held[key.pk] += 1
        return is_free

    def leave(self, key: ApiKey) -> None:
        with self._lock:
            # Keys that hold none any more go with it.
            self._held -= Counter([key.pk])

    def stream(self, events: Generator[bytes], key: ApiKey) -> Reply:
        """Of a place that was taken; it is free again when the server closes the reply."""
        body = _Stream(events, partial(self.leave, key))
        return Reply(body=body, headers=_HEADERS, media_type=EVENT_STREAM)


class _Stream:
    """The server closes it, whether or not it was ever read."""

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
