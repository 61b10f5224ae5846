"""Replies that are streams of messages."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

import msgspec

from protocols.server import EVENT_STREAM, STREAM_HEADERS, ServerReply

STREAM_SECONDS = 300.0  # seconds
# So that a proxy does not close a silent stream, and a client that has left is noticed.
PING_EVERY = 15.0
PING = b": ping\n\n"


def stream_reply(events: Generator[bytes], leave: Callable[[], None]) -> ServerReply:
    """Return a reply with the events. `leave` frees the slot of the stream when the reply closes."""
    return ServerReply(body=_Stream(events, leave), headers=STREAM_HEADERS, media_type=EVENT_STREAM)


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
    return encoded_event(msgspec.json.encode(message))


def encoded_event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"
