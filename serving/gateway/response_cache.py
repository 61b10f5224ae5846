"""Responses to frequent reads, each for one API key and one release.

The access of the key is checked for every request, before a cached response is used. The cache is bounded,
and ends with the process.
"""

import threading
from collections.abc import Hashable
from dataclasses import dataclass

# Of all requests and responses together. Beyond it, all are dropped.
MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A response without what differs from request to request.

    before_id, after_id: the body around the id of the JSON-RPC message; both empty for a 304.
    route: the name of the URL pattern, for metrics and the log.
    """

    status: str
    headers: list[tuple[str, str]]
    route: str
    before_id: bytes = b""
    after_id: bytes = b""


_lock = threading.Lock()
# By the facts of the request, and then by the primary keys of API key and release.
_responses: dict[Hashable, dict[tuple[int, int], CachedResponse]] = {}
_size = 0


def has_any(request_facts: Hashable) -> bool:
    """Return whether a response is stored, for whichever key: without one, no access needs to be checked."""
    return request_facts in _responses


def find(request_facts: Hashable, key_id: int, release_id: int) -> CachedResponse | None:
    return _responses.get(request_facts, {}).get((key_id, release_id))


def store(
    request_facts: Hashable, key_and_release: tuple[int, int], response: CachedResponse, size: int
) -> None:
    """Store a response. size: bytes of the request and the response."""
    global _size
    if size > MAX_BYTES // 4:
        return
    with _lock:
        if _size + size > MAX_BYTES:
            _responses.clear()
            _size = 0
        _size += size
        _responses.setdefault(request_facts, {})[key_and_release] = response


def clear() -> None:
    global _size
    with _lock:
        _responses.clear()
        _size = 0
