"""`tools/call` answered with a stream, for a client that wants to hear how far its call is: what the vendor
tells of its progress, and its log messages, come before the result.

Such a call has a thread beside the one that answers, and what is told of it goes by way of the broker's
server. So it is only done for tools whose vendor has a word for progress; all others are waited for.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
"""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import protocols
from core.errors import DomainError
from protocols.mcp import wire
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import Message
from protocols.mcp.wire import LOG_LEVELS, META_LOG_LEVEL, Number
from protocols.server import EVENT_STREAM, Reply, Request
from serving import streams
from serving.calls import Answer
from serving.released_documents import sealed
from serving.serve.base import Operations
from serving.serve.mcp import log_levels, tools
from serving.serve.mcp.streams import PING, PING_EVERY, event
from serving.streams import Followed, Told

LOOK_EVERY = 2.0  # seconds, at a client that may have left

# The reply to the request, once it is known what came of the call.
Ended = Callable[[Answer], Reply]


@dataclass(frozen=True)
class Wanted:
    """`token` is what the client calls its request in what is told of it, None where it does not ask;
    `level` is the least of the log messages that it wants, "" for none."""

    token: Number | None
    level: str

    def notification(self, told: Told) -> dict[str, Any] | None:
        """What `told` is to this client; None for what it did not ask for."""
        partial = told.partial or {}
        progress, logged = partial.get("progress"), partial.get("custom")
        if self.token is not None and isinstance(progress, dict) and "progress" in progress:
            params = {"progressToken": self.token, **progress}
            return wire.notification("notifications/progress", params)
        if self.level and isinstance(logged, dict) and "data" in logged:
            level = logged.get("level")
            if level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(self.level):
                return wire.notification("notifications/message", logged)
        return None


def wanted(request: Request, operations: Operations, client: Client, message: Message) -> Wanted | None:
    """What a client wants to hear of its call before it ends, and may hear; None where it is waited for."""
    meta, name = message.params.get("_meta"), message.params.get("name")
    if message.method != "tools/call" or not isinstance(name, str):
        return None
    if EVENT_STREAM not in request.headers.get("Accept", "").lower():
        return None
    tool = sealed(operations.release).tool(name, operations.sub_agent)
    if tool is None or not tool.protocol or not protocols.get(tool.protocol).tells_progress:
        return None
    token = wire.id_of({"id": meta.get("progressToken")}) if isinstance(meta, dict) else None
    if client.is_modern:
        level = meta.get(META_LOG_LEVEL) if isinstance(meta, dict) else None
    else:
        # Before 2026-07-28 the level is set for a session.
        level = log_levels.find_level(operations, client)
    told = Wanted(token=token, level=level if isinstance(level, str) and level in LOG_LEVELS else "")
    return told if told.token is not None or told.level else None


def begun(
    request: Request,
    operations: Operations,
    client: Client,
    params: Mapping[str, Any],
    wanted: Wanted,
    ended: Ended,
) -> Reply | dict[str, Any]:
    """The stream of a call that was begun, or the result of one that needs no following. `ended` words the
    answer at the end of the stream. Raises what `tools.begun` does."""
    call = _begun(request, operations, client, params)
    if isinstance(call, dict):
        return call
    # Since 2026-07-28 a client cancels by closing the stream; before, that says nothing.
    stream = _Stream(operations, *call, wanted, ended, request.has_left if client.is_modern else None)
    return Reply(body=stream, headers=streams.HEADERS, media_type=EVENT_STREAM)


def within(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any], wanted: Wanted
) -> Generator[bytes, None, dict[str, Any]]:
    """The same where a stream is open already: what is told of the call, and then its result."""
    call = _begun(request, operations, client, params)
    if isinstance(call, dict):
        return call
    number, followed = call
    with closing(followed):
        answer = yield from _told(followed, wanted, None)
    return tools.result(answer or operations.read_call(number, format_=tools.FORMAT), operations, client)


def _begun(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> tuple[int, Followed] | dict[str, Any]:
    with streams.reserve_room(operations.holder) as place:
        answer = tools.begun(request, operations, client, params, is_followed=True)
        if not isinstance(answer, Answer):
            return answer
        if answer.call is None or answer.outcome is not None:
            return tools.result(answer, operations, client)
        followed = operations.follow(
            answer.call.pk, format_=tools.FORMAT, place=place, alive_every=LOOK_EVERY
        )
        return answer.call.pk, followed


class _HasLeftError(Exception):
    """The client has closed its connection."""


def _told(
    followed: Iterable[Told], wanted: Wanted, has_left: Callable[[], bool] | None
) -> Generator[bytes, None, Answer | None]:
    # The answer at the end; None where the stream has an end and the call has none so far.
    spoke = time.monotonic()
    for told in followed:
        if told.answer and told.condition != "started":
            return told.answer
        if has_left and has_left():
            raise _HasLeftError
        if notification := wanted.notification(told):
            spoke = time.monotonic()
            yield event(notification)
        elif time.monotonic() - spoke > PING_EVERY:
            spoke = time.monotonic()
            yield PING
    return None


class _Stream:
    """The server closes it, whether or not it was ever read."""

    def __init__(
        self,
        operations: Operations,
        call: int,
        followed: Followed,
        wanted: Wanted,
        ended: Ended,
        has_left: Callable[[], bool] | None,
    ) -> None:
        self._operations, self._call = operations, call
        self._followed, self._wanted, self._ended = followed, wanted, ended
        self._has_left = has_left
        self._has_ended = False
        self._goes_on: Iterable[bytes] = ()

    def __iter__(self) -> Generator[bytes]:
        try:
            answer = yield from _told(self._followed, self._wanted, self._has_left)
        except _HasLeftError:
            return
        yield from self._end(answer or self._operations.read_call(self._call, format_=tools.FORMAT))

    def close(self) -> None:
        self._followed.close()
        # A stream of its own holds a place.
        if close := getattr(self._goes_on, "close", None):
            close()
        if self._has_left and not self._has_ended:
            # A call that has ended is left as it is.
            with suppress(DomainError):
                self._operations.cancel(self._call)

    def _end(self, answer: Answer) -> Iterable[bytes]:
        self._has_ended = True
        # What goes on after a question takes a follower's place anew.
        self._followed.close()
        reply = self._ended(answer)
        if isinstance(reply.body, bytes):
            return [b"event: message\ndata: " + reply.body + b"\n\n"]
        self._goes_on = reply.body
        return self._goes_on
