"""What a session and each of its requests may take, and what is left of it."""

import math
from copy import copy
from dataclasses import dataclass
from time import monotonic

from core.outbound.errors import ProtocolViolationError, UnavailableError

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes. `request` and `body` hold for one request, `session` and `session_bytes` for all.

    With `is_asked_for` the caller has set `request` as a deadline: then silence is lateness like any other.
    With `with_progress`, progress gives `request` and `session` anew, up to that many seconds in all.
    Where a person can raise a limit of bytes, `body_way_out` and `session_way_out` say how.
    """

    lookup: float = 3.0
    connect: float = 3.0
    request: float = 20.0
    session: float = 300.0
    body: int = 10 * MIB
    session_bytes: int = 64 * MIB
    ratio: int = 200
    ratio_from: int = MIB
    backoff: tuple[float, ...] = (0.2, 1.0)
    patience: float = 5.0
    is_asked_for: bool = False
    with_progress: float = 0.0
    body_way_out: str = ""
    session_way_out: str = ""


DEFAULT_LIMITS = Limits()


class Budget:
    """What one request may still take. Its errors are ours and pass through the HTTP library untouched."""

    def __init__(self, host: str, limits: Limits, session_ends: float) -> None:
        began = monotonic()
        ends = began + limits.request
        self.host = host
        self.limits = limits
        self.ends = min(ends, session_ends)
        self._silent_since = began
        # What the session's end cuts off may have been about to come.
        is_whole = ends <= session_ends and not limits.is_asked_for
        self._long_silence = limits.request / 2 if is_whole else math.inf
        self.allotted = limits.request if ends <= session_ends else limits.session
        self.body = 0
        self._received: int | None = None

    def for_host(self, host: str) -> "Budget":
        """Return a budget with the same end, whose errors name another host."""
        other = copy(self)
        other.host = host
        return other

    def begin_again(self, seconds: float) -> None:
        """For what is read later, after it was enough at first; silence is no lateness then."""
        self.ends = monotonic() + seconds
        self.allotted = seconds
        self._long_silence = math.inf

    def extend(self, session_ends: float) -> None:
        """Gives the request its time anew, as far as the session lasts."""
        self.ends = min(monotonic() + self.limits.request, session_ends)

    def wait(self, at_most: float = math.inf) -> float:
        """Seconds that the next step may take."""
        left = self.ends - monotonic()
        if left <= 0:
            raise self.late()
        return min(left, at_most)

    def late(self) -> UnavailableError:
        # A server that was silent for half of the time hangs; any other is slow.
        if monotonic() - self._silent_since < self._long_silence:
            return UnavailableError("DEADLINE", f"{self.host} did not finish within {self.allotted:g} s.")
        if self.body:
            return UnavailableError("IDLE", f"{self.host} stopped after {self.body:,} bytes.")
        return UnavailableError("IDLE", f"{self.host} sent nothing for {self.allotted:g} s.")

    def reset(self) -> UnavailableError:
        return UnavailableError("RESET", f"{self.host}: the connection was reset.")

    def head_is_read(self) -> None:
        self._received = 0

    def count(self, size: int) -> None:
        # Framing counts as well: endless chunk sizes or trailers are no body, and still have to end.
        self._silent_since = monotonic()
        if self._received is not None:
            self._received += size
            if self._received > 2 * self.limits.body:
                raise self.too_large()

    def too_large(self, announced: int = 0) -> ProtocolViolationError:
        limit = size_text(self.limits.body)
        sent = f"announced {size_text(announced)}; limit {limit}" if announced else f"sent more than {limit}"
        why = f"{self.host} {sent}. {self.limits.body_way_out}".rstrip()
        return ProtocolViolationError("BODY_TOO_LARGE", why)


def too_much_in_all(host: str, limits: Limits) -> ProtocolViolationError:
    said = f"{host} sent more than {size_text(limits.session_bytes)} in all. {limits.session_way_out}"
    return ProtocolViolationError("BODY_TOO_LARGE", said.rstrip())


def size_text(size: int) -> str:
    for unit, factor in (("GB", 1024 * MIB), ("MB", MIB), ("KB", KIB)):
        if size >= factor:
            number = size / factor
            return f"{number:.1f} {unit}" if unit == "GB" or size % factor else f"{number:.0f} {unit}"
    return f"{size} bytes"
