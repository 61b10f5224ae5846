"""The server of OXP (Open Execution Protocol 1.0, draft), in both wire forms. A reply has the form of its
call.

https://github.com/OpenExecProtocol/Specification
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from core import strict_json
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from protocols.oxp import wire
from protocols.server import (
    NoSuchAddressError,
    Refusal,
    ServedTool,
    Server,
    ServerRelease,
    ServerReply,
    ServerRequest,
    Snippet,
    ToolCallRequest,
    ToolCallResult,
    json_reply,
)

MAX_CALL_ID_LENGTH = 255
_SUPPORTED_VERSION = re.compile(r"1(?:\.0){0,2}")
_TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]{1,9})(?:\.([0-9]{1,9})\.([0-9]{1,9}))?)?")
# Statuses about the HTTP request and not about the call.
_HTTP_STATUSES = (401, 405, 413, 429)


class OXPServer(Server[ServerRelease]):
    name = "oxp"
    label = "OXP"
    key_header = wire.KEY_HEADER

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        return super().snippets(f"{address}{wire.TOOLS}", agent)

    def answer_anyone(self, request: ServerRequest, is_ready: Callable[[], bool]) -> ServerReply | None:
        if _path_of(request) != wire.HEALTH or request.method not in ("GET", "HEAD"):
            return None
        if not is_ready():
            return json_reply({"status": "unavailable"}, 503, wire.VERSION_HEADERS)
        return json_reply({"status": "ok"}, headers=wire.VERSION_HEADERS)

    def answer(self, request: ServerRequest, release: ServerRelease) -> ServerReply:
        version = request.headers.get(wire.VERSION_HEADER, wire.VERSION).strip()
        if not _SUPPORTED_VERSION.fullmatch(version):
            message = f"OXP {printable(version, 20)} is not supported. Use version {wire.VERSION}."
            raise DomainError("version_not_supported", message)
        path = _path_of(request)
        if path not in (wire.TOOLS, wire.CALL):
            raise NoSuchAddressError
        if refused := self.refuse_method(request, "POST" if path == wire.CALL else "GET"):
            return refused
        if path == wire.CALL:
            return _run_tool(request, release)
        items = []
        for document in (tool.document for tool in release.tools()):
            # An export contains “any value” for unknown outputs, which a client would read as an output.
            is_any = document.get("output_schema") == {}
            items.append({m: value for m, value in document.items() if not (is_any and m == "output_schema")})
        return json_reply({"items": items}, headers=wire.VERSION_HEADERS)

    def refusal(self, refusal: Refusal, body: bytes) -> ServerReply:
        # A call that cannot be run gets 400 for every reason. Only lists and HTTP errors have other statuses.
        status, form = refusal.status, None
        with suppress(ProtocolViolationError):
            form = wire.form_of(strict_json.loads(body, allow_unstorable=True) if body.strip() else None)
        if (form and status not in _HTTP_STATUSES) or (form == "bare" and status == 401):
            status = wire.NOT_RUN
        error = {"message": refusal.message, "developer_message": refusal.code}
        return json_reply(error, status, wire.VERSION_HEADERS)


def _path_of(request: ServerRequest) -> str:
    return "/" + request.path.rstrip("/")


def _run_tool(request: ServerRequest, release: ServerRelease) -> ServerReply:
    document = request.document
    if not isinstance(document, dict):
        raise DomainError("invalid_body", "The body is not an object.")
    form = wire.form_of(document) or "bare"
    call = document["request"] if form == "wrapped" else document
    if not isinstance(call, dict):
        raise DomainError("invalid_body", "“request” is not an object.")
    # The prose of the specification contains `inputs` once. Without this, a tool without required inputs
    # would run without arguments.
    arguments = call.get("input", call.get("inputs"))
    call_id, context = call.get("call_id"), call.get("context")
    if not isinstance(call_id, str | None) or len(call_id or "") > MAX_CALL_ID_LENGTH:
        message = f"“call_id” must be a text of at most {MAX_CALL_ID_LENGTH} characters."
        raise DomainError("invalid_body", message)
    try:
        runner, tool = _find_tool(release, call.get("tool_id"))
    except DomainError:
        release.report_unknown_tool(str(call.get("tool_id")))
        raise
    if not isinstance(arguments, dict | None):
        return _bad_input("“input” is not an object.", {})
    call_id = call_id or str(uuid.uuid4())
    result = runner.run(
        ToolCallRequest(
            tool_name=tool.name,
            arguments=arguments or {},
            is_confirmed=request.is_confirmed,
            call_name=call_id,
            user=request.user(context.get("user_id") if isinstance(context, dict) else None),
        )
    )
    reply = _not_run(result) or json_reply(wire.result({"call_id": call_id, **_response_of(result)}, form))
    return replace(reply, headers={**reply.headers, **wire.VERSION_HEADERS})


def _find_tool(release: ServerRelease, text: object) -> tuple[ServerRelease, ServedTool]:
    """Return the tool in the version of the id, by default that of this release, and the release that runs
    it. Raises DomainError."""
    parts = _TOOL_ID.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise DomainError(
            "invalid_tool_id", "“tool_id” must have the form Toolkit.Tool or Toolkit.Tool@1.0.0."
        )
    tool_id, major, minor, patch = parts.groups()
    if major is None:
        tool = next((tool for tool in release.tools() if tool.version.tool_id == tool_id), None)
        if tool is None:
            raise DomainError("not_found", f"This release has no tool {tool_id}. GET the list of tools.")
        return release, tool
    label = ".".join(str(int(part or 0)) for part in (major, minor, patch))
    versions = release.versions(tool_id, label)
    older = release.find_version(versions[0]) if versions else None
    if older is None:
        message = f"Version {label} of {tool_id} is not available. GET the list of tools."
        raise DomainError("version_not_found", message)
    return older


def _bad_input(message: str, fields: Mapping[str, str]) -> ServerReply:
    error: dict[str, Any] = {"message": message} | ({"parameter_errors": fields} if fields else {})
    return json_reply(error, wire.BAD_INPUT)


def _not_run(result: ToolCallResult) -> ServerReply | None:
    """Return the reply for a tool that did not run, or None."""
    if result.outcome == "invalid_arguments":
        return _bad_input(result.message, result.fields)
    if result.outcome not in ("refused", "needs_authorization"):
        return None
    error: dict[str, Any] = {"message": result.message, "developer_message": result.code}
    # What the user has to do first, in the form of the protocol.
    requirements: dict[str, Any] = {}
    challenges = [
        {"id": ask.id, "url": ask.url} | ({"check_url": ask.check_url} if ask.check_url else {})
        for ask in result.asks
        if ask.url
    ]
    if challenges:
        requirements["authorization"] = challenges
    if any(ask.id == "user_id" for ask in result.asks):
        requirements["user_id"] = True
    if requirements:
        error["missing_requirements"] = requirements
    return json_reply(error, wire.NOT_RUN)


def _response_of(result: ToolCallResult) -> dict[str, Any]:
    response: dict[str, Any] = {"duration": result.duration_ms}
    if result.notes:
        response["notes"] = result.notes
    if result.transfer is not None:
        return response | {"success": True, "value": result.transfer}
    if not result.is_success:
        message = result.message
        if result.outcome == "needs_input":
            message = " ".join([message, *(ask.message for ask in result.asks)])
        error: dict[str, Any] = {"message": message, "can_retry": False}
        if result.code:
            error["developer_message"] = result.code
        if result.output_schema is not None:
            schema = msgspec.json.encode(result.output_schema).decode()
            error["additional_prompt_content"] = f"Answer for the tool yourself, in this form: {schema}"
        if result.outcome == "tool_error" and result.outputs:
            # A reply has either a value or an error. An error may have further members.
            error["value"] = result.outputs
            error["additional_prompt_content"] = msgspec.json.encode(result.outputs).decode()
        if retry := result.retry:
            error["can_retry"] = retry.can_retry
            error |= {"additional_prompt_content": retry.hint} if retry.hint else {}
            error |= {"retry_after_ms": retry.after_ms} if retry.after_ms is not None else {}
        return response | {"success": False, "error": error}
    value: Any = result.outputs
    # A tool without declared outputs may return nothing or any value.
    if not (result.declared.names or value):
        return response | {"success": True}
    is_any = not result.declared.names and result.protocol == OXPServer.name and value.keys() == {"value"}
    return response | {"success": True, "value": value["value"] if is_any else value}
