"""The context of the current work, for log lines in web processes and workers: a request, a user, a run; and
the count and the log line of each request, inside and outside of Django.

Facts are ids and names that Pegboard chose, never text from a user or a vendor. They belong to one thread.
"""

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType

from core.metrics import Counter, Histogram

logger = logging.getLogger("pegboard.requests")

Fact = str | int | None
Facts = Mapping[str, Fact | Callable[[], Fact]]

REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}", re.ASCII)

_current: ContextVar[Facts] = ContextVar("trace", default=MappingProxyType({}))

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


def new_request_id() -> str:
    # Short enough to read out on the telephone.
    return secrets.token_hex(8)


def accept_request_id(header: str) -> str:
    """Return the id that a proxy or a client sent if it is well formed, otherwise a new one."""
    return header if REQUEST_ID.fullmatch(header) else new_request_id()


def begin(facts: Facts) -> Token[Facts]:
    """Start a new piece of work, unrelated to earlier work of this thread."""
    return _current.set(facts)


def end(token: Token[Facts]) -> None:
    _current.reset(token)


@contextmanager
def log_context(**facts: Fact) -> Iterator[None]:
    token = _current.set({**_current.get(), **facts})
    try:
        yield
    finally:
        _current.reset(token)


def facts() -> dict[str, str | int]:
    """Return the current facts. A fact may be a function, which is called here."""
    values = ((name, fact() if callable(fact) else fact) for name, fact in _current.get().items())
    return {name: fact for name, fact in values if fact not in (None, "")}


def request_id() -> str:
    """Return the id of the current request, or "" outside of one."""
    return str(_current.get().get("request_id") or "")


def record_request(route: str, status: int, seconds: float, method: str | None, path: str) -> None:
    REQUESTS.observe(seconds, route, f"{status // 100}xx")
    if status == 429:
        RATE_LIMITED.add(route)
    if route not in QUIET and logger.isEnabledFor(logging.INFO):
        line_facts = {"method": method, "status": status, "ms": round(seconds * 1000, 1)}
        logger.info("%s %s", method, path, extra={"facts": line_facts})
