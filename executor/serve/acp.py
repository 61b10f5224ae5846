"""ACP of AGNTCY, 0.2: each tool of a release as an agent that is found, described and run.

Schemas, and names of inputs and outputs, are those of the export for MCP, which asks for objects too. There
are no threads and callbacks, and descriptors say so. A transfer is no agent that could be run here.

https://github.com/agntcy/acp-spec
"""

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import Http404

from catalog.models.calls import Mode
from catalog.protocols.acp import NO_CONFIG
from core.errors import DomainError
from designer.exports import mcp as exported
from designer.exports import transfers
from designer.models import EffectiveVersion
from designer.releases import effective_versions, numbering
from executor import streams
from executor.calls import Answer
from executor.released_documents import sealed
from executor.serve.base import (
    EVENT_STREAM,
    Operations,
    Refusal,
    Reply,
    Request,
    ServedProtocol,
    explained,
    json_reply,
)
from executor.streams import Told

FORMAT = exported.FORMAT.name
DEFAULT_LIMIT, MAX_LIMIT = 10, 1000
CAPABILITIES = {
    "threads": False,
    "interrupts": False,
    "callbacks": False,
    "streaming": {"values": True, "custom": False},
}
# A client that waits longer asks again.
WAIT_SECONDS = 55.0
ERRORS = {
    "tool_error": 1,
    "unavailable": 2,
    "refused": 3,
    "needs_authorization": 4,
    "invalid_arguments": 5,
    "ok": 6,
    "needs_input": 7,
}


class ACP(ServedProtocol):
    name = "acp"
    label = "ACP (AGNTCY)"

    def answer(self, request: Request, operations: Operations) -> Reply:
        kind, *path = request.path.strip("/").split("/")
        answer = {"agents": _about_agents, "runs": _about_runs}.get(kind)
        if answer is None:
            raise Http404
        return answer(request, operations, path)

    def refusal(self, refusal: Refusal, body: bytes) -> Reply:
        # The protocol's errors are nothing but a text, and it knows 422 where REST answers 400.
        wrong = "".join(f" {name}: {why}" for name, why in refusal.fields.items())
        status = 422 if refusal.status == 400 else refusal.status
        return json_reply(f"{refusal.message}{wrong}", status)


PROTOCOL = ACP()


def _about_agents(request: Request, operations: Operations, path: list[str]) -> Reply:
    match request.method, path:
        case "POST", ["search"]:
            return json_reply(_searched(operations, _object(request)))
        case "GET", [agent_id]:
            return json_reply(_summary(operations, _found(operations, agent_id)))
        case "GET", [agent_id, "descriptor"]:
            return json_reply(_descriptor(operations, _found(operations, agent_id)))
        case "GET", [agent_id, "manifest"]:
            return json_reply(_manifest(operations, _found(operations, agent_id)))
    raise Http404


def _about_runs(request: Request, operations: Operations, path: list[str]) -> Reply:
    match request.method, path:
        case "POST", []:
            return json_reply(_run(request, operations, Mode.ASYNC)["run"])
        case "POST", ["wait"]:
            return json_reply(_run(request, operations))
        case "POST", ["stream"]:
            return _streamed(operations, _run(request, operations, Mode.STREAM)["run"]["run_id"])
        case "POST", ["search"]:
            return json_reply(_marked(request, operations))
        case "GET", [run_id]:
            return json_reply(_made(operations, run_id)["run"])
        case "POST", [run_id]:
            return json_reply(_resumed(operations, run_id, request)["run"])
        case "GET", [run_id, "wait"]:
            return json_reply(_made(operations, run_id, WAIT_SECONDS))
        case "GET", [run_id, "stream"]:
            return _streamed(operations, run_id, request.headers.get("Last-Event-ID", ""))
        case "POST", [run_id, "cancel"]:
            operations.cancel(_uuid(run_id))
            return Reply(status=204)
    raise Http404


class _Agent(msgspec.Struct, frozen=True):
    """A tool as the export writes it, with the number of its effective signature."""

    document: dict[str, Any]
    version: EffectiveVersion


