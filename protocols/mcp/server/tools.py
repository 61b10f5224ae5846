"""`tools/list` and `tools/call`: the tools of a release, requests to run them, and the notifications that a
client requests for a call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from core.errors import DomainError
from protocols import cursors
from protocols.mcp import wire
from protocols.mcp.server import clients, log_levels, questions, results
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import Message, RefusedRequestError
from protocols.mcp.server.release import McpRelease
from protocols.mcp.wire import INVALID_PARAMS, LOG_LEVELS, META_LOG_LEVEL, USER, Number
from protocols.server import (
    CONFIRM_NEEDED,
    EVENT_STREAM,
    FollowedCallEvent,
    ServerRequest,
    ToolCallRequest,
    ToolCallResult,
    UnknownToolError,
)

# A page ends at the first limit that it reaches, and contains at least one tool.
PAGE_TOOLS, PAGE_BYTES = 100, 1024**2


def list_tools(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a page of tools. Raises RpcError for a cursor of another release: the client has to start
    again.
    """
    tools, cursor, start = release.tools(client), params.get("cursor"), 0
    if cursor is not None:
        position = cursors.decode_cursor(cursor, release.list_id, len(tools))
        if position is None:
            raise RefusedRequestError(INVALID_PARAMS, cursors.UNKNOWN_LIST)
        start = position
    page: list[msgspec.Raw] = []
    size = 0
    for tool in tools[start : start + PAGE_TOOLS]:
        size += len(memoryview(tool))
        if page and size > PAGE_BYTES:
            break
        page.append(tool)
    result: dict[str, Any] = {"tools": page}
    if (after := start + len(page)) < len(tools):
        result["nextCursor"] = cursors.encode_cursor(release.list_id, after)
    return result


def call_tool(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    result = begin_call(request, release, client, params)
    return results.format_result(result, release, client) if isinstance(result, ToolCallResult) else result


def begin_call(
    request: ServerRequest,
    release: McpRelease,
    client: Client,
    params: Mapping[str, Any],
    *,
    is_followed: bool = False,
    wants_progress: bool = False,
) -> ToolCallResult | dict[str, Any]:
    """Run the call and return its result, which is unfinished if the call `is_followed`. If it was not sent,
    return the message with the reason.
    """
    name, arguments = _named_arguments(params)
    if client.is_modern and (schema := release.input_schema(name)) is not None:
        clients.check_mirrored_headers(request, schema, arguments)
    try:
        continued = questions.continued_call(params) if "requestState" in params else None
        call = ToolCallRequest(
            tool_name=name,
            arguments=arguments,
            # A client without forms lets its user decide by the tool's annotations.
            is_confirmed=not client.asks_forms or questions.is_confirmed(params),
            call_name=request.call_name,
            user=user_of_agent(request, params),
            mark=client.mark,
            # Since 2026-07-28 a client cancels by closing its connection; before, closing it has no meaning.
            has_left=request.has_left if client.is_modern and not is_followed else None,
            questions=client.kinds,
            is_followed=is_followed,
            wants_progress=wants_progress,
        )
        if continued:
            return release.resume(continued[0], replace(call, arguments=continued[1]))
        result = release.run(call)
        ahead = questions.answers_ahead(params, result.asks) if client.is_modern else None
        if result.call and result.can_resume and ahead is not None:
            return release.resume(result.call, replace(call, arguments=ahead))
        return result
    except UnknownToolError as error:
        raise RefusedRequestError(INVALID_PARAMS, f"Unknown tool. {error.message}") from error
    except DomainError as error:
        if error.code == CONFIRM_NEEDED:
            if questions.has_answer_to_confirmation(params):
                return results.error_result(*results.NOT_CONFIRMED)
            return questions.confirmation(error.message)
        # A problem that a model can solve is a result; any other is an error of the protocol.
        if isinstance(error, RefusedRequestError) or error.status in (401, 403, 404, 429, 503):
            raise
        return results.error_result(error.code, error.message, error.fields)


def _named_arguments(params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RefusedRequestError(INVALID_PARAMS, "“name” is missing.")
    if arguments is not None and not isinstance(arguments, dict):
        raise RefusedRequestError(INVALID_PARAMS, "“arguments” is no object.")
    return name, arguments or {}


def result_without_answer(release: McpRelease, state: str | None) -> dict[str, Any]:
    """Return the result of a call whose question the user could not be asked. Without a `state`, the question
    was the confirmation, and the call was not sent.
    """
    if state is None:
        return results.error_result(*results.NOT_CONFIRMED)
    call, _ = questions.continued_call({"requestState": state}) or (0, {})
    return results.explain(release.read_call(call))


def give_up(release: McpRelease, state: str | None) -> None:
    """Abandon the question of a call that its client has cancelled. Without a `state`, the question was the
    confirmation, and there is no call.
    """
    if state is not None and (waiting_call := questions.continued_call({"requestState": state})):
        release.give_up(waiting_call[0])


def user_of_agent(request: ServerRequest, params: Mapping[str, Any]) -> str:
    meta = params.get("_meta")
    user = meta.get(USER) if isinstance(meta, dict) else None
    return request.user(user.get("id", "") if isinstance(user, dict) else user)


@dataclass(frozen=True)
class RequestedNotifications:
    """The notifications that a client requests for one call.

    token: the client's progress token, None if it requests no progress.
    level: the lowest level of log messages, "" for none.
    """

    token: Number | None
    level: str

    def notification(self, call_event: FollowedCallEvent) -> dict[str, Any] | None:
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
    request: ServerRequest, release: McpRelease, client: Client, message: Message
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
