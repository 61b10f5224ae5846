"""No request waits for the database longer than a person waits for a page.

The server ends a statement that takes too long, and libpq gives up on a machine that is gone. This is
for what neither sees: many queries that are each a little slow, and a line that is open and silent. A
thread that waits on one would be lost for good, and soon there would be none left.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse
from psycopg import errors

from core.db_errors import OutOfPatienceError


class _Left(threading.local):
    """Seconds that this thread's request may still wait; None outside requests."""

    seconds: float | None = None


_left = _Left()


class PatienceMiddleware:
    """Counts the time that a request spends in the database, and nothing else of it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if settings.DATABASE_PATIENCE is None:
            raise MiddlewareNotUsed
        self.get_response = get_response
        self.seconds: float = settings.DATABASE_PATIENCE
        connection_created.connect(_be_patient)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        _left.seconds = self.seconds
        try:
            return self.get_response(request)
        finally:
            _left.seconds = None


def _be_patient(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """All that a connection does, from a query to a rollback, goes through its `wait`."""
    line: psycopg.Connection = connection.connection
    wait = line.wait

    def patient(gen: Any, *args: Any, **options: Any) -> Any:
        if _left.seconds is None:
            return wait(gen, *args, **options)
        began = time.monotonic()
        try:
            return wait(gen, *args, **options | {"timeout": max(_left.seconds, 0.0)})
        except errors._WaitTimeout:
            # Nobody knows what the server is at, so nothing more can be said on this line.
            line.pgconn.finish()
            raise OutOfPatienceError("the database is too slow for a page") from None
        finally:
            _left.seconds -= time.monotonic() - began

    line.wait = patient  # type: ignore[method-assign]
