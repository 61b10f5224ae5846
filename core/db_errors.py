"""What users and programs are told while the database is away, busy or out of space."""

from dataclasses import dataclass
from typing import Literal

import psycopg
from django.db import Error, InterfaceError, InternalError, OperationalError, connection
from psycopg import errors

from core.postgresql.base import NoFreeConnectionError

RETRY_AFTER = 5  # seconds
CONNECTION_WAIT = 1.0  # seconds, of a health check
DatabaseState = Literal["ok", "unreachable", "no free connection"]
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


def database_state() -> DatabaseState:
    """Whether the database answers; within about a second where this process has no connection left."""
    # The wait for a connection is shorter than that of a request: a health check gives up before.
    has_free_connection = getattr(connection, "has_free_connection", None)
    if has_free_connection and not has_free_connection(CONNECTION_WAIT):
        return "no free connection"
    try:
        # An open connection proves nothing: its server may have stopped since.
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as exc:
        return "no free connection" if _lacks_connections(exc) else "unreachable"
    return "ok"


def _lacks_connections(exc: Error) -> bool:
    # 53300: the server has as many as it accepts.
    cause = exc.__cause__
    return isinstance(cause, NoFreeConnectionError) or getattr(cause, "sqlstate", None) == "53300"


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
    if isinstance(cause, QueryDeadlineError | NoFreeConnectionError):
        return BUSY
    if is_write and is_database_lost(exc) and not _failed_to_connect(cause):
        return LOST
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
