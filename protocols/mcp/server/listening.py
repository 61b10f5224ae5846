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

from protocols.mcp import wire
from protocols.mcp.server.messages import Message, RefusedRequestError
from protocols.mcp.server.release import McpRelease
from protocols.mcp.server.streams import PING, PING_EVERY, STREAM_SECONDS, event, stream_reply
from protocols.mcp.subscriptions import ACKNOWLEDGED, UPDATED
from protocols.mcp.wire import INVALID_PARAMS, SUBSCRIPTION_ID, Number
from protocols.server import ServerReply, ThrottledError

PAUSE = 2.0
LIST_CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
RESOURCES = "resourceSubscriptions"
MAX_ADDRESSES = 100


def listen(release: McpRelease, message: Message, number: Number) -> ServerReply:
    """Return a stream of notifications. Raises RpcError, and ThrottledError if no stream is free."""
    requested = message.params.get("notifications")
    if not isinstance(requested, dict):
        raise RefusedRequestError(
            INVALID_PARAMS, "“notifications” has to be an object with the requested notifications."
        )

    def generate_events() -> Generator[bytes]:
        meta, uris = {SUBSCRIPTION_ID: number}, requested.get(RESOURCES)
        addresses = (
            [uri for uri in uris[:MAX_ADDRESSES] if isinstance(uri, str)] if isinstance(uris, list) else []
        )
        lists = [name for name in LIST_CHANGES if requested.get(name) is True]
        with ExitStack() as stack:
            updates = release.subscribe(addresses, stack)
            honoured: dict[str, Any] = dict.fromkeys(lists, True)
            if updates.addresses:
                honoured[RESOURCES] = updates.addresses
            yield _encode_notification(ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
            last_release, ends, pinged = release.number, time.monotonic() + STREAM_SECONDS, time.monotonic()
            while honoured and (now := time.monotonic()) < ends:
                current_release = release.current_number()
                if current_release not in (last_release, None):
                    last_release = current_release
                    for name in lists:
                        yield _encode_notification(LIST_CHANGES[name], {"_meta": meta})
                for uri in updates.take():
                    yield _encode_notification(UPDATED, {"uri": uri, "_meta": meta})
                if now - pinged > PING_EVERY:
                    pinged = now
                    yield PING
                release.pause(PAUSE)
            yield event(wire.result(number, {"resultType": "complete", "_meta": meta}))

    leave = release.reserve_stream("news")
    if leave is None:
        raise ThrottledError(int(STREAM_SECONDS))
    return stream_reply(generate_events(), leave)


def _encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    return event(wire.notification(method, params))
