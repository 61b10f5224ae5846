"""The agents of ACP that a release is served as. Their runs: serving/serve/acp.py."""

from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import Http404
from msgspec import structs

from catalog.models import ActivityVersion, Call, ToolVersion
from catalog.models.calls import Asked
from core.errors import DomainError
from designer.environments import environments
from designer.environments.environments import Subject
from designer.exports import mcp as exported
from designer.exports import schema, transfers
from designer.exports.document import ReleasedTool
from designer.models import EffectiveVersion
from designer.releases import effective_versions, numbering
from designer.signatures.effective import Effective
from execution.activities import kinds, reach
from execution.calls import versions
from execution.threads import configurations, threads
from protocols.acp import wire
from protocols.acp.client import ACP as VENDORS_ACP
from protocols.acp.document import CONFIG, NO_CONFIG, interrupts, thread_state_schema, write_metadata
from protocols.acp.server import QUESTION, page_of
from protocols.signature import Parameter
from serving.released_documents import sealed
from serving.serve.base import Operations

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
    """A tool in the export's form, with its effective version."""

    document: dict[str, Any]
    version: EffectiveVersion
    tool: ReleasedTool


def list_agents(operations: Operations) -> list[Agent]:
    key = ("acp", operations.release.pk, operations.sub_agent)
    return sealed(operations.release).derived(key, lambda: _load_agents(operations))


def _load_agents(operations: Operations) -> list[Agent]:
    documents = msgspec.json.decode(operations.exported(FORMAT))["tools"]
    node = operations.node
    document_tools = numbering.tools_of_document(operations.full_document(), operations.release.agent_id)
    tools = {key: tool for key, tool in document_tools.items() if key.node == node}
    version_by_key = effective_versions.versions_of_tools(operations.release, node, tools.items())
    rows = {
        tool.signature.name: (version_by_key[key], tool)
        for key, tool in tools.items()
        if tool.signature.kind != transfers.KIND
    }
    return [Agent(document, *rows[document["name"]]) for document in documents if document["name"] in rows]


def find_agent(operations: Operations, agent_id: object) -> Agent:
    """Return the agent with this id. Raises Http404."""
    agent = next((row for row in list_agents(operations) if str(row.version.uuid) == agent_id), None)
    if agent is None:
        raise Http404
    return agent


def search_agents(operations: Operations, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(body)
    condition = {name: body[name] for name in ("name", "version") if body.get(name) is not None}
    rows = [summary(operations, agent) for agent in list_agents(operations)]
    matches = [row for row in rows if condition.items() <= row["metadata"]["ref"].items()]
    return matches[offset : offset + limit]


def summary(operations: Operations, agent: Agent) -> dict[str, Any]:
    name, description = agent.document["name"], agent.document.get("description", "")
    metadata = write_metadata(name, agent.version.semver, "", url=operations.address())
    metadata["description"] = description
    return {"agent_id": str(agent.version.uuid), "metadata": metadata}


def descriptor(operations: Operations, agent: Agent) -> dict[str, Any]:
    tool = agent.tool.signature
    version = versions.find(agent.tool.id, agent.tool.version.ordinal)
    has_threads = version is not None and threads.can_have(version)
    interrupt_kinds = _interrupts(operations, agent.tool, version) if version else []
    specs: dict[str, Any] = {
        "capabilities": {
            "threads": has_threads,
            "interrupts": bool(interrupt_kinds),
            "callbacks": True,
            "streaming": {"values": True, "custom": False},
        },
        "input": agent.document["inputSchema"],
        "output": agent.document.get("outputSchema", {"type": "object"}),
        "config": NO_CONFIG,
    }
    if interrupt_kinds:
        specs["interrupts"] = interrupt_kinds
    # The state of a thread may repeat outputs that a designer has hidden, so it is not described.
    if (
        version
        and has_threads
        and not tool.hidden_outputs
        and (state := thread_state_schema(version.decoded()))
    ):
        specs["thread_state"] = state
    config = configurations.parameter_of(version) if version else None
    visible_inputs = {row.parameter.name: row.parameter for row in tool.inputs}
    if config and config.name in visible_inputs:
        specs |= _configurable_specs(tool, visible_inputs[config.name])
    return {"metadata": summary(operations, agent)["metadata"], "specs": specs}


def _interrupts(operations: Operations, tool: ReleasedTool, version: ToolVersion) -> list[dict[str, Any]]:
    # An environment decides what runs, and it may change without a new release.
    try:
        place = environments.choose_environment(operations.release, operations.caller.key)
        resolution = environments.resolve(place, Subject.of_released(tool), agent=operations.release.agent_id)
    except DomainError:
        return []  # nothing runs
    if resolution.runs == "vendor" and _declares_questions(version):
        return list(interrupts(version.decoded()).values())
    activity = environments.version_of(resolution)
    may_ask = (
        _activity_may_ask(activity) if activity else resolution.runs == "vendor" and _vendor_may_ask(version)
    )
    return [_QUESTIONS] if may_ask else []


def _activity_may_ask(activity: ActivityVersion) -> bool:
    calls_reached = reach.reached([activity])[activity.pk]
    asks_itself = any(kinds.get(row.kind).may_ask(row.config) for row in calls_reached.versions)
    return asks_itself or any(map(_vendor_may_ask, calls_reached.tools))


def _vendor_may_ask(version: ToolVersion) -> bool:
    if _declares_questions(version):
        return bool(interrupts(version.decoded()))
    return version.tool.endpoint.speak().may_ask()


def _declares_questions(version: ToolVersion) -> bool:
    return version.tool.endpoint.protocol == VENDORS_ACP.name


def kind_of(ask: Asked, call: Call) -> str:
    """Return the interrupt type of a call's question."""
    is_vendors = call.activity_id is None and _declares_questions(call.version)
    return ask.id if is_vendors else QUESTION


def _configurable_specs(tool: Effective, config: Parameter) -> dict[str, Any]:
    # In this protocol a configuration is not an input. One that the release has chosen is not shown.
    config_schema = config.schema
    description = config_schema.get("description", CONFIG) if isinstance(config_schema, dict) else CONFIG
    if isinstance(config_schema, dict) and config.description != description:
        config_schema = {**config_schema, "description": config.description}
    others = tuple(row for row in tool.inputs if row.parameter.name != config.name)
    return {"input": schema.as_the_vendor_does(structs.replace(tool, inputs=others)), "config": config_schema}


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
