"""The unread rest of a reply."""

from collections.abc import Iterator
from typing import Protocol

from core.outbound.limits import Budget

# A vendor may wait this long for another request, such as the answer of a user.
OPEN_SECONDS = 600


# Also if it is renewed.
MAX_REST_SECONDS = 6 * 3600.0


class ReplyConnection(Protocol):
    """The connection of a reply."""

    def interrupt(self) -> None:
        """Shut it down, so that a waiting thread wakes up. For another thread."""
        ...

    def abandon(self) -> None: ...


class ReplyRemainder:
    """The unread rest of a reply, after `size` bytes. Its owner abandons it.

    It belongs to one thread; `interrupt` is for other threads.
    """

    def __init__(
        self, connection: ReplyConnection, pieces: Iterator[bytes], budget: Budget, size: int
    ) -> None:
        self._connection, self._pieces, self._budget, self._size = connection, pieces, budget, size

    def read(self, seconds: float) -> Iterator[bytes]:
        """Yield the decoded pieces that arrive within so many seconds. Raises ProtocolError."""
        self._budget.begin_again(seconds)
        for piece in self._pieces:
            self._size += len(piece)
            if self._size > self._budget.limits.body:
                raise self._budget.too_large()
            yield piece

    def interrupt(self) -> None:
        self._connection.interrupt()

    def abandon(self) -> None:
        self._connection.abandon()
