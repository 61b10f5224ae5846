"""Results of pure functions, cached by the content that they depend on.

Pages, publishing and calls process the same tools again and again, and a large schema costs milliseconds. So
each process evaluates a signature, or a schema, once.
"""

import gc
import hashlib
import math
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

import msgspec

Result = TypeVar("Result")

# Memory of the results of one cache. One result about a large schema takes megabytes.
MAX_BYTES = 8 * 1024 * 1024
# Code, which a value refers to and does not contain.
_SHARED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def count_bytes(value: object, limit: float = math.inf) -> int:
    """Return about how many bytes of memory a value takes, with all that it contains.

    limit: counting stops above it.
    """
    waiting: list[object] = [value]
    counted, total = set[int](), 0
    while waiting and total <= limit:
        part = waiting.pop()
        if id(part) not in counted and not isinstance(part, _SHARED):
            counted.add(id(part))
            total += sys.getsizeof(part)
            waiting += gc.get_referents(part)
    return total


class ContentCache(Generic[Result]):
    """The results of one function, at most `size` of them in at most `max_bytes` of memory.

    The least recently used one is dropped first. A result that takes more memory by itself is not cached.
    """

    def __init__(self, size: int = 10_000, max_bytes: int = MAX_BYTES) -> None:
        self.size = size
        self.max_bytes = max_bytes
        self._results: OrderedDict[Hashable, tuple[Result, int]] = OrderedDict()
        self._total_bytes = 0
        self._lock = Lock()

    def get(
        self,
        key: Hashable,
        evaluate: Callable[[], Result],
        is_kept: Callable[[Result], bool] = lambda result: True,
        byte_count: int | None = None,
    ) -> Result:
        """Return the cached result, or evaluate it. `key` is all that it depends on, or its digest.

        is_kept: False for a result that may differ the next time, which is not cached.
        byte_count: an estimate of its memory, for results that take longer to count than to evaluate.
        """
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key][0]
        result = evaluate()
        if not is_kept(result):
            return result
        if byte_count is None:
            byte_count = count_bytes((key, result), limit=self.max_bytes)
        with self._lock:
            if key not in self._results and byte_count <= self.max_bytes:
                self._results[key] = result, byte_count
                self._total_bytes += byte_count
            while len(self._results) > self.size or self._total_bytes > self.max_bytes:
                self._total_bytes -= self._results.popitem(last=False)[1][1]
        return result

    def clear(self) -> None:
        with self._lock:
            self._results.clear()
            self._total_bytes = 0


class SchemaCache(Generic[Result]):
    """The schemas that one function writes, each with another result. A schema is stored as JSON text, which
    takes less memory, so each later caller gets a copy of its own.
    """

    def __init__(self, size: int) -> None:
        self._texts: ContentCache[tuple[bytes, Result]] = ContentCache(size)

    def get(
        self, key: Hashable, evaluate: Callable[[], tuple[dict[str, Any], Result]]
    ) -> tuple[dict[str, Any], Result]:
        """Return the cached schema and result, or evaluate them, as `ContentCache.get` does."""
        evaluated: list[dict[str, Any]] = []

        def evaluate_as_text() -> tuple[bytes, Result]:
            schema, result = evaluate()
            evaluated.append(schema)
            return msgspec.json.encode(schema), result

        text, result = self._texts.get(key, evaluate_as_text)
        return evaluated[0] if evaluated else msgspec.json.decode(text), result


class ObjectCache(Generic[Result]):
    """The results of one function about objects that never change, each for as long as its object exists."""

    def __init__(self) -> None:
        self._results: dict[int, tuple[weakref.ref[Any], Result]] = {}

    def get(self, subject: object, evaluate: Callable[[], Result]) -> Result:
        number = id(subject)
        entry = self._results.get(number)
        if entry is None or entry[0]() is not subject:
            # It is removed before another object can get the same id.
            reference = weakref.ref(subject, lambda _reference: self._results.pop(number, None))
            entry = self._results[number] = reference, evaluate()
        return entry[1]

    def clear(self) -> None:
        self._results.clear()


_digests: ObjectCache[bytes] = ObjectCache()


def digest_once(value: object) -> bytes:
    """Return the digest of a structure that never changes. It is encoded once."""
    return _digests.get(value, lambda: digest(value))


def digest(value: object) -> bytes:
    """Return the digest of a structure or of a schema. Schemas whose members differ in order differ."""
    return hashlib.sha256(msgspec.json.encode(value)).digest()
