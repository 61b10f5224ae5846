"""What a reply still has to say after enough of it was read."""

from collections.abc import Iterator
from typing import Protocol

from core.outbound.limits import Budget

# So long a vendor is let wait for what another request brings, such as the answer of a user.
OPEN_SECONDS = 600


# However often it is wanted anew.
MAX_REST_SECONDS = 6 * 3600.0


class Line(Protocol):
    """The connection that a reply comes over."""

    def interrupt(self) -> None:
        """From another thread: what waits for it wakes up and finds it ended."""
        ...

    def abandon(self) -> None: ...


class Rest:
    """Belongs to one thread; `interrupt` is for others. Whoever has it abandons it. `size` bytes came
    before."""

    def __init__(self, line: Line, pieces: Iterator[bytes], budget: Budget, size: int) -> None:
        self._line, self._pieces, self._budget, self._size = line, pieces, budget, size

    def read(self, seconds: float) -> Iterator[bytes]:
        """The pieces that come within so many seconds, decoded. Raises ProtocolError."""
        self._budget.begin_again(seconds)
        for piece in self._pieces:
            self._size += len(piece)
            if self._size > self._budget.limits.body:
                raise self._budget.too_large()
            yield piece

    def interrupt(self) -> None:
        self._line.interrupt()

    def abandon(self) -> None:
        self._line.abandon()
