"""The places of one process for calls: how many run at once, and how agents and API keys share them.

A call that is waited for holds a thread until its vendor answers, so one slow vendor could fill all places.
The more places a key and its agent hold, the more have to stay free for others.
"""

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings

from catalog.models import Call
from core.errors import DomainError
from core.postgresql.base import give_back

# The places that a holder may have for each one that stays free: a key up to three quarters of all places,
# the keys of an agent together up to seven eighths.
KEY_SHARE, AGENT_SHARE = 3, 7
ROOM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Holder:
    """The owner of a call: an agent and an API key.

    agent: None for a user who tries a tool. key: identifies the user if there is no API key.
    """

    agent: int | None
    key: Hashable


def may_take(held_count: int, free: int, share: int) -> bool:
    """Return True if a holder of `held_count` places may take one of `free` ones."""
    return free > 0 and (held_count == 0 or held_count + 1 <= share * (free - 1))


class CallPlaces:
    """The places of a process. Threads that wait for one have no order among them.

    size: the number of places; None for CALLS_IN_A_PROCESS, which a forked process sets after its imports.
    """

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._taken = 0
        self._held: Counter[Hashable] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def place(self, holder: Holder, seconds: float) -> Iterator[bool]:
        """Take a place within so many seconds and free it at the end. Yields False without one."""
        shares: dict[Hashable, int] = {holder: KEY_SHARE}
        # A user who tries a tool does so for no agent.
        if holder.agent is not None:
            shares[holder.agent] = AGENT_SHARE

        def is_free() -> bool:
            free = (settings.CALLS_IN_A_PROCESS if self._size is None else self._size) - self._taken
            return all(may_take(self._held[key], free, share) for key, share in shares.items())

        with self._changed:
            has_place = self._changed.wait_for(is_free, seconds)
            if has_place:
                self._taken += 1
                self._held.update(shares.keys())
        try:
            yield has_place
        finally:
            if has_place:
                with self._changed:
                    self._taken -= 1
                    # Counts of zero are dropped.
                    self._held -= Counter(shares.keys())
                    self._changed.notify_all()


_places = CallPlaces()


class NoRoomError(DomainError):
    retry_after = 1

    def __init__(self, consequence: str = "Nothing was sent.") -> None:
        message = f"Too many calls are running. {consequence} Try again in 1 second."
        super().__init__("busy", message, status=503)


class NoRoomToFollowError(NoRoomError):
    """The same error for a client that asks about an earlier call."""

    def __init__(self) -> None:
        super().__init__("The call is still running, but its progress cannot be streamed right now.")


@contextmanager
def room(holder: Holder, error: type[NoRoomError] = NoRoomError) -> Iterator[None]:
    """Acquire one of the places for calls in this process. Raises `error` if there is none within a
    second."""
    # A slow vendor must not occupy all threads of a process.
    with _places.place(holder, 0.0) as has_place:
        if has_place:
            yield
            return
    give_back()
    with _places.place(holder, ROOM_SECONDS) as has_place:
        if not has_place:
            raise error
        yield


def holder_of(call: Call) -> Holder:
    return holder_for(call.requested_by_id, call.agent, call.api_key_id)


def holder_for(user: int | None, agent: int | None = None, api_key: int | None = None) -> Holder:
    """Return the holder of a place: the API key, or the user without one, and the agent of the call."""
    return Holder(agent, f"key {api_key}" if api_key else f"user {user}")
