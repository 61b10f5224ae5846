"""`logging/setLevel`: which log messages of vendors a client of the older era wants to receive.

The level belongs to the session of the handshake, whose random part names it here. It is kept for a day, and
a client whose level is lost receives no log messages until it sets one again.

https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from collections.abc import Mapping
from typing import Any

from core.errors import DomainError
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import RefusedRequestError
from protocols.mcp.server.release import McpRelease, StoreError
from protocols.mcp.wire import INVALID_PARAMS, LOG_LEVELS
from protocols.server import ServerRequest

KEPT_SECONDS = 24 * 60 * 60
TOPIC = "log-level"


def set_level(
    request: ServerRequest, release: McpRelease, client: Client, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Store the level of a session. Raises RpcError if it is unknown, DomainError if it cannot be stored."""
    level = params.get("level")
    if level not in LOG_LEVELS:
        raise RefusedRequestError(INVALID_PARAMS, f"“level” is one of: {', '.join(LOG_LEVELS)}.")
    # Without a session there is no later request that could be known again.
    if client.session:
        try:
            release.store(TOPIC).write(client.session, level, KEPT_SECONDS)
        except StoreError as error:
            message = "The level could not be kept. Send it again."
            raise DomainError("unavailable", message, status=503) from error
    return {}


def find_level(release: McpRelease, client: Client) -> str:
    """Return the level that the client has set for its session, "" for none."""
    if not client.session:
        return ""
    try:
        (level,) = release.store(TOPIC).read(client.session)
    except StoreError:
        return ""
    return level
