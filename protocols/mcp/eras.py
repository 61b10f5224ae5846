"""The eras of MCP: since 2026-07-28 every request stands alone; before, a handshake opens a session.

Some vendors speak both. A tool of theirs that asks by a request of its own can do so in a session alone. Such
tools are remembered by their ids, and are called in a session from then on. A vendor states that it cannot
ask with an error that names the request which it could not send.
docs/decisions/0091-the-era-in-which-a-tool-can-ask.md gives the reasons.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

from protocols.mcp.wire import SERVER_REQUESTS

Era = Literal["", "modern", "handshake"]
MODERN_ERA: Era = "modern"
HANDSHAKE_ERA: Era = "handshake"
# As a setting of an endpoint; "" is automatic.
CHOICES: tuple[tuple[Era, str], ...] = (
    ("", "Automatic"),
    (MODERN_ERA, "2026-07-28, without sessions"),
    (HANDSHAKE_ERA, "Up to 2025-11-25, with a handshake"),
)
MAX_REMEMBERED = 200
_ASKING = "asks_in_handshake"


def names_server_request(text: str) -> bool:
    """Return True if a failure says that a request to the client could not be sent."""
    return any(method in text for method in SERVER_REQUESTS)


def tools_asking_in_handshake(memory: Mapping[str, Any]) -> list[str]:
    remembered = memory.get(_ASKING)
    return [name for name in remembered if isinstance(name, str)] if isinstance(remembered, list) else []


def remember_asking(memory: MutableMapping[str, Any], tool_id: str) -> None:
    other_tools = [name for name in tools_asking_in_handshake(memory) if name != tool_id]
    memory[_ASKING] = [*other_tools, tool_id][-MAX_REMEMBERED:]


def forget_asking(memory: MutableMapping[str, Any], tool_id: str) -> None:
    memory[_ASKING] = [name for name in tools_asking_in_handshake(memory) if name != tool_id]
