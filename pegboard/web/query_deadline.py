"""A deadline for all database queries of one request together.

`statement_timeout` limits one statement, and the TCP timeouts notice a machine that is gone. Neither limits
many queries that are each a little slow, or a connection that is open and silent: a stopped server or a
stalled proxy still acknowledges packets. Eight such requests occupied all eight threads for good
(docs/decisions/0041-limits-and-deadlines.md).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse
from psycopg import errors

from core.db_errors import QueryDeadlineError


class _Left(threading.local):
    """Seconds that this thread's request may still wait; None outside requests."""

    seconds: float | None = None


_left = _Left()


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """So long may this thread wait for the database meanwhile."""
    _left.seconds = seconds
    try:
        yield
    finally:
        _left.seconds = None


class QueryDeadlineMiddleware:
    """Counts the time that a request waits for the database, and nothing else of it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if settings.QUERY_DEADLINE is None:
            raise MiddlewareNotUsed
        self.get_response = get_response
        self.seconds: float = settings.QUERY_DEADLINE
        connection_created.connect(_limit_waiting)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with limited(self.seconds):
            return self.get_response(request)


def _limit_waiting(connection: BaseDatabaseWrapper, **_: Any) -> None:
    database: psycopg.Connection = connection.connection
    # One that threads share comes here each time that one of them takes it.
    if "wait" in vars(database):
        return
    # All that a connection does, from a query to a rollback, goes through its `wait`.
    wait = database.wait

    def limited(gen: Any, *args: Any, **options: Any) -> Any:
        if _left.seconds is None:
            return wait(gen, *args, **options)
        began = time.monotonic()
        try:
            return wait(gen, *args, **options | {"timeout": max(_left.seconds, 0.0)})
        except errors._WaitTimeout:
            # The state of the session is unknown, so the connection cannot be used again.
            database.pgconn.finish()
            raise QueryDeadlineError("the database is too slow for a page") from None
        finally:
            _left.seconds -= time.monotonic() - began

    database.wait = limited  # type: ignore[method-assign]
