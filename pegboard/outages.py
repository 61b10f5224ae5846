"""What people and programs are told while the database is away, busy or out of room."""

from dataclasses import dataclass

from django.db import InterfaceError, InternalError, OperationalError
from psycopg import errors

from pegboard.patience import OutOfPatienceError

RETRY_AFTER = 5  # seconds
# PostgreSQL says so with a class of its own only where it is the write itself that fails.
NO_ROOM = ("No space left on device", "could not extend file", "File too large", "could not write")


@dataclass(frozen=True, slots=True)
class Outage:
    code: str
    message: str


AWAY = Outage("unavailable", "The database cannot be reached right now. Try again in a moment.")
BUSY = Outage("unavailable", "The database is busy. Try again in a moment.")
FULL = Outage(
    "disk_full",
    "The database has no room left, so nothing can be stored. What is there can still be read. "
    "Ask whoever runs Pegboard to make room; it goes on by itself then.",
)


def outage(exc: BaseException | None) -> Outage | None:
    """None for what is no outage but an error of ours or of the request."""
    if not isinstance(exc, OperationalError | InterfaceError | InternalError):
        return None
    cause = exc.__cause__
    if isinstance(cause, errors.DiskFull) or any(words in str(exc) for words in NO_ROOM):
        return FULL
    if isinstance(exc, InternalError):
        return None
    if isinstance(cause, OutOfPatienceError):
        return BUSY
    if isinstance(cause, errors.Error) and not isinstance(cause, errors.AdminShutdown) and cause.sqlstate:
        return BUSY if cause.sqlstate[:2] in ("40", "53", "55", "57") else AWAY
    return AWAY
