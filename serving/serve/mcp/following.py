"""`tools/call` answered with a stream: the vendor's progress notifications and log messages come before the
result, for a client that requests them.

Such a call runs in a second thread, and its events pass through the broker's server. So only tools whose
protocol can report progress get a stream; for all others the reply is the result.

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
from serving.streams import CallStream, StreamEvent

CHECK_SECONDS = 2.0  # between two checks whether the client has closed the connection

# Makes the reply to the request from the result of the call.
FormatResult = Callable[[Answer], Reply]


@dataclass(frozen=True)
class RequestedNotifications:
    """The notifications that a client requests for one call.

    token: the client's progress token, None if it requests no progress.
    level: the lowest level of log messages, "" for none.
    """

    token: Number | None
    level: str

    def notification(self, stream_event: StreamEvent) -> dict[str, Any] | None:
        """Return the event as a notification; None if the client did not request it."""
        partial = stream_event.partial or {}
        progress, logged = partial.get("progress"), partial.get("custom")
        if self.token is not None and isinstance(progress, dict) and "progress" in progress:
            params = {"progressToken": self.token, **progress}
            return wire.notification("notifications/progress", params)
        if self.level and isinstance(logged, dict) and "data" in logged:
            level = logged.get("level")
            if level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(self.level):
                return wire.notification("notifications/message", logged)
        return None


def requested_notifications(
    request: Request, operations: Operations, client: Client, message: Message
) -> RequestedNotifications | None:
    """Return the notifications that the client requests and that the tool can send; None if the reply is to
    be the result alone.
    """
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
    requested = RequestedNotifications(
        token=token, level=level if isinstance(level, str) and level in LOG_LEVELS else ""
    )
    return requested if requested.token is not None or requested.level else None


def begin(
    request: Request,
    operations: Operations,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
    format_result: FormatResult,
) -> Reply | dict[str, Any]:
    """Begin the call and return its stream, or its result if it has one already. `format_result` makes the
    reply at the end of the stream. Raises the errors of `tools.begin_call`.
    """
    call = _begin_call(request, operations, client, params)
    if isinstance(call, dict):
        return call
    # Since 2026-07-28 a client cancels by closing the stream; before, closing it has no meaning.
    stream = _Stream(
        operations, *call, requested, format_result, request.has_left if client.is_modern else None
    )
    return Reply(body=stream, headers=streams.HEADERS, media_type=EVENT_STREAM)


def stream_within(
    request: Request,
    operations: Operations,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
) -> Generator[bytes, None, dict[str, Any]]:
    """Begin the call, yield its notifications for a stream that is already open, and return its result."""
    call = _begin_call(request, operations, client, params)
    if isinstance(call, dict):
        return call
    number, call_stream = call
    with closing(call_stream):
        answer = yield from _generate_events(call_stream, requested, None)
    return tools.result(answer or operations.read_call(number, format_=tools.FORMAT), operations, client)


def _begin_call(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> tuple[int, CallStream] | dict[str, Any]:
    with streams.reserve_room(operations.holder) as room:
        answer = tools.begin_call(request, operations, client, params, is_followed=True)
        if not isinstance(answer, Answer):
            return answer
        if answer.call is None or answer.outcome is not None:
            return tools.result(answer, operations, client)
        call_stream = operations.follow(
            answer.call.pk, format_=tools.FORMAT, place=room, alive_every=CHECK_SECONDS
        )
        return answer.call.pk, call_stream


class _HasLeftError(Exception):
    """The client has closed its connection."""


def _generate_events(
    call_stream: Iterable[StreamEvent], requested: RequestedNotifications, has_left: Callable[[], bool] | None
) -> Generator[bytes, None, Answer | None]:
    # Returns the answer at the end; None if the stream ends while the call is still running.
    spoke = time.monotonic()
    for stream_event in call_stream:
        if stream_event.answer and stream_event.condition != "started":
            return stream_event.answer
        if has_left and has_left():
            raise _HasLeftError
        if notification := requested.notification(stream_event):
            spoke = time.monotonic()
            yield event(notification)
        elif time.monotonic() - spoke > PING_EVERY:
            spoke = time.monotonic()
            yield PING
    return None


class _Stream:
    """The events of one call as bytes. The server closes it, whether or not it was read."""

    def __init__(
        self,
        operations: Operations,
        call: int,
        call_stream: CallStream,
        requested: RequestedNotifications,
        format_result: FormatResult,
        has_left: Callable[[], bool] | None,
    ) -> None:
        self._operations, self._call = operations, call
        self._call_stream, self._requested, self._format_result = call_stream, requested, format_result
        self._has_left = has_left
        self._has_ended = False
        self._continuation: Iterable[bytes] = ()

    def __iter__(self) -> Generator[bytes]:
        try:
            answer = yield from _generate_events(self._call_stream, self._requested, self._has_left)
        except _HasLeftError:
            return
        yield from self._end(answer or self._operations.read_call(self._call, format_=tools.FORMAT))

    def close(self) -> None:
        self._call_stream.close()
        # A stream with questions occupies a slot of its own.
        if close := getattr(self._continuation, "close", None):
            close()
        if self._has_left and not self._has_ended:
            # A call that has ended stays as it is.
            with suppress(DomainError):
                self._operations.cancel(self._call)

    def _end(self, answer: Answer) -> Iterable[bytes]:
        self._has_ended = True
        # A call that continues after a question reserves a room of its own.
        self._call_stream.close()
        reply = self._format_result(answer)
        if isinstance(reply.body, bytes):
            return [b"event: message\ndata: " + reply.body + b"\n\n"]
        self._continuation = reply.body
        return self._continuation
