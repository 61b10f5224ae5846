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

from core.errors import DomainError
from protocols.mcp import wire
from protocols.mcp.server import log_levels, results, tools
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import Message
from protocols.mcp.server.release import Release
from protocols.mcp.server.streams import PING, PING_EVERY, encoded_event, event
from protocols.mcp.wire import LOG_LEVELS, META_LOG_LEVEL, Number
from protocols.server import (
    EVENT_STREAM,
    STREAM_HEADERS,
    CallEvent,
    CallEvents,
    Reply,
    Request,
    ToolCallResult,
)

CHECK_SECONDS = 2.0  # between two checks whether the client has closed the connection

# Makes the reply to the request from the result of the call.
FormatResult = Callable[[ToolCallResult], Reply]


@dataclass(frozen=True)
class RequestedNotifications:
    """The notifications that a client requests for one call.

    token: the client's progress token, None if it requests no progress.
    level: the lowest level of log messages, "" for none.
    """

    token: Number | None
    level: str

    def notification(self, call_event: CallEvent) -> dict[str, Any] | None:
        """Return the event as a notification; None if the client did not request it."""
        partial = call_event.partial or {}
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
    request: Request, release: Release, client: Client, message: Message
) -> RequestedNotifications | None:
    """Return the notifications that the client requests and that the tool can send; None if the reply is to
    be the result alone.
    """
    meta, name = message.params.get("_meta"), message.params.get("name")
    if message.method != "tools/call" or not isinstance(name, str):
        return None
    if EVENT_STREAM not in request.headers.get("Accept", "").lower():
        return None
    if not release.reports_progress(name):
        return None
    token = wire.id_of({"id": meta.get("progressToken")}) if isinstance(meta, dict) else None
    if client.is_modern:
        level = meta.get(META_LOG_LEVEL) if isinstance(meta, dict) else None
    else:
        # Before 2026-07-28 the level is set for a session.
        level = log_levels.find_level(release, client)
    requested = RequestedNotifications(
        token=token, level=level if isinstance(level, str) and level in LOG_LEVELS else ""
    )
    return requested if requested.token is not None or requested.level else None


def begin(
    request: Request,
    release: Release,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
    format_result: FormatResult,
) -> Reply | dict[str, Any]:
    """Begin the call and return its stream, or its result if it has one already. `format_result` makes the
    reply at the end of the stream. Raises the errors of `tools.begin_call`.
    """
    call = _begin_call(request, release, client, params)
    if isinstance(call, dict):
        return call
    # Since 2026-07-28 a client cancels by closing the stream; before, closing it has no meaning.
    stream = _CallStream(
        release, *call, requested, format_result, request.has_left if client.is_modern else None
    )
    return Reply(body=stream, headers=STREAM_HEADERS, media_type=EVENT_STREAM)


def stream_within(
    request: Request,
    release: Release,
    client: Client,
    params: Mapping[str, Any],
    requested: RequestedNotifications,
) -> Generator[bytes, None, dict[str, Any]]:
    """Begin the call, yield its notifications for a stream that is already open, and return its result."""
    call = _begin_call(request, release, client, params)
    if isinstance(call, dict):
        return call
    number, call_events = call
    with closing(call_events):
        result = yield from _generate_events(call_events, requested, None)
    return results.format_result(result or release.read_call(number), release, client)


def _begin_call(
    request: Request, release: Release, client: Client, params: Mapping[str, Any]
) -> tuple[int, CallEvents] | dict[str, Any]:
    with release.reserve_room() as room:
        result = tools.begin_call(request, release, client, params, is_followed=True)
        if not isinstance(result, ToolCallResult):
            return result
        if result.call is None or result.outcome is not None:
            return results.format_result(result, release, client)
        return result.call, release.follow(result.call, room, CHECK_SECONDS)


class _HasLeftError(Exception):
    """The client has closed its connection."""


def _generate_events(
    call_events: Iterable[CallEvent], requested: RequestedNotifications, has_left: Callable[[], bool] | None
) -> Generator[bytes, None, ToolCallResult | None]:
    # Returns the result at the end; None if the stream ends while the call is still running.
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
        release: Release,
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
        yield from self._end(result or self._release.read_call(self._call))

    def close(self) -> None:
        self._call_events.close()
        # A stream with questions occupies a slot of its own.
        if close := getattr(self._continuation, "close", None):
            close()
        if self._has_left and not self._has_ended:
            # A call that has ended stays as it is.
            with suppress(DomainError):
                self._release.cancel(self._call)

    def _end(self, result: ToolCallResult) -> Iterable[bytes]:
        self._has_ended = True
        # A call that continues after a question reserves a room of its own.
        self._call_events.close()
        reply = self._format_result(result)
        if isinstance(reply.body, bytes):
            return [encoded_event(reply.body)]
        self._continuation = reply.body
        return self._continuation
