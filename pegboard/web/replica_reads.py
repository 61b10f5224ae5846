"""Reads go to a replica of the database, where there is one."""

import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.core.exceptions import MiddlewareNotUsed
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from rest_framework.permissions import SAFE_METHODS

from core import replica_reads

logger = logging.getLogger(__name__)

METHODS = ("GET", "HEAD")
# A route that wrote is read on the primary for so long.
WRITING_SECONDS = 60.0


class ReplicaReadsMiddleware:
    """Calls the view of a reading request on the replica, and again on the primary if it fails there.

    It is the last middleware: sessions and users come from the primary.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not replica_reads.is_configured():
            raise MiddlewareNotUsed
        self.get_response = get_response
        # Until when routes that turned out to write, although they read, are read on the primary.
        self.primary_until: dict[str, float] = {}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.method not in SAFE_METHODS:
            replica_reads.record_write()
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """Return the response; None where Django has to call the view on the primary."""
        route = request.resolver_match.view_name if request.resolver_match else ""
        if request.method not in METHODS or time.monotonic() < self.primary_until.get(route, 0.0):
            return None
        with replica_reads.on_replica() as is_on_replica:
            if not is_on_replica:
                return None
            try:
                response = view(request, *args, **kwargs)
            except DatabaseError as error:
                if isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction):
                    logger.info("The route %s writes, and is read on the primary for a while", route)
                    self.primary_until[route] = time.monotonic() + WRITING_SECONDS
                else:
                    replica_reads.pause()
                return None
            except Exception:  # noqa: BLE001 - what is wrong here may be right on the primary, which reports it
                return None
        return None if response.status_code >= 500 else response
