"""Agents of ACP as they are served: found and described. Their runs: executor/serve/acp.py."""

from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import Http404
from msgspec import structs

from catalog.activities import kinds, reach
from catalog.calls import threads, versions
from catalog.models import ActivityVersion, Call, ToolVersion
from catalog.models.calls import Asked
from catalog.tools import configurations
from core.errors import DomainError
from designer import environments
from designer.environments import Subject
from designer.exports import mcp as exported
from designer.exports import schema, transfers
from designer.exports.document import ReleasedTool
from designer.models import EffectiveVersion
from designer.releases import effective_versions, numbering
from designer.signatures.effective import Effective
from executor.released_documents import sealed
from executor.serve.base import Operations
from protocols.acp import wire
from protocols.acp.client import ACP as VENDORS_ACP
from protocols.acp.document import CONFIG, NO_CONFIG, interrupts, thread_state_schema, write_metadata
from protocols.acp.server import QUESTION, page_of
from protocols.signature import Parameter

FORMAT = exported.FORMAT.name
_QUESTIONS = {
    wire.INTERRUPT_TYPE: QUESTION,
    "interrupt_payload": {
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "schema": {"type": "object", "description": "The JSON Schema of the answer, of a form."},
            "url": {"type": "string", "description": "What the user has to visit before the run goes on."},
        },
        "required": ["message"],
    },
    "resume_payload": {},
}


class Agent(msgspec.Struct, frozen=True):
    """A tool as the export writes it, with the number of its effective signature."""

    document: dict[str, Any]
    version: EffectiveVersion
    tool: ReleasedTool


def listed(operations: Operations) -> list[Agent]:
    key = ("acp", operations.release.pk, operations.sub_agent)
    return sealed(operations.release).derived(key, lambda: _read(operations))


def _read(operations: Operations) -> list[Agent]:
    documents = msgspec.json.decode(operations.exported(FORMAT))["tools"]
    node = operations.node
    shown = numbering.shown(operations.whole(), operations.release.agent_id)
    tools = {key: tool for key, tool in shown.items() if key.node == node}
    held = effective_versions.held_by(operations.release, node, tools.items())
    rows = {
        tool.signature.name: (held[key], tool)
        for key, tool in tools.items()
        if tool.signature.kind != transfers.KIND
    }
    return [Agent(each, *rows[each["name"]]) for each in documents if each["name"] in rows]


def found(operations: Operations, agent_id: object) -> Agent:
    """Raises Http404."""
    agent = next((each for each in listed(operations) if str(each.version.uuid) == agent_id), None)
    if agent is None:
        raise Http404
    return agent


def searched(operations: Operations, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(asked)
    wanted = {name: asked[name] for name in ("name", "version") if asked.get(name) is not None}
    rows = [summary(operations, each) for each in listed(operations)]
    fitting = [row for row in rows if wanted.items() <= row["metadata"]["ref"].items()]
    return fitting[offset : offset + limit]


def summary(operations: Operations, agent: Agent) -> dict[str, Any]:
    name, description = agent.document["name"], agent.document.get("description", "")
    metadata = write_metadata(name, agent.version.semver, "", url=operations.address())
    metadata["description"] = description
    return {"agent_id": str(agent.version.uuid), "metadata": metadata}


def descriptor(operations: Operations, agent: Agent) -> dict[str, Any]:
    tool = agent.tool.signature
    version = versions.find(agent.tool.id, agent.tool.version.ordinal)
    has_threads = version is not None and threads.can_have(version)
    asks = _interrupts(operations, agent.tool, version) if version else []
    specs: dict[str, Any] = {
        "capabilities": {
            "threads": has_threads,
            "interrupts": bool(asks),
            "callbacks": True,
            "streaming": {"values": True, "custom": False},
        },
        "input": agent.document["inputSchema"],
        "output": agent.document.get("outputSchema", {"type": "object"}),
        "config": NO_CONFIG,
    }
    if asks:
        specs["interrupts"] = asks
    # What a designer hid may be said again by what a thread holds, so that is not told.
    if (
        version
        and has_threads
        and not tool.hidden_outputs
        and (state := thread_state_schema(version.decoded()))
    ):
        specs["thread_state"] = state
    config = configurations.parameter_of(version) if version else None
    shown = {each.parameter.name: each.parameter for each in tool.inputs}
    if config and config.name in shown:
        specs |= _configurable(tool, shown[config.name])
    return {"metadata": summary(operations, agent)["metadata"], "specs": specs}


def _interrupts(operations: Operations, tool: ReleasedTool, version: ToolVersion) -> list[dict[str, Any]]:
    # What runs is decided for an environment, and may be changed without another release.
    try:
        place = environments.chosen(operations.release, operations.caller.key)
        runs = environments.resolve(place, Subject.of(tool), agent=operations.release.agent_id)
    except DomainError:
        return []  # nothing runs
    if runs.runs == "vendor" and _says_its_questions(version):
        return list(interrupts(version.decoded()).values())
    activity = environments.version_of(runs)
    may_ask = _activity_may_ask(activity) if activity else runs.runs == "vendor" and _vendor_may_ask(version)
    return [_QUESTIONS] if may_ask else []


def _activity_may_ask(activity: ActivityVersion) -> bool:
    found = reach.reached([activity])[activity.pk]
    asks_itself = any(kinds.get(each.kind).may_ask(each.config) for each in found.versions)
    return asks_itself or any(map(_vendor_may_ask, found.tools))


def _vendor_may_ask(version: ToolVersion) -> bool:
    if _says_its_questions(version):
        return bool(interrupts(version.decoded()))
    return version.tool.endpoint.speak().may_ask()


def _says_its_questions(version: ToolVersion) -> bool:
    return version.tool.endpoint.protocol == VENDORS_ACP.name


def kind_of(ask: Asked, call: Call) -> str:
    """The kind of interrupt that a question of a call is."""
    is_vendors = call.activity_id is None and _says_its_questions(call.version)
    return ask.id if is_vendors else QUESTION


def _configurable(tool: Effective, config: Parameter) -> dict[str, Any]:
    # To a client of this protocol a configuration is no input. One that the release has chosen is not shown.
    said = config.schema
    tells = said.get("description", CONFIG) if isinstance(said, dict) else CONFIG
    if isinstance(said, dict) and config.description != tells:
        said = {**said, "description": config.description}
    others = tuple(each for each in tool.inputs if each.parameter.name != config.name)
    return {"input": schema.as_the_vendor_does(structs.replace(tool, inputs=others)), "config": said}


def manifest(operations: Operations, agent: Agent) -> dict[str, Any]:
    protocol = {
        "type": "ACP",
        "url": operations.address(operations.sub_agent),
        "agent_id": str(agent.version.uuid),
        "authentication": {"type": "http", "scheme": "bearer"},
    }
    option = {"type": "remote_service", "name": "pegboard", "protocol": protocol}
    deployment = {"deployment_options": [option], "env_vars": [], "agent_deps": []}
    return {**descriptor(operations, agent), "deployment": deployment}
