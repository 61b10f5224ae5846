"""`subscriptions/listen`: notifies a client when its channel moves to another release, and of updated
resources.

Each open stream occupies a thread, so their number is limited, and each ends by itself after some minutes. A
client that reconnects reads the lists again. A client without a stream polls the lists.

https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions
"""

import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from typing import Any

from core.postgresql.base import give_back
from designer.models import Channel
from protocols.mcp import wire
from protocols.mcp.server.messages import Message, RpcError
from protocols.mcp.subscriptions import ACKNOWLEDGED, UPDATED
from protocols.mcp.wire import INVALID_PARAMS, SUBSCRIPTION_ID, Number
from protocols.server import Reply
from serving.serve.base import Operations, ThrottledError
from serving.serve.mcp import resource_updates
from serving.serve.mcp.streams import PING, PING_EVERY, STREAM_SECONDS, StreamSlots, event

PAUSE = 2.0
LIST_CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
RESOURCES = "resourceSubscriptions"
_slots = StreamSlots()


def listen(operations: Operations, message: Message, number: Number) -> Reply:
    """Return a stream of notifications. Raises RpcError, and ThrottledError if no stream is free."""
    requested = message.params.get("notifications")
    if not isinstance(requested, dict):
        raise RpcError(
            INVALID_PARAMS, "“notifications” has to be an object with the requested notifications."
        )
    if not _slots.take(operations.caller.key):
        raise ThrottledError(int(STREAM_SECONDS))
    return _slots.stream(_generate_events(operations, number, requested), operations.caller.key)


def _generate_events(
    operations: Operations, number: Number, requested: Mapping[str, Any]
) -> Generator[bytes]:
    with ExitStack() as stack:
        updates = resource_updates.subscribe(operations, requested.get(RESOURCES), stack)
        yield from _generate_notifications(operations, number, requested, updates)


def _generate_notifications(
    operations: Operations, number: Number, requested: Mapping[str, Any], updates: resource_updates.Updates
) -> Generator[bytes]:
    meta = {SUBSCRIPTION_ID: number}
    lists = [name for name in LIST_CHANGES if requested.get(name) is True]
    honoured: dict[str, Any] = dict.fromkeys(lists, True)
    if addresses := updates.addresses:
        honoured[RESOURCES] = addresses
    yield _notification(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
    release_id, ends, pinged = operations.release.pk, time.monotonic() + STREAM_SECONDS, time.monotonic()
    # A number or a digest always names the same release, so only channels are polled.
    channel = Channel.objects.filter(agent=operations.release.agent_id, name=operations.release_name)
    while honoured and (now := time.monotonic()) < ends:
        channel_release_id = channel.values_list("release", flat=True).first()
        if channel_release_id not in (release_id, None):
            release_id = channel_release_id
            for name in lists:
                yield _notification(LIST_CHANGES[name], {"_meta": meta})
        for uri in updates.take():
            yield _notification(UPDATED, {"uri": uri, "_meta": meta})
        if now - pinged > PING_EVERY:
            pinged = now
            yield PING
        give_back()
        time.sleep(PAUSE)
    yield event(wire.result(number, {"resultType": "complete", "_meta": meta}))


def _notification(method: str, params: Mapping[str, Any]) -> bytes:
    return event(wire.notification(method, params))
