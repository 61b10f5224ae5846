"""Limits of a session and of its requests, and the budget of one request."""

import math
from copy import copy
from dataclasses import dataclass
from time import monotonic

from core.outbound.errors import ProtocolViolationError, UnavailableError

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds and bytes.

    request, body: of one request. session, session_bytes: of all requests of a session.
    ratio: how many times larger than the compressed body the body may be, from `ratio_from` bytes on.
    patience: the longest wait before a retry.
    is_callers_deadline: the caller chose `request`, so silence is not an error of its own (IDLE).
    with_progress: progress renews `request` and `session`, up to this many seconds in all; 0: it does not.
    body_way_out, session_way_out: a sentence on how to raise the limit, where a user can.
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
    is_callers_deadline: bool = False
    with_progress: float = 0.0
    body_way_out: str = ""
    session_way_out: str = ""


DEFAULT_LIMITS = Limits()


class Budget:
    """The remaining time and bytes of one request. The HTTP library passes its errors on unchanged."""

    def __init__(self, host: str, limits: Limits, session_ends: float) -> None:
        started_at = monotonic()
        ends = started_at + limits.request
        self.host = host
        self.limits = limits
        self.ends = min(ends, session_ends)
        self._silent_since = started_at
        # A server hangs if it is silent for half of the request's time. Not if the session ends first: then
        # the server may have been about to respond.
        has_full_time = ends <= session_ends and not limits.is_callers_deadline
        self._long_silence = limits.request / 2 if has_full_time else math.inf
        self.allotted = limits.request if ends <= session_ends else limits.session
        self.body = 0
        self._received: int | None = None

    def for_host(self, host: str) -> "Budget":
        """Return a budget with the same end, whose errors name another host."""
        other = copy(self)
        other.host = host
        return other

    def begin_again(self, seconds: float) -> None:
        """Set a new deadline for the rest of a reply, which is read later. Silence is not a failure then."""
        self.ends = monotonic() + seconds
        self.allotted = seconds
        self._long_silence = math.inf

    def extend(self, session_ends: float) -> None:
        """Renew the time of the request, up to the end of the session."""
        self.ends = min(monotonic() + self.limits.request, session_ends)
        if self.ends == session_ends:
            self.allotted = self.limits.with_progress

    def wait(self, at_most: float = math.inf) -> float:
        """Return the seconds that the next step may take. Raises UnavailableError if none remain."""
        remaining = self.ends - monotonic()
        if remaining <= 0:
            raise self.late()
        return min(remaining, at_most)

    def late(self) -> UnavailableError:
        # A server that was silent for half of the time hangs; otherwise it is slow.
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
        # Framing counts as well, because endless chunk sizes or trailers have to end, too.
        self._silent_since = monotonic()
        if self._received is not None:
            self._received += size
            if self._received > 2 * self.limits.body:
                raise self.too_large()

    def too_large(self, announced_size: int = 0) -> ProtocolViolationError:
        limit = size_text(self.limits.body)
        size = (
            f"announced {size_text(announced_size)}; limit {limit}"
            if announced_size
            else f"sent more than {limit}"
        )
        message = f"{self.host} {size}. {self.limits.body_way_out}".rstrip()
        return ProtocolViolationError("BODY_TOO_LARGE", message)


def too_much_in_all(host: str, limits: Limits) -> ProtocolViolationError:
    message = f"{host} sent more than {size_text(limits.session_bytes)} in all. {limits.session_way_out}"
    return ProtocolViolationError("BODY_TOO_LARGE", message.rstrip())


def size_text(size: int) -> str:
    for unit, factor in (("GB", 1024 * MIB), ("MB", MIB), ("KB", KIB)):
        if size >= factor:
            number = size / factor
            return f"{number:.1f} {unit}" if unit == "GB" or size % factor else f"{number:.0f} {unit}"
    return f"{size} bytes"
