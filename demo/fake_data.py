"""Invented measurements, names and prices: they look real and are the same every time."""

import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

T = TypeVar("T")


def number(low: int, high: int, *about: object) -> int:
    """Return a number from `low` to `high`, always the same one for equal `about`."""
    seed = zlib.crc32("|".join(str(a).casefold() for a in about).encode(errors="replace"))
    return low + seed % (high - low + 1)


def pick(options: Sequence[T], *about: object) -> T:
    """Return one of the options, always the same one for the same `about`."""
    return options[number(0, len(options) - 1, *about)]


def today() -> date:
    """Return the date in UTC, so that answers do not depend on the machine's own time zone."""
    return datetime.now(UTC).date()
