"""Messages for users and programs while the database is unreachable, busy or out of space."""

from dataclasses import dataclass
from typing import Literal

import psycopg
from django.db import Error, InterfaceError, InternalError, OperationalError, connection
from psycopg import errors

from core.postgresql.base import NoFreeConnectionError

RETRY_AFTER = 5  # seconds
CONNECTION_WAIT = 1.0  # seconds, of a health check
DatabaseState = Literal["ok", "unreachable", "no free connection"]
# PostgreSQL reports a full disk with its own error class only when the write itself fails.
NO_SPACE = ("No space left on device", "could not extend file", "File too large", "could not write")


class QueryDeadlineError(psycopg.OperationalError):
    """The queries of one request took too long in total: core/query_deadline.py."""


@dataclass(frozen=True, slots=True)
class Outage:
    code: str
    message: str


AWAY = Outage("unavailable", "The database cannot be reached right now. Try again in a moment.")
LOST = Outage(
    "outcome_unknown",
    "The connection to the database was lost, so it is unknown whether this was saved. Check first, or "
    "repeat the request with the same Idempotency-Key.",
)
BUSY = Outage("unavailable", "The database is busy. Try again in a moment.")
FULL = Outage(
    "disk_full",
    "The disk of the database is full, so nothing can be saved. Everything can still be read. "
    "Ask the operator of this installation to free space. Pegboard then continues without a restart.",
)


def database_state() -> DatabaseState:
    """Return the state of the database, within about a second if this process has no free connection."""
    # A health check waits for a connection for a shorter time than a request does.
    has_free_connection = getattr(connection, "has_free_connection", None)
    if has_free_connection and not has_free_connection(CONNECTION_WAIT):
        return "no free connection"
    try:
        # An open connection proves nothing: its server may have stopped.
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as exc:
        # 53300: the server has reached its limit of connections.
        cause = exc.__cause__
        is_full = isinstance(cause, NoFreeConnectionError) or getattr(cause, "sqlstate", None) == "53300"
        return "no free connection" if is_full else "unreachable"
    return "ok"


def outage(exc: BaseException | None, *, is_write: bool = False) -> Outage | None:
    """Return the outage that caused the error, or None if the cause is the product or the request.

    is_write: the request may have been committing a change when the connection was lost.
    """
    if not isinstance(exc, OperationalError | InterfaceError | InternalError):
        return None
    cause = exc.__cause__
    if isinstance(cause, errors.DiskFull) or any(phrase in str(exc) for phrase in NO_SPACE):
        return FULL
    if isinstance(exc, InternalError):
        return None
    if isinstance(cause, QueryDeadlineError | NoFreeConnectionError):
        return BUSY
    if is_write and is_database_lost(exc) and getattr(cause, "pgconn", None) is None:
        return LOST
    return AWAY if is_database_lost(exc) else BUSY


def is_database_lost(exc: BaseException) -> bool:
    """Return whether the connection was lost, so that the outcome of the last statement is unknown."""
    if not isinstance(exc, OperationalError | InterfaceError | InternalError):
        return False
    # The connection is no evidence: Django may have opened another one.
    state = getattr(exc.__cause__, "sqlstate", None)
    # Connection lost, server shut down or started, session ended because it was idle in a transaction.
    return state is None or state[:2] == "08" or state[:3] in ("57P", "25P")
