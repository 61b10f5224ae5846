"""Give each request an id, measure its duration, and write one log line."""

import logging
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import LazyObject, empty

from core import log_context
from core.metrics import Counter, Histogram

logger = logging.getLogger("pegboard.requests")

HEADER, META, ROUTE = "X-Request-Id", "HTTP_X_REQUEST_ID", "pegboard.route"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
REQUESTS = Histogram(
    "pegboard_request_seconds",
    "How long requests took, by route and class of status.",
    ("route", "status"),
    SECONDS,
)
RATE_LIMITED = Counter(
    "pegboard_requests_rate_limited_total",
    "Requests that exceeded a rate limit and were answered with 429.",
    ("route",),
)
# Machines request these every few seconds: counted, but not logged.
QUIET = {"healthz", "readyz", "metrics"}
# Their addresses are secrets: anyone who has one may use it.
SECRET_ADDRESSES = {"run-hint", "grant-authorize"}


class TraceMiddleware:
    """The outermost middleware, so that every reply is counted and has an id."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        request_id = log_context.accept_request_id(request.META.get(META, ""))
        facts: log_context.Facts = {
            "request_id": request_id,
            "user_id": lambda: known_user(request),
            "route": lambda: route_of(request),
        }
        token = log_context.begin(facts)
        try:
            response = self.get_response(request)
            response.headers[HEADER] = request_id
            _count(request, response, time.perf_counter() - began)
        finally:
            log_context.end(token)
        return response


def _count(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    route, status = route_of(request) or "none", response.status_code
    # Read outside of Django by pegboard/web/known_answers.py.
    request.META[ROUTE] = route
    match = request.resolver_match
    path = f"/{match.route}" if match and route in SECRET_ADDRESSES else request.path
    tell(route, status, seconds, request.method, path)


def tell(route: str, status: int, seconds: float, method: str | None, path: str) -> None:
    """Count one request and write its log line."""
    REQUESTS.observe(seconds, route, f"{status // 100}xx")
    if status == 429:
        RATE_LIMITED.add(route)
    if route not in QUIET and logger.isEnabledFor(logging.INFO):
        facts = {"method": method, "status": status, "ms": round(seconds * 1000, 1)}
        logger.info("%s %s", method, path, extra={"facts": facts})


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
