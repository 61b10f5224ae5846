"""How long the oldest piece of each kind of work has waited for a worker."""

from collections.abc import Callable

from catalog.calls import queue

# One line for each kind of work.
WAIT_SECONDS: dict[str, Callable[[], float]] = {"calls": queue.oldest_wait_seconds}


def oldest_seconds() -> dict[str, float]:
    """Return the seconds by kind of work; 0 where nothing waits."""
    return {kind: round(seconds(), 1) for kind, seconds in WAIT_SECONDS.items()}
