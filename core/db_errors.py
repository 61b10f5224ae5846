"""What users and programs are told while the database is away, busy or out of space."""

from dataclasses import dataclass

import psycopg
from django.db import Error, InterfaceError, InternalError, OperationalError, connection
from psycopg import errors

RETRY_AFTER = 5  # seconds
# PostgreSQL has an error class for a full disk only where the write itself fails.
NO_SPACE = ("No space left on device", "could not extend file", "File too large", "could not write")


class QueryDeadlineError(psycopg.OperationalError):
    """All queries of one request together took too long: core/query_deadline.py."""


@dataclass(frozen=True, slots=True)
class Outage:
    code: str
    message: str


AWAY = Outage("unavailable", "The database cannot be reached right now. Try again in a moment.")
LOST = Outage(
    "outcome_unknown",
    "The connection to the database was lost, so it is not known whether this was saved. Look first, or "
    "repeat the request with the same Idempotency-Key.",
)
BUSY = Outage("unavailable", "The database is busy. Try again in a moment.")
FULL = Outage(
    "disk_full",
    "The database has no room left, so nothing can be stored. What is there can still be read. "
    "Ask the operator of this Pegboard to make room; it goes on by itself then.",
)


def database_answers() -> bool:
    try:
        # A connection that is there says nothing: its server may have gone since.
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return False
    return True


def outage(exc: BaseException | None, *, is_write: bool = False) -> Outage | None:
    """Return what to answer; None for what is no outage but an error of ours or of the request.

    is_write: the request may have been committing a change when the connection was lost.
    """
    if not isinstance(exc, OperationalError | InterfaceError | InternalError):
        return None
    cause = exc.__cause__
    if isinstance(cause, errors.DiskFull) or any(words in str(exc) for words in NO_SPACE):
        return FULL
    if isinstance(exc, InternalError):
        return None
    if is_write and is_database_lost(exc) and not _failed_to_connect(cause):
        return LOST
    if isinstance(cause, QueryDeadlineError):
        return BUSY
    return AWAY if is_database_lost(exc) else BUSY


def _failed_to_connect(cause: BaseException | None) -> bool:
    # psycopg sets `pgconn` on errors of a connection attempt alone.
    return getattr(cause, "pgconn", None) is not None


def is_database_lost(exc: BaseException) -> bool:
    """Whether the connection was lost, so that the outcome of the last statement is unknown."""
    if not isinstance(exc, OperationalError | InterfaceError | InternalError):
        return False
    # The error is asked and not the connection: Django may have opened another one meanwhile.
    state = getattr(exc.__cause__, "sqlstate", None)
    # Connection lost, server shut down or started, session ended for having slept inside a transaction.
    return state is None or state[:2] == "08" or state[:3] in ("57P", "25P")
