"""The eras of MCP: since 2026-07-28 requests need no session; before, a handshake opens a session.

Some vendors support both. Their tools that send a request to the client can do so only in a session. The ids
of such tools are stored, and they are called in a session from then on. A vendor reports that it cannot ask
with an error that contains the method which it could not send.
docs/decisions/0074-questions-of-vendors.md gives the reasons.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

from core.translatable import mark as _
from protocols.mcp.wire import SERVER_REQUESTS

Era = Literal["", "modern", "handshake"]
MODERN_ERA: Era = "modern"
HANDSHAKE_ERA: Era = "handshake"
# As a setting of an endpoint; "" is automatic.
CHOICES: tuple[tuple[Era, str], ...] = (
    ("", _("Automatic")),
    (MODERN_ERA, _("2026-07-28, without sessions")),
    (HANDSHAKE_ERA, _("Up to 2025-11-25, with a handshake")),
)
MAX_REMEMBERED = 200
_ASKING = "asks_in_handshake"


def names_server_request(text: str) -> bool:
    """Return whether the text of a failure names a request that a server sends to its client."""
    return any(method in text for method in SERVER_REQUESTS)


def tools_asking_in_handshake(memory: Mapping[str, Any]) -> list[str]:
    remembered = memory.get(_ASKING)
    return [name for name in remembered if isinstance(name, str)] if isinstance(remembered, list) else []


def remember_asking(memory: MutableMapping[str, Any], tool_id: str) -> None:
    other_tools = [name for name in tools_asking_in_handshake(memory) if name != tool_id]
    memory[_ASKING] = [*other_tools, tool_id][-MAX_REMEMBERED:]


def forget_asking(memory: MutableMapping[str, Any], tool_id: str) -> None:
    memory[_ASKING] = [name for name in tools_asking_in_handshake(memory) if name != tool_id]
