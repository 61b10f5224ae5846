"""Give each request an id, measure its duration, and write one log line."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import LazyObject, empty

from core import log_context
from core.request_log import ID_HEADER, ID_IN_ENVIRON, ROUTE_IN_ENVIRON, record_request

# Their addresses are secrets: anyone who has one may use it.
SECRET_ADDRESSES = {"run-hint", "grant-authorize"}


class TraceMiddleware:
    """The outermost middleware, so that every reply is counted and has an id."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        request_id = log_context.accept_request_id(request.META.get(ID_IN_ENVIRON, ""))
        facts: log_context.Facts = {
            "request_id": request_id,
            "user_id": lambda: known_user(request),
            "route": lambda: route_of(request),
        }
        token = log_context.begin(facts)
        try:
            response = self.get_response(request)
            response.headers[ID_HEADER] = request_id
            route = route_of(request) or "none"
            request.META[ROUTE_IN_ENVIRON] = route
            match = request.resolver_match
            path = f"/{match.route}" if match and route in SECRET_ADDRESSES else request.path
            record_request(route, response.status_code, time.perf_counter() - began, request.method, path)
        finally:
            log_context.end(token)
        return response


def route_of(request: HttpRequest) -> str | None:
    """Return the name of the URL pattern. There are as many as routes, regardless of the requested
    addresses."""
    match = request.resolver_match
    return match.view_name if match else None


def known_user(request: HttpRequest) -> int | None:
    """Return the id of the user if it is already loaded, because a log line must not cause a query."""
    user = request.__dict__.get("user")
    if isinstance(user, LazyObject) and user.__dict__.get("_wrapped") is empty:
        return None
    return getattr(user, "pk", None)
