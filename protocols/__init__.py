"""The registry of wire protocols. A new protocol is one package here and one name in `PROTOCOLS`."""

from protocols.a2t.client import A2T
from protocols.acp.client import ACP
from protocols.base import Protocol
from protocols.definition import Definition
from protocols.mcp.client import MCP
from protocols.openapi.client import OpenApi
from protocols.oxp.client import OXP

# The protocols that vendors speak. Users choose one of them for an endpoint.
PROTOCOLS: tuple[type[Protocol], ...] = (A2T, ACP, MCP, OpenApi, OXP)
OWN: type[Protocol] = Definition


def get(name: str) -> type[Protocol]:
    """Return the protocol with this name. Raises KeyError."""
    return {protocol.name: protocol for protocol in (*PROTOCOLS, OWN)}[name]


def choices() -> list[tuple[str, str]]:
    """Return names and labels of all protocols, including that of tools defined in Pegboard."""
    # A callable, so that a new protocol needs no migration.
    return [(protocol.name, protocol.label) for protocol in (*PROTOCOLS, OWN)]


def connectable() -> list[tuple[str, str]]:
    """Return names and labels of the protocols of endpoints."""
    return [(protocol.name, protocol.label) for protocol in PROTOCOLS]
