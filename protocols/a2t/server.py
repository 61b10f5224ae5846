"""The server of A2T: lists the tools of a release, each with its immutable versions, and runs them.

https://datatracker.ietf.org/doc/html/draft-rosenberg-aiproto-a2t-00 sections 6 and 7. docs/runtimes.md
defines what the drafts leave open, such as the body of an error.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from core.errors import DomainError
from core.outbound.errors import printable
from protocols import cursors
from protocols.a2t import wire
from protocols.a2t.document import RESULT
from protocols.server import (
    NoSuchAddressError,
    Refusal,
    ServedTool,
    ServedVersion,
    Server,
    ServerRelease,
    ServerReply,
    ServerRequest,
    Snippet,
    ToolCallRequest,
    ToolCallResult,
    json_reply,
)

PAGE, MAX_PAGE = 100, 1000
# Each version may be in another release, which has to be read.
VERSIONS_PAGE, MAX_VERSIONS_PAGE = 20, 100
# The status of each outcome; 409 for all others. A failure behind Pegboard is 424, because 5xx would permit a
# retry.
STATUSES = {"invalid_arguments": 400, "ok": 424, "tool_error": 424, "unavailable": 424, "unknown": 424}
_PATH = re.compile(r"tools(?:/([^/]+?)(/versions(?:/([0-9]{1,9}))?)?)?(:invoke)?/?")


class A2TServer(Server[ServerRelease]):
    name = "a2t"
    label = "A2T / N-ACT"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        return super().snippets(f"{address}{wire.TOOLS}", agent)

    def answer(self, request: ServerRequest, release: ServerRelease) -> ServerReply:
        path = _PATH.fullmatch(request.path)
        if path is None:
            raise NoSuchAddressError
        tool_id, versions, number, invokes = path.groups()
        if invokes:
            # Lists cannot be run.
            if not tool_id or (versions and not number):
                raise NoSuchAddressError
            if refused := self.refuse_method(request, "POST"):
                return refused
            return _run(request, release, tool_id, number)
        if refused := self.refuse_method(request, "GET"):
            return refused
        if tool_id and versions and not number:
            all_versions = _versions(release, tool_id)
            list_id = f"{release.list_id} {all_versions[0].tool_id}"
            page = _page(request, all_versions, list_id, default=VERSIONS_PAGE, maximum=MAX_VERSIONS_PAGE)
            tools = [release.find_version(version) for version in page["items"]]
            return _document_reply(
                page | {"items": [_with_current(tool[1], all_versions).document for tool in tools if tool]}
            )
        if tool_id:
            return _document_reply(_find_tool(release, tool_id, number)[1].document)
        tags = set(request.query.get(wire.TAG, ()))
        documents = [tool.document for tool in release.tools() if tags <= set(tool.document.get("tags", ()))]
        list_id = f"{release.list_id} {sorted(tags)}"
        return _document_reply(_page(request, documents, list_id, default=PAGE, maximum=MAX_PAGE))

    def refusal(self, refusal: Refusal, body: bytes) -> ServerReply:
        error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
        if refusal.fields:
            error["fields"] = refusal.fields
        return json_reply(error, refusal.status)


def _document_reply(document: object) -> ServerReply:
    # The bytes are equal for as long as the address points to the same release.
    body = msgspec.json.encode(document)
    return ServerReply(body=body, headers={"ETag": f'"{hashlib.sha256(body).hexdigest()}"'})


def _page(
    request: ServerRequest, rows: Sequence[Any], list_id: str, *, default: int, maximum: int
) -> dict[str, Any]:
    text = request.parameters.get(wire.PAGE_LIMIT, str(default))
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text) > 0):
        raise DomainError("invalid_page_limit", "“pageLimit” must be a whole number, 1 or more.")
    limit, start = min(int(text), maximum), 0
    if cursor := request.parameters.get(wire.PAGE_CURSOR, ""):
        position = cursors.decode_cursor(cursor, list_id, len(rows))
        if position is None:
            raise DomainError("invalid_cursor", cursors.UNKNOWN_LIST)
        start = position
    end = start + limit
    following = cursors.encode_cursor(list_id, end) if end < len(rows) else None
    return wire.page(list(rows[start:end]), limit, following)


def _versions(release: ServerRelease, tool_id: str) -> Sequence[ServedVersion]:
    versions = release.versions(tool_id)
    if not versions:
        message = f"This release has no tool “{printable(tool_id, 60)}”. GET the list of tools."
        raise DomainError("not_found", message, status=404)
    return versions


def _with_current(tool: ServedTool, versions: Sequence[ServedVersion]) -> ServedTool:
    # The only member of a version that may change.
    document = {**tool.document, "currentVersion": int(versions[0].label)}
    return ServedTool(tool.version, tool.name, document)


def _find_tool(release: ServerRelease, tool_id: str, number: str | None) -> tuple[ServerRelease, ServedTool]:
    """Return the tool in one version, by default in that of this release, and the release that runs it."""
    versions = _versions(release, tool_id)
    if number is None:
        matches = (tool for tool in release.tools() if tool.version.tool_id == versions[0].tool_id)
        if tool := next(matches, None):
            return release, tool
        message = (
            "This release does not list the tool. Its versions can be called by their numbers, and the list "
            "of tools contains its replacement, if there is one."
        )
        raise DomainError("not_listed", message, status=404)
    version = next((version for version in versions if version.label == str(int(number))), None)
    older = release.find_version(version) if version else None
    if older is None:
        reason = "Every release with it is retired." if version else f"The newest is {versions[0].label}."
        message = f"This tool has no version {number}. {reason}"
        raise DomainError("version_not_found", message, status=404)
    return older[0], _with_current(older[1], versions)


def _run(request: ServerRequest, release: ServerRelease, tool_id: str, number: str | None) -> ServerReply:
    try:
        runner, tool = _find_tool(release, tool_id, number)
    except DomainError:
        release.report_unknown_tool(tool_id)
        raise
    call = ToolCallRequest(
        tool_name=tool.name,
        arguments=_arguments(request.document, tool),
        is_confirmed=request.is_confirmed,
        call_name=request.call_name,
        user=request.user(),
    )
    result = runner.run(call)
    if result.transfer is not None:
        return json_reply(wire.result({RESULT: result.transfer}))
    if result.is_success:
        notes = {"notes": result.notes} if result.notes else {}
        return json_reply(wire.result(result.outputs) | notes)
    error = _error(result)
    status, headers = STATUSES.get(result.outcome or "", 409), {}
    if retry := result.retry:
        error["retry"] = retry
        # A 5xx status makes the client repeat the call, which is right only if that is safe and useful.
        if result.outcome != "unknown" and retry.can_retry and retry.is_transient and not retry.hint:
            status = 503
        if retry.after_ms is not None:
            headers["Retry-After"] = str(-(-retry.after_ms // 1000))
    return json_reply(error, status, headers)


def _arguments(body: object, tool: ServedTool) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise DomainError("invalid_body", "The body is not an object.")
    name, entries = body.get("name"), body.get(wire.INPUTS)
    if name is not None and name != tool.document["name"]:
        message = f"The name of this tool is “{tool.document['name']}”, but the body contains another name."
        raise DomainError("name_mismatch", message)
    if not isinstance(entries, list | None):
        raise DomainError("invalid_body", f"“{wire.INPUTS}” is not an array.")
    arguments: dict[str, Any] = {}
    for entry in wire.names_and_values(entries or ()):
        if entry is None:
            raise DomainError("invalid_body", "An input parameter is not an object with a “name”.")
        input_name, value = entry
        if input_name in arguments:
            fields = {input_name: "is in the body twice"}
            raise DomainError("invalid_arguments", "Some inputs do not fit.", fields=fields)
        # A client may send null for an omitted input.
        if value is not None:
            arguments[input_name] = value
    return arguments


def _error(result: ToolCallResult) -> dict[str, Any]:
    error: dict[str, Any] = {"code": result.code, "message": result.message}
    if result.fields:
        error["fields"] = result.fields
    if result.outcome == "tool_error" and result.outputs:
        error |= wire.result(result.outputs)
    if result.asks:
        asks = [
            {"id": ask.id, "message": ask.message, "schema": ask.schema, "url": ask.url or None}
            for ask in result.asks
        ]
        error["asks"] = [{name: value for name, value in ask.items() if value is not None} for ask in asks]
    if result.output_schema is not None:
        error["output_schema"] = result.output_schema
    if result.notes:
        error["notes"] = result.notes
    return error
