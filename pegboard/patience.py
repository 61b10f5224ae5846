"""No request waits for the database longer than a person waits for a page.

The server ends a statement that takes too long, and libpq gives up on a machine that is gone. This is
for what neither sees: many queries that are each a little slow, and a line that is open and silent. A
thread that waits on one would be lost for good, and soon there would be none left.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse

LOOKS_EVERY = 0.25  # seconds


class OutOfPatienceError(OperationalError):
    """The queries of one request have together taken longer than it may wait."""


class PatienceMiddleware:
    """Counts the time that a request spends in the database, and nothing else of it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if settings.DATABASE_PATIENCE is None:
            raise MiddlewareNotUsed
        self.get_response = get_response
        self.seconds: float = settings.DATABASE_PATIENCE

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with connection.execute_wrapper(_Patience(self.seconds)):
            return self.get_response(request)


class _Patience:
    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        if self.left <= 0:
            raise OutOfPatienceError("the database is too slow for a page")
        began = time.monotonic()
        try:
            with _watch.over(context["connection"], began + self.left):
                return execute(sql, params, many, context)
        finally:
            self.left -= time.monotonic() - began


class _Watch:
    """Shuts the line of a query that outlasts its deadline; whoever waits for it gets an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[float, int]] = {}
        self._process = 0

    @contextmanager
    def over(self, waits: Any, deadline: float) -> Iterator[None]:
        me = threading.get_ident()
        self._waiting[me] = (deadline, waits.connection.pgconn.socket)
        if self._process != os.getpid():  # a thread does not outlive a fork
            self._begin()
        try:
            yield
        finally:
            # Afterwards the number may stand for another line.
            with self._lock:
                del self._waiting[me]

    def _begin(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                threading.Thread(target=self._run, name="database-patience", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(LOOKS_EVERY)
            now = time.monotonic()
            with self._lock:
                late = [line for deadline, line in list(self._waiting.values()) if deadline < now]
                for line in late:
                    with suppress(OSError), socket.socket(fileno=os.dup(line)) as copy:
                        copy.shutdown(socket.SHUT_RDWR)


_watch = _Watch()
