"""Replies that are streams of events. Each holds a thread for as long as it is open, so there are few."""

import threading
from collections.abc import Generator, Mapping
from typing import Any

import msgspec
from django.conf import settings

from executor.serve.base import EVENT_STREAM, Reply

# Of the threads that calls leave free.
STREAMS_IN_A_PROCESS = max(2, settings.CALLS_IN_A_PROCESS // 30)
LASTS = 300.0  # seconds
# So that a proxy does not close a silent stream, and we hear of a client that has gone.
PING_EVERY = 15.0
PING = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class Places:
    """How many streams of one kind may be open in this process."""

    def __init__(self, most: int = STREAMS_IN_A_PROCESS) -> None:
        self._free = threading.BoundedSemaphore(most)

    def take(self) -> bool:
        return self._free.acquire(blocking=False)

    def stream(self, events: Generator[bytes]) -> Reply:
        """Of a place that was taken; it is free again when the server closes the reply."""
        return Reply(body=_Stream(events, self._free), headers=_HEADERS, media_type=EVENT_STREAM)


class _Stream:
    """The server closes it, whether or not it was ever read."""

    def __init__(self, events: Generator[bytes], free: threading.BoundedSemaphore) -> None:
        self._events = events
        self._free = free
        self._is_held = True

    def __iter__(self) -> Generator[bytes]:
        return self._events

    def close(self) -> None:
        self._events.close()
        if self._is_held:
            self._is_held = False
            self._free.release()


def event(message: Mapping[str, Any]) -> bytes:
    return b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n"
