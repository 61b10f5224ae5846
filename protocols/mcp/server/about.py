"""The description of a release as an MCP server: name, capabilities, instructions."""

from typing import Any

from protocols.mcp.server.release import McpRelease
from protocols.mcp.wire import MODERN

_LISTS = ("tools", "prompts", "resources")
_OTHERS: dict[str, Any] = {"completions": {}, "logging": {}}
CAPABILITIES: dict[str, Any] = {**{name: {} for name in _LISTS}, **_OTHERS}
# Notifications of changed lists need `subscriptions/listen`, which exists since 2026-07-28.
CAPABILITIES_WITH_NEWS: dict[str, Any] = {
    **{name: {"listChanged": True} for name in _LISTS},
    "resources": {"listChanged": True, "subscribe": True},
    **_OTHERS,
}


def server_info(release: McpRelease) -> dict[str, Any]:
    return {"name": release.slug, "title": release.name, "version": str(release.number)}


def discover(release: McpRelease) -> dict[str, Any]:
    return {
        "supportedVersions": list(MODERN),
        "capabilities": CAPABILITIES_WITH_NEWS,
        **_write_instructions(release),
    }


def initialize(release: McpRelease, version: str) -> dict[str, Any]:
    return {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": server_info(release),
        **_write_instructions(release),
    }


def _write_instructions(release: McpRelease) -> dict[str, Any]:
    sentences = [release.description] if release.description else []
    if procedures := release.procedures():
        titles = ", ".join(f"{procedure.slug} ({procedure.title})" for procedure in procedures)
        sentences.append(f"How to work with these tools is written in the prompts: {titles}.")
    return {"instructions": "\n\n".join(sentences)} if sentences else {}
