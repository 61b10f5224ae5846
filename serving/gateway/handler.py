"""Django's handler with the middleware of `settings.PROGRAM_MIDDLEWARE`.

Requests of programs have no session, no form and no cookie: below /serve/ each protocol formats its own
errors, and the API checks the key of each request (people/authentication.py). Middleware for pages does
nothing for them and takes a third of their time.
"""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch
from django.utils.module_loading import import_string

MATCH_IN_ENVIRON = "pegboard.resolver_match"


class ProgramHandler(WSGIHandler):
    """Answers requests whose view is already known: MATCH_IN_ENVIRON."""

    def load_middleware(self, is_async: bool = False) -> None:
        # As BaseHandler does it, with another list and without asynchronous middleware.
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        handler: Callable[[HttpRequest], Any] = convert_exception_to_response(self._get_response)  # type: ignore[attr-defined]
        for name in reversed(settings.PROGRAM_MIDDLEWARE):
            try:
                middleware = import_string(name)(handler)
            except MiddlewareNotUsed:
                continue
            if hasattr(middleware, "process_view"):
                self._view_middleware.insert(0, middleware.process_view)
            if hasattr(middleware, "process_exception"):
                self._exception_middleware.append(middleware.process_exception)
            handler = convert_exception_to_response(middleware)
        self._middleware_chain = handler

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        match: ResolverMatch = request.META[MATCH_IN_ENVIRON]
        request.resolver_match = match
        return match

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = super().get_response(request)
        # As CommonMiddleware does it for pages.
        if isinstance(response, HttpResponse) and not response.has_header("Content-Length"):
            response.headers["Content-Length"] = str(len(response.content))
        return response
