"""Every request has a number, a duration, and one line in the log."""

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
    "pegboard_requests_rate_limited_total", "Requests that came too fast and were answered 429.", ("route",)
)
# Asked every few seconds by machines: counted and not logged.
QUIET = {"healthz", "readyz", "metrics"}
# Their addresses are secrets: who has one may use it.
UNSAID = {"run-hint", "grant-authorize"}


class TraceMiddleware:
    """The outermost middleware, so that every reply is counted and has a number."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        number = log_context.accept_request_id(request.META.get(META, ""))
        facts: log_context.Facts = {
            "request_id": number,
            "user_id": lambda: known_user(request),
            "route": lambda: route_of(request),
        }
        token = log_context.begin(facts)
        try:
            response = self.get_response(request)
            response.headers[HEADER] = number
            _count(request, response, time.perf_counter() - began)
        finally:
            log_context.end(token)
        return response


def _count(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    route, status = route_of(request) or "none", response.status_code
    # For what stands around Django: pegboard/web/known_answers.py.
    request.META[ROUTE] = route
    match = request.resolver_match
    path = f"/{match.route}" if match and route in UNSAID else request.path
    tell(route, status, seconds, request.method, path)


def tell(route: str, status: int, seconds: float, method: str | None, path: str) -> None:
    """Counts one request, and writes its line."""
    REQUESTS.observe(seconds, route, f"{status // 100}xx")
    if status == 429:
        RATE_LIMITED.add(route)
    if route not in QUIET and logger.isEnabledFor(logging.INFO):
        facts = {"method": method, "status": status, "ms": round(seconds * 1000, 1)}
        logger.info("%s %s", method, path, extra={"facts": facts})


def route_of(request: HttpRequest) -> str | None:
    """The name of the URL pattern: as many as there are routes, whatever addresses are requested."""
    match = request.resolver_match
    return match.view_name if match else None


def known_user(request: HttpRequest) -> int | None:
    """The user, if something has loaded them before: a log line makes no query."""
    user = request.__dict__.get("user")
    if isinstance(user, LazyObject) and user.__dict__.get("_wrapped") is empty:
        return None
    return getattr(user, "pk", None)
