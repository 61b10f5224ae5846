"""The description of a release as an MCP server: name, capabilities, instructions."""

from collections.abc import Mapping
from typing import Any

from protocols.mcp.server.clients import Client
from protocols.mcp.wire import MODERN
from protocols.server import Request
from serving.serve.base import Operations

_LISTS = ("tools", "prompts", "resources")
_OTHERS: dict[str, Any] = {"completions": {}, "logging": {}}
CAPABILITIES: dict[str, Any] = {**{name: {} for name in _LISTS}, **_OTHERS}
# Notifications of changed lists need `subscriptions/listen`, which exists since 2026-07-28.
CAPABILITIES_WITH_NEWS: dict[str, Any] = {
    **{name: {"listChanged": True} for name in _LISTS},
    "resources": {"listChanged": True, "subscribe": True},
    **_OTHERS,
}


def server_info(operations: Operations) -> dict[str, Any]:
    agent = operations.visible_document().agent
    return {"name": agent.slug, "title": agent.name, "version": str(operations.release.number)}


def discover(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "supportedVersions": list(MODERN),
        "capabilities": CAPABILITIES_WITH_NEWS,
        **_instructions(operations),
    }


def initialize(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "protocolVersion": client.version,
        "capabilities": CAPABILITIES,
        "serverInfo": server_info(operations),
        **_instructions(operations),
    }


def ping(
    request: Request, operations: Operations, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {}


def _instructions(operations: Operations) -> dict[str, Any]:
    document = operations.visible_document()
    sentences = [document.agent.description] if document.agent.description else []
    if document.procedures:
        titles = ", ".join(f"{procedure.slug} ({procedure.title})" for procedure in document.procedures)
        sentences.append(f"How to work with these tools is written in the prompts: {titles}.")
    return {"instructions": "\n\n".join(sentences)} if sentences else {}
