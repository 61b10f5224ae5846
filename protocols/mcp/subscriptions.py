"""Subscriptions to resources of a vendor's MCP server, in both eras.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
"""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from core.outbound.errors import ProtocolViolationError, RefusedError
from core.outbound.listening import Listening
from protocols import events
from protocols.base import Session
from protocols.mcp import wire
from protocols.mcp.eras import Era
from protocols.mcp.transport import Transport

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED_WITHIN = 5.0  # seconds
_PAUSE = 0.05


class ResourceSubscription:
    """A stream on which the vendor reports updates of resources."""

    def __init__(self, listening: Listening, addresses: Collection[str]) -> None:
        self._listening = listening
        self.addresses = addresses

    def take_updates(self) -> list[str]:
        """Return the addresses that were updated since the last time, without waiting."""
        updates = [
            message["params"].get("uri")
            for message in _notifications(self._listening)
            if message.get("method") == UPDATED
        ]
        return [uri for uri in updates if uri in self.addresses]


@contextmanager
def subscribe(
    session: Session, uris: Sequence[str], era: Era, seconds: float
) -> Iterator[ResourceSubscription]:
    """Subscribe to the resources for at most so many seconds. Raises ProtocolError."""
    with Transport(session, questions=(), era=era) as transport:
        listening = transport.watch(uris, seconds)
        try:
            accepted = _await_acknowledgement(listening) if transport.is_modern else uris
            yield ResourceSubscription(listening, frozenset(accepted) & frozenset(uris))
        finally:
            listening.close()


def _await_acknowledgement(listening: Listening) -> list[str]:
    """Return the addresses that the vendor will report. Raises RefusedError."""
    ends = time.monotonic() + ACKNOWLEDGED_WITHIN
    while time.monotonic() < ends:
        has_ended = listening.has_ended
        for message in _notifications(listening):
            if message.get("method") == ACKNOWLEDGED:
                accepted = message["params"].get("notifications")
                uris = accepted.get("resourceSubscriptions") if isinstance(accepted, dict) else None
                return [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
        if has_ended:
            break
        time.sleep(_PAUSE)
    raise RefusedError("NO_SUBSCRIPTIONS", "The vendor does not report updates of resources.")


def _notifications(listening: Listening) -> Iterator[dict[str, Any]]:
    """Yield the notifications that have arrived. An event that cannot be read costs only itself."""
    for event in events.parse(listening.take()):
        if event.name != "message" or not event.data:
            continue
        try:
            messages = wire.messages_in(wire.document_in(event))
        except ProtocolViolationError:
            continue
        for message in messages:
            if isinstance(message, dict) and isinstance(message.get("params"), dict):
                yield message
