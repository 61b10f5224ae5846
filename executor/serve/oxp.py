"""OXP (Open Execution Protocol 1.0, draft): a release as a tool server, in both of its wire forms.

One revision wraps calls and replies in `request` and `result`; the other sends them bare and names the
version in a header. Each call is answered in the form that it came in.

https://github.com/OpenExecProtocol/Specification
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from django.http import Http404

from catalog.calls.call_keys import client_call_id
from catalog.models.calls import Result
from core import strict_json
from core.db_errors import database_state
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from designer.exports import oxp as exported
from designer.exports import transfers
from designer.releases import effective_versions
from executor.calls import Answer, Wish
from executor.serve import versions
from executor.serve.base import (
    Operations,
    Refusal,
    Reply,
    Request,
    ServedProtocol,
    Snippet,
    explained,
    json_reply,
)
from executor.serve.versions import Entry

FORMAT = exported.FORMAT.name
FORM = versions.Form(FORMAT, lambda version: (version.dotted_name, version.semver))
VERSION = {"OXP-Version": "1.0"}
SCHEMA = "urn:oxp:1.0"
_SPOKEN = re.compile(r"1(?:\.0){0,2}")
_TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]{1,9})(?:\.([0-9]{1,9})\.([0-9]{1,9}))?)?")
# These say something about the request and not about the call, in every protocol.
_OF_HTTP = (401, 405, 413, 429)


class OXP(ServedProtocol):
    name = "oxp"
    label = "OXP"
    key_header = "OXP-API-Key"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        return super().snippets(f"{address}/tools", agent)

    def answer_anyone(self, request: Request) -> Reply | None:
        if request.path.rstrip("/") != "health" or request.method not in ("GET", "HEAD"):
            return None
        if database_state() != "ok":
            return json_reply({"status": "unavailable"}, 503, VERSION)
        return json_reply({"status": "ok"}, headers=VERSION)

    def answer(self, request: Request, operations: Operations) -> Reply:
        asked = request.headers.get("OXP-Version", "1.0").strip()
        if not _SPOKEN.fullmatch(asked):
            message = f"OXP {printable(asked, 20)} is not spoken here. Version 1.0 is."
            raise DomainError("version_not_supported", message)
        path = request.path.rstrip("/")
        if path not in ("tools", "tools/call"):
            raise Http404
        if refused := self.refuse_method(request, "POST" if path == "tools/call" else "GET"):
            return refused
        if path == "tools/call":
            return _called(request, operations)
        items = [_listed(entry.document) for entry in versions.shown(operations, FORM).entries]
        return json_reply({"items": items}, headers=VERSION)

    def refusal(self, refusal: Refusal, body: bytes) -> Reply:
        # What is no input is refused with 400, whatever it is; a status of its own has only a list, or what
        # HTTP itself asks for.
        status, call = refusal.status, _call_in(body)
        if (call and status not in _OF_HTTP) or (call == "bare" and status == 401):
            status = 400
        said = {"message": refusal.message, "developer_message": refusal.code}
        return json_reply(said, status, VERSION)


PROTOCOL = OXP()


def _listed(document: dict[str, Any]) -> dict[str, Any]:
    # An export says “any value” of what nothing is known of; a client would read that as an output.
    is_silent = document.get("output_schema") == {}
    return {m: value for m, value in document.items() if not (is_silent and m == "output_schema")}


def _call_in(body: bytes) -> str:
    """In which form the body is a call: `bare`, `wrapped`, or "" for none."""
    try:
        document = strict_json.loads(body, allow_unstorable=True) if body.strip() else None
    except ProtocolViolationError:
        return ""
    if not isinstance(document, dict):
        return ""
    return "wrapped" if "request" in document else "bare" if "tool_id" in document else ""


def _called(request: Request, operations: Operations) -> Reply:
    document = request.json()
    if not isinstance(document, dict):
        raise DomainError("invalid_body", "The body is no object.")
    is_wrapped = "request" in document
    call = document["request"] if is_wrapped else document
    if not isinstance(call, dict):
        raise DomainError("invalid_body", "“request” is no object.")
    # The specification's prose calls them `inputs` once: a tool that needs none would run without them.
    given = call.get("input", call.get("inputs"))
    name, context = call.get("call_id"), call.get("context")
    if not isinstance(name, str | None) or len(name or "") > 255:
        raise DomainError("invalid_body", "“call_id” is no text of at most 255 characters.")
    try:
        through, entry = _named(operations, call.get("tool_id"))
    except DomainError:
        operations.note_unknown(str(call.get("tool_id")))
        raise
    if not isinstance(given, dict | None):
        return _unfit("“input” is no object.", {})
    name = name or str(uuid.uuid4())
    wish = Wish(
        tool=entry.name,
        arguments=given or {},
        format_=FORMAT,
        is_confirmed=request.is_confirmed,
        call_id=client_call_id(name),
        on_behalf_of=request.on_behalf_of(context.get("user_id") if isinstance(context, dict) else None),
    )
    answer = through.run(wish)
    reply = _refused(answer) or json_reply(
        _wrapped({"call_id": name, **_outcome(answer, through)}, is_wrapped)
    )
    return replace(reply, headers={**reply.headers, **VERSION})


def _wrapped(response: dict[str, Any], is_wrapped: bool) -> dict[str, Any]:
    return {"$schema": SCHEMA, "result": response} if is_wrapped else response


def _named(operations: Operations, tool_id: object) -> tuple[Operations, Entry]:
    """The tool in the version that the id names, by default in the one that this release shows. Raises
    DomainError."""
    found = _TOOL_ID.fullmatch(tool_id) if isinstance(tool_id, str) else None
    if found is None:
        raise DomainError("invalid_tool_id", "“tool_id” has the form Toolkit.Tool or Toolkit.Tool@1.0.0.")
    dotted_name, major, minor, patch = found.groups()
    shown = versions.shown(operations, FORM)
    if major is None:
        entry = next((each for each in shown.entries if each.version.dotted_name == dotted_name), None)
        if entry is None:
            raise DomainError("not_found", f"There is no tool {dotted_name} here. List the tools.")
        return operations, entry
    semver = ".".join(str(int(part or 0)) for part in (major, minor, patch))
    row = effective_versions.of_semver(operations.release, shown.node, dotted_name, semver)
    through = versions.through(operations, row, FORM) if row else None
    if through is None:
        message = f"Version {semver} of {dotted_name} is not available here. List the tools."
        raise DomainError("version_not_found", message)
    return through


def _unfit(message: str, fields: Mapping[str, str]) -> Reply:
    said: dict[str, Any] = {"message": message} | ({"parameter_errors": fields} if fields else {})
    return json_reply(said, 422)


def _refused(answer: Answer) -> Reply | None:
    """What is said with another status than 200, because the tool has not run."""
    error = answer.result.error or {}
    message = str(error.get("message", "")) or "The tool did not run."
    if answer.outcome == "invalid_arguments":
        return _unfit(message, error.get("fields") or {})
    if answer.outcome not in ("refused", "needs_authorization"):
        return None
    said: dict[str, Any] = {"message": message, "developer_message": str(error.get("code", ""))}
    if missing := _missing(answer.result):
        said["missing_requirements"] = missing
    return json_reply(said, 400)


def _missing(result: Result) -> dict[str, Any]:
    """What a person has to do first, as the vendor asks for it."""
    checks = (result.resume or {}).get("check_urls") or {}
    challenges = [
        {"id": ask.id, "url": ask.url} | ({"check_url": checks[ask.id]} if checks.get(ask.id) else {})
        for ask in result.asks
        if ask.url
    ]
    user = {"user_id": True} if any(ask.id == "user_id" for ask in result.asks) else {}
    return ({"authorization": challenges} if challenges else {}) | user


def _outcome(answer: Answer, operations: Operations) -> dict[str, Any]:
    result = answer.result
    ran: dict[str, Any] = {"duration": (answer.call and answer.call.duration_ms) or 0}
    if answer.outcome == transfers.KIND:
        address = operations.address(answer.transfer_to)
        return ran | {"success": True, "value": {"agent": answer.transfer_to, "address": address}}
    if answer.outcome == "ok" and not result.cut:
        is_declared, value = bool(answer.tool.signature.outputs), result.outputs
        # A tool that says nothing of its outputs may answer nothing, or any value.
        if not (is_declared or value):
            return ran | {"success": True}
        is_any = not is_declared and answer.tool.protocol == FORMAT and value.keys() == {"value"}
        return ran | {"success": True, "value": value["value"] if is_any else value}
    code, message = explained(answer)
    if answer.outcome == "needs_input":
        message = " ".join([message, *(ask.message for ask in result.asks)])
    said: dict[str, Any] = {"message": message, "can_retry": False}
    if code:
        said["developer_message"] = code
    if answer.output_schema is not None:
        form = msgspec.json.encode(answer.output_schema).decode()
        said["additional_prompt_content"] = f"Answer it yourself, in this form: {form}"
    if answer.outcome == "tool_error" and result.outputs:
        # A reply has either a value or an error, and an error may have members of its own.
        said["value"] = result.outputs
        said["additional_prompt_content"] = msgspec.json.encode(result.outputs).decode()
    if retry := result.retry:
        said["can_retry"] = retry.can_retry
        said |= {"additional_prompt_content": retry.hint} if retry.hint else {}
        said |= {"retry_after_ms": retry.after_ms} if retry.after_ms is not None else {}
    return ran | {"success": False, "error": said}
