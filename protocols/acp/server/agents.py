"""The agents that a release is served as."""

from collections.abc import Mapping
from typing import Any

from protocols.acp.document import NO_CONFIG, write_metadata
from protocols.acp.server.messages import page_of
from protocols.acp.server.release import AcpRelease, ServedAgent
from protocols.server import NoSuchAddressError


def find_agent(release: AcpRelease, agent_id: object) -> ServedAgent:
    agent = next((row for row in release.agents() if row.agent_id == agent_id), None)
    if agent is None:
        raise NoSuchAddressError
    return agent


def search_agents(release: AcpRelease, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(body)
    condition = {name: body[name] for name in ("name", "version") if body.get(name) is not None}
    rows = [summary(release, agent) for agent in release.agents()]
    matches = [row for row in rows if condition.items() <= row["metadata"]["ref"].items()]
    return matches[offset : offset + limit]


def summary(release: AcpRelease, agent: ServedAgent) -> dict[str, Any]:
    metadata = write_metadata(agent.document["name"], agent.version, "", url=release.address())
    metadata["description"] = agent.document.get("description", "")
    return {"agent_id": agent.agent_id, "metadata": metadata}


def descriptor(release: AcpRelease, agent: ServedAgent) -> dict[str, Any]:
    abilities = release.abilities(agent)
    specs: dict[str, Any] = {
        "capabilities": {
            "threads": abilities.has_threads,
            "interrupts": bool(abilities.interrupts),
            "callbacks": True,
            "streaming": {"values": True, "custom": False},
        },
        "input": agent.document["inputSchema"] if abilities.input_schema is None else abilities.input_schema,
        "output": agent.document.get("outputSchema", {"type": "object"}),
        "config": NO_CONFIG if abilities.input_schema is None else abilities.config,
    }
    if abilities.interrupts:
        specs["interrupts"] = abilities.interrupts
    if abilities.thread_state:
        specs["thread_state"] = abilities.thread_state
    return {"metadata": summary(release, agent)["metadata"], "specs": specs}


def manifest(release: AcpRelease, agent: ServedAgent) -> dict[str, Any]:
    protocol = {
        "type": "ACP",
        "url": release.address(release.sub_agent),
        "agent_id": agent.agent_id,
        "authentication": {"type": "http", "scheme": "bearer"},
    }
    option = {"type": "remote_service", "name": "pegboard", "protocol": protocol}
    deployment = {"deployment_options": [option], "env_vars": [], "agent_deps": []}
    return {**descriptor(release, agent), "deployment": deployment}
