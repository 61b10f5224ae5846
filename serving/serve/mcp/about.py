"""What a release says of itself as an MCP server."""

from collections.abc import Mapping
from typing import Any

from protocols.mcp.server.clients import Client
from protocols.mcp.wire import MODERN
from protocols.server import Request
from serving.serve.base import Operations

_LISTS = ("tools", "prompts", "resources")
_OTHERS: dict[str, Any] = {"completions": {}, "logging": {}}
CAPABILITIES: dict[str, Any] = {**{name: {} for name in _LISTS}, **_OTHERS}
# Before 2026-07-28 news took a session, and there is none.
CAPABILITIES_WITH_NEWS: dict[str, Any] = {
    **{name: {"listChanged": True} for name in _LISTS},
    "resources": {"listChanged": True, "subscribe": True},
    **_OTHERS,
}


def server(operations: Operations) -> dict[str, Any]:
    agent = operations.shown().agent
    return {"name": agent.slug, "title": agent.name, "version": str(operations.release.number)}


def discovered(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "supportedVersions": list(MODERN),
        "capabilities": CAPABILITIES_WITH_NEWS,
        **_instructions(operations),
    }


def initialized(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "protocolVersion": client.version,
        "capabilities": CAPABILITIES,
        "serverInfo": server(operations),
        **_instructions(operations),
    }


def ping(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {}


def _instructions(operations: Operations) -> dict[str, Any]:
    shown = operations.shown()
    said = [shown.agent.description] if shown.agent.description else []
    if shown.procedures:
        titles = ", ".join(f"{each.slug} ({each.title})" for each in shown.procedures)
        said.append(f"How to work with these tools is written in the prompts: {titles}.")
    return {"instructions": "\n\n".join(said)} if said else {}
