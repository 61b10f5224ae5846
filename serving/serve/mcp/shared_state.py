"""State that the streams of an API key share: slots in this process, and short texts for all processes."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import redis
from django.conf import settings

from core import redis_client
from people.models import ApiKey
from protocols.mcp.server.release import StoreError, StreamKind


def streams_in_a_process() -> int:
    """Return how many streams of one kind may be open. They need the threads that calls leave free."""
    return max(2, settings.CALLS_IN_A_PROCESS // 30)


class StreamSlots:
    """Limits the open streams of one kind in this process, and those of one API key."""

    def __init__(
        self,
        limit: Callable[[], int] = streams_in_a_process,
        *,
        limit_for_key: Callable[[], int] | None = None,
    ) -> None:
        self._limit = limit
        self._limit_for_key = limit_for_key or limit
        self._open: Counter[int] = Counter()
        self._lock = threading.Lock()

    def reserve(self, key: ApiKey) -> Callable[[], None] | None:
        """Reserve a slot and return the function that frees it; None if none is free."""
        with self._lock:
            is_free = self._open.total() < self._limit() and self._open[key.pk] < self._limit_for_key()
            if is_free:
                self._open[key.pk] += 1

        def leave() -> None:
            with self._lock:
                # The subtraction also drops keys without open streams.
                self._open -= Counter([key.pk])

        return leave if is_free else None


SLOTS: dict[StreamKind, StreamSlots] = {
    # A key whose users do not answer leaves half of the streams to other keys.
    "questions": StreamSlots(
        lambda: max(1, streams_in_a_process() // 2), limit_for_key=lambda: max(1, streams_in_a_process() // 4)
    ),
    "news": StreamSlots(),
}


@dataclass(frozen=True)
class KeyStore:
    """A `TextStore` in the broker's server. No key reads the entries of another key."""

    topic: str
    key: ApiKey

    def write(
        self, name: str, text: str | bytes, seconds: int | None, only_if: Literal["new", "old"] | None = None
    ) -> bool:
        condition = {"nx": only_if == "new", "xx": only_if == "old", "keepttl": seconds is None}
        return bool(self._run_command("set", self._key_name(name), text, ex=seconds, **condition))

    def extend(self, name: str, seconds: int) -> None:
        self._run_command("expire", self._key_name(name), seconds)

    def read(self, *names: str) -> list[str]:
        return [str(text or "") for text in self._run_command("mget", *map(self._key_name, names))]

    def _key_name(self, name: str) -> str:
        return f"pegboard:{self.topic}:{self.key.pk}:{name}"

    def _run_command(self, command: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(redis_client.client(), command)(*arguments, **options)
        except redis.RedisError as error:
            raise StoreError from error
