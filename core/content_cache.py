"""Results of pure functions, cached by the content that they depend on.

Pages, publishing and calls process the same tools again and again, and a large schema costs milliseconds. So
each process evaluates a signature, or a schema, once.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import msgspec

Result = TypeVar("Result")


class ContentCache(Generic[Result]):
    """The results of one function, at most `size` of them. The least recently used one is dropped first."""

    def __init__(self, size: int = 10_000) -> None:
        self.size = size
        self._results: OrderedDict[bytes, Result] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes, evaluate: Callable[[], Result]) -> Result:
        """Return the cached result, or evaluate it. `key` is the digest of all that it depends on."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = evaluate()
        with self._lock:
            self._results[key] = result
            if len(self._results) > self.size:
                self._results.popitem(last=False)
        return result


def digest(value: object) -> bytes:
    """Return the digest of a structure or of a schema. Schemas whose members differ in order differ."""
    return hashlib.sha256(msgspec.json.encode(value)).digest()
