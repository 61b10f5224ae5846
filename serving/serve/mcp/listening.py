"""`subscriptions/listen`: a client hears of another release at its channel, and of updates of resources.

Each open stream holds a thread, so there are few, and each ends by itself after some minutes: a client that
comes back reads the lists again. One that is not let in asks for the lists from time to time.

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
from serving.serve.mcp.streams import LASTS, PING, PING_EVERY, Places, event

PAUSE = 2.0
NEWS = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
RESOURCES = "resourceSubscriptions"
_places = Places()


def listening(operations: Operations, message: Message, number: Number) -> Reply:
    """Raises RpcError, and ThrottledError where as many listen as may."""
    wanted = message.params.get("notifications")
    if not isinstance(wanted, dict):
        raise RpcError(INVALID_PARAMS, "“notifications” says which news are wanted.")
    if not _places.take(operations.caller.key):
        raise ThrottledError(int(LASTS))
    return _places.stream(_events(operations, number, wanted), operations.caller.key)


def _events(operations: Operations, number: Number, wanted: Mapping[str, Any]) -> Generator[bytes]:
    with ExitStack() as stack:
        updates = resource_updates.subscribe(operations, wanted.get(RESOURCES), stack)
        yield from _news_of(operations, number, wanted, updates)


def _news_of(
    operations: Operations, number: Number, wanted: Mapping[str, Any], updates: resource_updates.Updates
) -> Generator[bytes]:
    meta = {SUBSCRIPTION_ID: number}
    lists = [name for name in NEWS if wanted.get(name) is True]
    honoured: dict[str, Any] = dict.fromkeys(lists, True)
    if addresses := updates.addresses:
        honoured[RESOURCES] = addresses
    yield _news(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
    known, ends, pinged = operations.release.pk, time.monotonic() + LASTS, time.monotonic()
    # A number or a digest leads to the same release for ever.
    channel = Channel.objects.filter(agent=operations.release.agent_id, name=operations.named)
    while honoured and (now := time.monotonic()) < ends:
        leads_to = channel.values_list("release", flat=True).first()
        if leads_to not in (known, None):
            known = leads_to
            for name in lists:
                yield _news(NEWS[name], {"_meta": meta})
        for uri in updates.take():
            yield _news(UPDATED, {"uri": uri, "_meta": meta})
        if now - pinged > PING_EVERY:
            pinged = now
            yield PING
        give_back()
        time.sleep(PAUSE)
    yield event(wire.result(number, {"resultType": "complete", "_meta": meta}))


def _news(method: str, params: Mapping[str, Any]) -> bytes:
    return event(wire.notification(method, params))
