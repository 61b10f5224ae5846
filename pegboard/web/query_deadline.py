"""Limits the time that the queries of one request may take in total (core/query_deadline.py)."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse

from core.query_deadline import limit_connection, limit_queries


class QueryDeadlineMiddleware:
    """Limits the time of the queries of a request to QUERY_DEADLINE seconds. Other work is not counted."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if settings.QUERY_DEADLINE is None:
            raise MiddlewareNotUsed
        self.get_response = get_response
        self.seconds: float = settings.QUERY_DEADLINE
        connection_created.connect(limit_connection)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with limit_queries(self.seconds):
            return self.get_response(request)
