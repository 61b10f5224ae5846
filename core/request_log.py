"""Counts a request in the metrics and writes its log line, inside and outside of Django."""

import logging

from core.metrics import Counter, Histogram

logger = logging.getLogger("pegboard.requests")

ID_HEADER, ID_IN_ENVIRON = "X-Request-Id", "HTTP_X_REQUEST_ID"
# Where `TraceMiddleware` stores the route of a request in its WSGI environ, for code outside of Django.
ROUTE_IN_ENVIRON = "pegboard.route"
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


def record_request(route: str, status: int, seconds: float, method: str | None, path: str) -> None:
    REQUESTS.observe(seconds, route, f"{status // 100}xx")
    if status == 429:
        RATE_LIMITED.add(route)
    if route not in QUIET and logger.isEnabledFor(logging.INFO):
        facts = {"method": method, "status": status, "ms": round(seconds * 1000, 1)}
        logger.info("%s %s", method, path, extra={"facts": facts})