def _agents(operations: Operations) -> list[_Agent]:
    key = ("acp", operations.release.pk, operations.sub_agent)
    return sealed(operations.release).derived(key, lambda: _read(operations))


def _read(operations: Operations) -> list[_Agent]:
    documents = msgspec.json.decode(operations.exported(FORMAT))["tools"]
    node = operations.node
    shown = numbering.shown(operations.whole(), operations.release.agent_id)
    tools = {key: tool for key, tool in shown.items() if key.node == node}
    held = effective_versions.held_by(operations.release, node, tools.items())
    rows = {
        tool.signature.name: held[key] for key, tool in tools.items() if tool.signature.kind != transfers.KIND
    }
    return [_Agent(each, rows[each["name"]]) for each in documents if each["name"] in rows]


def _found(operations: Operations, agent_id: object) -> _Agent:
    found = next((each for each in _agents(operations) if str(each.version.uuid) == agent_id), None)
    if found is None:
        raise Http404
    return found


def _searched(operations: Operations, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = asked.get("limit", DEFAULT_LIMIT), asked.get("offset", 0)
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT or type(offset) is not int or offset < 0:
        said = f"“limit” is a whole number from 1 to {MAX_LIMIT}, and “offset” one from 0 on."
        raise DomainError("invalid", said)
    wanted = {name: asked[name] for name in ("name", "version") if asked.get(name) is not None}
    rows = [_summary(operations, each) for each in _agents(operations)]
    fitting = [row for row in rows if wanted.items() <= row["metadata"]["ref"].items()]
    return fitting[offset : offset + limit]


def _summary(operations: Operations, agent: _Agent) -> dict[str, Any]:
    ref = {"name": agent.document["name"], "version": agent.version.semver, "url": operations.address()}
    metadata = {"ref": ref, "description": agent.document.get("description", "")}
    return {"agent_id": str(agent.version.uuid), "metadata": metadata}


def _descriptor(operations: Operations, agent: _Agent) -> dict[str, Any]:
    specs = {
        "capabilities": CAPABILITIES,
        "input": agent.document["inputSchema"],
        "output": agent.document.get("outputSchema", {"type": "object"}),
        "config": NO_CONFIG,
    }
    return {"metadata": _summary(operations, agent)["metadata"], "specs": specs}


def _manifest(operations: Operations, agent: _Agent) -> dict[str, Any]:
    protocol = {
        "type": "ACP",
        "url": operations.address(operations.sub_agent),
        "agent_id": str(agent.version.uuid),
        "authentication": {"type": "http", "scheme": "bearer"},
    }
    option = {"type": "remote_service", "name": "pegboard", "protocol": protocol}
    deployment = {"deployment_options": [option], "env_vars": [], "agent_deps": []}
    return {**_descriptor(operations, agent), "deployment": deployment}


def _run(request: Request, operations: Operations, mode: Mode = Mode.WAIT) -> dict[str, Any]:
    asked = _object(request)
    try:
        agent = _found(operations, asked.get("agent_id"))
    except Http404:
        operations.note_unknown(str(asked.get("agent_id")))
        raise
    given = asked.get("input")
    if given is not None and not isinstance(given, dict):
        raise DomainError("invalid", "“input” is no object.")
    answer = operations.run(
        agent.document["name"],
        given or {},
        format_=FORMAT,
        is_confirmed=request.is_confirmed,
        call_id=operations.id_of(request.call_name or _mark(asked)),
        on_behalf_of=request.on_behalf_of(),
        mode=mode,
    )
    return _ended(agent, answer, asked)


def _mark(asked: Mapping[str, Any]) -> str:
    # By which a client finds a run again whose id it never heard, and by which the run is made once.
    metadata = asked.get("metadata")
    mark = metadata.get("call_id") if isinstance(metadata, dict) else None
    # No id of a call, though it looks like one: Pegboard itself marks runs with the ids of its own calls.
    return f"run {mark}" if isinstance(mark, str) and mark else ""


def _marked(request: Request, operations: Operations) -> list[dict[str, Any]]:
    # Runs are found by their mark and by nothing else.
    asked = _object(request)
    if (run_id := operations.id_of(_mark(asked))) is None:
        return []
    try:
        run = _made(operations, str(run_id))["run"]
    except Http404:
        return []
    return [{**run, "creation": {"metadata": asked["metadata"]}}]


def _streamed(operations: Operations, run_id: str, after: str = "") -> Reply:
    followed = operations.follow(_uuid(run_id), format_=FORMAT, after=after)
    body = streams.Written(followed, lambda told: _update(told, run_id))
    return Reply(body=body, headers=streams.HEADERS, media_type=EVENT_STREAM)


def _update(told: Told, run_id: str) -> bytes:
    said: dict[str, Any] = {"type": "values", "run_id": run_id, "status": "pending"}
    if told.answer and told.condition != "started":
        ended = _ended(None, told.answer, {})
        kind = {"result": "values"}.get(ended["output"]["type"], ended["output"]["type"])
        said = {**ended["output"], "type": kind, "run_id": run_id, "status": ended["run"]["status"]}
    elif told.condition == "started" or "outputs" in (told.partial or {}):
        said["values"] = (told.partial or {}).get("outputs", {})
    else:
        return b": alive\n\n"
    return f"id: {told.id}\nevent: agent_event\ndata: ".encode() + msgspec.json.encode(said) + b"\n\n"


def _made(operations: Operations, run_id: str, wait: float = 0.0) -> dict[str, Any]:
    answer = operations.made(_uuid(run_id), format_=FORMAT, wait=wait)
    return _ended(_agent_of(operations, answer), answer, {})


def _resumed(operations: Operations, run_id: str, request: Request) -> dict[str, Any]:
    given = _object(request)
    before = operations.made(_uuid(run_id), format_=FORMAT)
    agent = _agent_of(operations, before)
    if before.call is None or agent is None:
        raise Http404
    asked = given.get("interrupt_type")
    named = asked if isinstance(asked, str) else "".join(ask.id for ask in before.result.asks)
    answers = {named: {name: value for name, value in given.items() if name != "interrupt_type"}}
    name, call_id = before.tool.signature.name, operations.id_of(request.call_name)
    answer = operations.resume(before.call.pk, name, answers, format_=FORMAT, call_id=call_id)
    return _ended(agent, answer, given)


def _agent_of(operations: Operations, answer: Answer) -> _Agent | None:
    # None where the release that is served now shows no such tool any more.
    name = answer.tool.signature.name
    return next((each for each in _agents(operations) if each.document["name"] == name), None)


def _ended(agent: _Agent | None, answer: Answer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A run with its output. Raises DomainError where nothing was sent, so that there is no run."""
    result = answer.result
    error: Mapping[str, Any] = result.error or {}
    if answer.call is None:
        said = str(error.get("message", ""))
        raise DomainError(str(error.get("code", "refused")), said, fields=error.get("fields"))
    has_worked = answer.outcome == "ok" and not result.cut
    # An interrupt is one question.
    waits = result.resume is not None and len(result.asks) == 1
    status = "success" if has_worked else "interrupted" if waits else "error"
    run = {
        "run_id": str(answer.call.key),
        "agent_id": str(agent.version.uuid) if agent else "",
        "created_at": answer.call.queued_at.isoformat(),
        "updated_at": (answer.call.finished_at or answer.call.queued_at).isoformat(),
        "status": status if answer.outcome else "pending",
        "creation": dict(asked),
    }
    output: dict[str, Any]
    if has_worked:
        output = {"type": "result", "values": result.outputs}
    elif waits:
        (ask,) = result.asks
        beside = {name: value for name, value in (("schema", ask.schema), ("url", ask.url)) if value}
        output = {
            "type": "interrupt",
            "interrupt": {"interrupt_type": ask.id, "message": ask.message, **beside},
        }
    else:
        number = ERRORS.get(answer.outcome or "", 0)
        said = explained(answer)[1]
        output = {"type": "error", "run_id": run["run_id"], "errcode": number, "description": said}
    return {"run": run, "output": output}


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise Http404 from None


def _object(request: Request) -> dict[str, Any]:
    document = request.json()
    if not isinstance(document, dict):
        raise DomainError("invalid_json", "The body must be a JSON object.")
    return document
