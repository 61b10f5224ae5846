"""`tools/call` answered with a stream: the vendor's progress notifications and log messages come before the
result, for a client that requests them.

Such a call runs in a second thread, and its events pass through the broker's server. So only tools whose
protocol can report progress get a stream; for all others the reply is the result.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
"""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any

from core.errors import DomainError
from protocols.mcp.server import results, tools
from protocols.mcp.server.clients import Client
from protocols.mcp.server.release import McpRelease
from protocols.mcp.server.streams import PING, PING_EVERY, encoded_event, event
from protocols.mcp.server.tools import RequestedNotifications
from protocols.server import (
    EVENT_STREAM,
    STREAM_HEADERS,
    CallEvents,
    FollowedCallEvent,
    ServerReply,
    ServerRequest,
    ToolCallResult,
)

CHECK_SECONDS = 2.0  # between two checks whether the client has closed the connection

# Makes the reply to the request from the result of the call.
FormatResult = Callable[[ToolCallResult], ServerReply]


def begin(
    request: ServerRequest,
    release: McpRelease,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
    format_result: FormatResult,
) -> ServerReply | dict[str, Any]:
    """Begin the call and return its stream, or its result if it has one already. `format_result` makes the
    reply at the end of the stream. Raises the errors of `tools.begin_call`.
    """
    call = _begin_call(request, release, client, params, requested)
    if isinstance(call, dict):
        return call
    # Since 2026-07-28 a client cancels by closing the stream; before, closing it has no meaning.
    stream = _CallStream(
        release, *call, requested, format_result, request.has_left if client.is_modern else None
    )
    return ServerReply(body=stream, headers=STREAM_HEADERS, media_type=EVENT_STREAM)


def stream_within(
    request: ServerRequest,
    release: McpRelease,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
) -> Generator[bytes, None, dict[str, Any]]:
    """Begin the call, yield its notifications for a stream that is already open, and return its result."""
    call = _begin_call(request, release, client, params, requested)
    if isinstance(call, dict):
        return call
    number, call_events = call
    with closing(call_events):
        result = yield from _generate_events(call_events, requested, None)
    return results.format_result(result or release.read_call(number), release, client)


def _begin_call(
    request: ServerRequest,
    release: McpRelease,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
) -> tuple[int, CallEvents] | dict[str, Any]:
    with release.reserve_room() as room:
        wants_progress = requested.token is not None
        result = tools.begin_call(
            request, release, client, params, is_followed=True, wants_progress=wants_progress
        )
        if not isinstance(result, ToolCallResult):
            return result
        if result.call is None or result.outcome is not None:
            return results.format_result(result, release, client)
        return result.call, release.follow(result.call, room, CHECK_SECONDS)


class _HasLeftError(Exception):
    """The client has closed its connection."""


def _generate_events(
    call_events: Iterable[FollowedCallEvent],
    requested: RequestedNotifications,
    has_left: Callable[[], bool] | None,
) -> Generator[bytes, None, ToolCallResult | None]:
    """Yield the events, and return the result; None if the stream ends while the call is running."""
    spoke = time.monotonic()
    for call_event in call_events:
        if call_event.result:
            return call_event.result
        if has_left and has_left():
            raise _HasLeftError
        if notification := requested.notification(call_event):
            spoke = time.monotonic()
            yield event(notification)
        elif time.monotonic() - spoke > PING_EVERY:
            spoke = time.monotonic()
            yield PING
    return None


class _CallStream:
    """The events of one call as bytes. The server closes it, whether or not it was read."""

    def __init__(
        self,
        release: McpRelease,
        call: int,
        call_events: CallEvents,
        requested: RequestedNotifications,
        format_result: FormatResult,
        has_left: Callable[[], bool] | None,
    ) -> None:
        self._release, self._call = release, call
        self._call_events, self._requested, self._format_result = call_events, requested, format_result
        self._has_left = has_left
        self._has_ended = False
        self._continuation: Iterable[bytes] = ()

    def __iter__(self) -> Generator[bytes]:
        try:
            result = yield from _generate_events(self._call_events, self._requested, self._has_left)
        except _HasLeftError:
            return
        result = result or self._release.read_call(self._call)
        self._has_ended = True
        # A call that continues after a question reserves a room of its own.
        self._call_events.close()
        reply = self._format_result(result)
        if isinstance(reply.body, bytes):
            yield encoded_event(reply.body)
        else:
            self._continuation = reply.body
            yield from self._continuation

    def close(self) -> None:
        self._call_events.close()
        # A stream with questions occupies a slot of its own.
        if close := getattr(self._continuation, "close", None):
            close()
        if self._has_left and not self._has_ended:
            # A call that has ended stays as it is.
            with suppress(DomainError):
                self._release.cancel(self._call)
