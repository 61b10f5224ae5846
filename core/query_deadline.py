"""A deadline for all database queries of one request together, and a longer one for long writes.

`statement_timeout` limits one statement, and TCP timeouts detect a host that is gone. Neither limits many
queries that are each a little slow, or a connection that is open and silent: a stopped server or a stalled
proxy still acknowledges packets. Eight such requests once occupied all eight threads permanently
(docs/decisions/0041-limits-and-deadlines.md).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from core.db_errors import QueryDeadlineError
from core.errors import DomainError

LONG_WRITE_SECONDS = 30.0
# A long write occupies a thread and locks rows, so a process runs few of them at once.
MAX_LONG_WRITES = 3
_long_writes = threading.BoundedSemaphore(MAX_LONG_WRITES)


class TooManyLongWritesError(DomainError):
    retry_after = 5

    def __init__(self) -> None:
        message = "Other long changes are being saved. This one was not saved. Try again in 5 seconds."
        super().__init__("unavailable", message, status=503)


class _Budget(threading.local):
    """Seconds that the request of this thread may still wait for the database; None outside requests."""

    seconds: float | None = None
    is_long_write: bool = False


_budget = _Budget()


@contextmanager
def limit_queries(seconds: float | None) -> Iterator[None]:
    """Limit the total time that the queries of this thread may take, in seconds."""
    _budget.seconds = seconds
    try:
        yield
    finally:
        _budget.seconds = None


@contextmanager
def long_transaction() -> Iterator[None]:
    """Run a transaction without the short deadline, because it writes many rows. Also a decorator.

    Inside a request its queries may take LONG_WRITE_SECONDS in total, regardless of the budget of the
    request. Outside a request, and inside another long transaction, it is a plain transaction. Raises
    TooManyLongWritesError before anything is written.
    """
    before = _budget.seconds
    if before is None or _budget.is_long_write:
        with transaction.atomic():
            yield
        return
    if not _long_writes.acquire(blocking=False):
        raise TooManyLongWritesError
    try:
        with transaction.atomic():
            _budget.seconds, _budget.is_long_write = LONG_WRITE_SECONDS, True
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {int(LONG_WRITE_SECONDS * 1000)}")
            yield
    finally:
        _budget.seconds, _budget.is_long_write = before, False
        _long_writes.release()


def limit_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Make a new connection obey the budget of the thread that uses it (signal `connection_created`)."""
    database: psycopg.Connection = connection.connection
    # A connection that threads share is announced each time a thread acquires it.
    if "wait" in vars(database):
        return
    # Every query and rollback of a connection goes through its `wait`.
    wait = database.wait

    def wait_within_budget(gen: Any, *args: Any, **options: Any) -> Any:
        if _budget.seconds is None:
            return wait(gen, *args, **options)
        began = time.monotonic()
        try:
            return wait(gen, *args, **options | {"timeout": max(_budget.seconds, 0.0)})
        except errors._WaitTimeout:
            # The state of the session is unknown, so the connection cannot be reused.
            database.pgconn.finish()
            raise QueryDeadlineError("the database is too slow for a page") from None
        finally:
            _budget.seconds -= time.monotonic() - began

    database.wait = wait_within_budget  # type: ignore[method-assign]
