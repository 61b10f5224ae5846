"""The registry of wire protocols. A new one is one file here and one name in `PROTOCOLS`."""

from catalog.protocols.a2t import A2T
from catalog.protocols.acp import ACP
from catalog.protocols.base import Protocol
from catalog.protocols.mcp import MCP
from catalog.protocols.openapi import OpenApi
from catalog.protocols.oxp import OXP

PROTOCOLS: tuple[type[Protocol], ...] = (A2T, ACP, MCP, OpenApi, OXP)


def get(name: str) -> type[Protocol]:
    """Raises KeyError for a name that is not registered."""
    return {protocol.name: protocol for protocol in PROTOCOLS}[name]


def choices() -> list[tuple[str, str]]:
    # A callable, so that a new protocol needs no migration.
    return [(protocol.name, protocol.label) for protocol in PROTOCOLS]
