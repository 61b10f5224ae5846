"""The times at which the reading of a list must be over."""

import time
from dataclasses import dataclass

from catalog import bounds
from core.outbound.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class Deadline:
    """The times on the monotonic clock when the whole enumeration and when this process must be over."""

    minutes: int
    ends: float
    process_ends: float
    way_to_less: str

    def check(self, pages: int, tool_count: int) -> None:
        now = time.monotonic()
        if now > self.ends:
            message = (
                f"The list did not end within {self.minutes:,} minutes ({pages:,} pages). "
                if self.minutes > 1
                else f"The list did not end within 1 minute ({pages:,} pages). "
            )
            raise UnavailableError("DEADLINE", message + bounds.way_out("max_minutes"))
        if now > self.process_ends:
            message = f"The list did not end within the time of one process ({tool_count:,} tools). "
            raise UnavailableError("DEADLINE", (message + self.way_to_less).rstrip())
