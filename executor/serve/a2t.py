"""A2T (N-ACT): a release as a server of tools, each in versions that are locked.

https://datatracker.ietf.org/doc/html/draft-rosenberg-aiproto-a2t-00 sections 6 and 7. What the drafts leave
open, such as the body of an error, is settled in docs/runtimes.md.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from django.http import Http404

from core.errors import DomainError
from core.outbound.errors import printable
from designer.exports import a2t as exported
from designer.exports import transfers
from designer.models import EffectiveVersion
from designer.releases import effective_versions, publishing
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
FORM = versions.Form(FORMAT, lambda version: (str(version.uuid), str(version.number)))
PAGE, MAX_PAGE = 100, 1000
# Each may be of another release, which has to be read.
VERSIONS_PAGE, MAX_VERSIONS_PAGE = 20, 100
# By outcome, 409 for all others. What failed behind us is 424: 5xx would say that the call may be sent again.
STATUSES = {"invalid_arguments": 400, "ok": 424, "tool_error": 424, "unavailable": 424, "unknown": 424}
_PATH = re.compile(r"tools(?:/([^/]+?)(/versions(?:/([0-9]{1,9}))?)?)?(:invoke)?/?")


class A2T(ServedProtocol):
    name = "a2t"
    label = "A2T / N-ACT"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        return super().snippets(f"{address}/tools", agent)

    def answer(self, request: Request, operations: Operations) -> Reply:
        found = _PATH.fullmatch(request.path)
        if found is None:
            raise Http404
        tool_id, below, number, invokes = found.groups()
        if invokes:
            # Of a list, and of the list of versions, there is nothing to run.
            if not tool_id or (below and not number):
                raise Http404
            if refused := self.refuse_method(request, "POST"):
                return refused
            return _invoked(request, operations, tool_id, number)
        if refused := self.refuse_method(request, "GET"):
            return refused
        if tool_id and below and not number:
            return _answered(request, _versions(request, operations, tool_id))
        if tool_id:
            return _answered(request, _named(operations, tool_id, number)[1].document)
        return _answered(request, _listed(request, operations))

    def refusal(self, refusal: Refusal, body: bytes) -> Reply:
        said: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
        if refusal.fields:
            said["fields"] = refusal.fields
        return json_reply(said, refusal.status)


PROTOCOL = A2T()


def _answered(request: Request, document: object) -> Reply:
    # The same bytes for as long as the address leads to the same release.
    body = msgspec.json.encode(document)
    tag = hashlib.sha256(body).hexdigest()
    headers = {"ETag": f'"{tag}"', "Cache-Control": publishing.CACHE_CONTROL}
    if publishing.etag_matches(tag, request.headers.get("If-None-Match", "")):
        return Reply(status=304, headers=headers)
    return Reply(body=body, headers=headers)


def _listed(request: Request, operations: Operations) -> dict[str, Any]:
    wanted = set(request.query.getlist("tag"))
    entries = versions.shown(operations, FORM).entries
    documents = [e.document for e in entries if wanted <= set(e.document.get("tags", ()))]
    of = f"{operations.release.digest} {operations.sub_agent} {sorted(wanted)}"
    return _page(*versions.page(request, documents, of, usual=PAGE, most=MAX_PAGE))


def _page(items: list[Any], limit: int, after: str | None) -> dict[str, Any]:
    return {"items": items, "paging": {"pageLimit": limit} | ({"next": after} if after else {})}


def _versions(request: Request, operations: Operations, tool_id: str) -> dict[str, Any]:
    rows = _rows(operations, tool_id)
    of = f"{operations.release.digest} {rows[0].node} {rows[0].uuid}"
    some, limit, after = versions.page(request, rows, of, usual=VERSIONS_PAGE, most=MAX_VERSIONS_PAGE)
    found = [versions.through(operations, row, FORM) for row in some]
    return _page([_current(each[1], rows) for each in found if each], limit, after)


def _rows(operations: Operations, tool_id: str) -> list[EffectiveVersion]:
    """All versions that a tool has had up to this release, the newest first. Raises DomainError."""
    node = versions.shown(operations, FORM).node
    try:
        rows = effective_versions.of_uuid(operations.release, node, UUID(tool_id))
    except ValueError:
        rows = []
    if not rows:
        message = f"There is no tool “{printable(tool_id, 60)}” here. List the tools."
        raise DomainError("not_found", message, status=404)
    return rows


def _current(entry: Entry, rows: list[EffectiveVersion]) -> dict[str, Any]:
    # The one member of a version that may change.
    return {**entry.document, "currentVersion": rows[0].number}


def _named(operations: Operations, tool_id: str, number: str | None) -> tuple[Operations, Entry]:
    """The tool in one version, by default in the one that this release shows. Raises DomainError."""
    rows = _rows(operations, tool_id)
    if number is None:
        entries = versions.shown(operations, FORM).entries
        entry = next((each for each in entries if each.version.uuid == rows[0].uuid), None)
        if entry is None:
            message = (
                "This release does not show the tool any more. Its versions can be called, each by its "
                "number; the list of tools has what is in its place."
            )
            raise DomainError("not_listed", message, status=404)
        return operations, entry
    row = next((row for row in rows if row.number == int(number)), None)
    found = versions.through(operations, row, FORM) if row else None
    if found is None:
        gone = "Every release that holds it is retired." if row else f"The newest is {rows[0].number}."
        message = f"There is no version {number} of this tool here. {gone}"
        raise DomainError("version_not_found", message, status=404)
    older, entry = found
    return older, entry._replace(document=_current(entry, rows))


def _invoked(request: Request, operations: Operations, tool_id: str, number: str | None) -> Reply:
    try:
        through, entry = _named(operations, tool_id, number)
    except DomainError:
        operations.note_unknown(tool_id)
        raise
    wish = Wish(
        tool=entry.name,
        arguments=_arguments(request.json(), entry),
        format_=FORMAT,
        is_confirmed=request.is_confirmed,
        call_id=request.call_id(),
        on_behalf_of=request.on_behalf_of(),
    )
    return _outcome(through.run(wish), through)


def _arguments(body: object, entry: Entry) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise DomainError("invalid_body", "The body is no object.")
    name, listed = body.get("name"), body.get("input_parameters")
    if name is not None and name != entry.document["name"]:
        message = f"This tool is called “{entry.document['name']}”, and the body names another."
        raise DomainError("name_mismatch", message)
    if not isinstance(listed, list | None):
        raise DomainError("invalid_body", "“input_parameters” is no array.")
    arguments: dict[str, Any] = {}
    for each in listed or ():
        if not (isinstance(each, dict) and isinstance(each.get("name"), str)):
            raise DomainError("invalid_body", "An input parameter is no object with a “name”.")
        if each["name"] in arguments:
            said = {each["name"]: "is given twice"}
            raise DomainError("invalid_arguments", "Some inputs do not fit.", fields=said)
        # A client may write null for what it leaves out.
        if each.get("value") is not None:
            arguments[each["name"]] = each["value"]
    return arguments


def _outcome(answer: Answer, operations: Operations) -> Reply:
    result = answer.result
    if answer.outcome == transfers.KIND:
        address = operations.address(answer.transfer_to)
        return _outputs({exported.RESULT: {"agent": answer.transfer_to, "address": address}})
    if answer.outcome == "ok" and not result.cut:
        return _outputs(result.outputs)
    said = _error(answer)
    status, headers = STATUSES.get(answer.outcome or "", 409), {}
    if retry := result.retry:
        said["retry"] = retry
        # 5xx has the executor send the same call again, which is right only where that is safe and helps.
        if answer.outcome != "unknown" and retry.can_retry and retry.is_transient and not retry.hint:
            status = 503
        if retry.after_ms is not None:
            headers["Retry-After"] = str(-(-retry.after_ms // 1000))
    return json_reply(said, status, headers)


def _error(answer: Answer) -> dict[str, Any]:
    result, (code, message) = answer.result, explained(answer)
    said: dict[str, Any] = {"code": code, "message": message}
    if fields := (result.error or {}).get("fields"):
        said["fields"] = fields
    if answer.outcome == "tool_error" and result.outputs:
        said["output_parameters"] = _listed_outputs(result.outputs)
    if result.asks:
        said["asks"] = result.asks
    if answer.output_schema is not None:
        said["output_schema"] = answer.output_schema
    return said


def _outputs(outputs: Mapping[str, Any]) -> Reply:
    return json_reply({"output_parameters": _listed_outputs(outputs)})


def _listed_outputs(outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in outputs.items()]
