"""Verdicts of pure rules, by the content that they depend on.

Pages and publishing evaluate the same tools again and again, and a large schema costs milliseconds. So each
process evaluates a signature, or a schema, once.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import msgspec

Verdict = TypeVar("Verdict")
MAX_VERDICTS = 10_000


class VerdictCache(Generic[Verdict]):
    """Verdicts of one rule, or of one set of rules. The least recently used one is dropped first."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes, evaluate: Callable[[], Verdict]) -> Verdict:
        """Return the stored verdict, or evaluate it. `key` is the digest of all that it depends on."""
        with self._lock:
            if key in self._verdicts:
                self._verdicts.move_to_end(key)
                return self._verdicts[key]
        verdict = evaluate()
        with self._lock:
            self._verdicts[key] = verdict
            if len(self._verdicts) > MAX_VERDICTS:
                self._verdicts.popitem(last=False)
        return verdict


def digest(value: object) -> bytes:
    """Return the digest of a structure or of a schema. Schemas whose members differ in order differ."""
    return hashlib.sha256(msgspec.json.encode(value)).digest()
