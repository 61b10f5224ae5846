"""The registry of wire protocols. A new one is one file here and one name in `PROTOCOLS`."""

from protocols.a2t.client import A2T
from protocols.acp.client import ACP
from protocols.base import Protocol
from protocols.definition import Definition
from protocols.mcp.client import MCP
from protocols.openapi.client import OpenApi
from protocols.oxp.client import OXP

# Those that vendors speak, which are offered where one is connected.
PROTOCOLS: tuple[type[Protocol], ...] = (A2T, ACP, MCP, OpenApi, OXP)
OWN: type[Protocol] = Definition


def get(name: str) -> type[Protocol]:
    """Raises KeyError for a name that is not registered."""
    return {protocol.name: protocol for protocol in (*PROTOCOLS, OWN)}[name]


def choices() -> list[tuple[str, str]]:
    """What the tools of the catalog are written in: as vendors speak, or defined here."""
    # A callable, so that a new protocol needs no migration.
    return [(protocol.name, protocol.label) for protocol in (*PROTOCOLS, OWN)]


def connectable() -> list[tuple[str, str]]:
    """What an endpoint can be connected in."""
    return [(protocol.name, protocol.label) for protocol in PROTOCOLS]
