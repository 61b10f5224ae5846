"""Rate limits of the API: requests of a key and of a user per minute.

The address of the client counts only for requests without sign-in.
"""

import time
from typing import Any, Literal

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from core import rate_limits
from core.client_ip import client_address
from people.models import ApiKey

# So that one runaway key does not use up what its owner's other keys need.
KEYS_OF_A_USER = 2
REPORTS_PER_MINUTE = 30  # from one address


Kind = Literal["read", "write", "invoke"]


def is_within_limit(kind: Kind, user: int | None, key: int | None, now: float) -> bool:
    """Count a request of this user with this key, and return whether it is within the limits.

    Tool calls have a count of their own, with the limit of reads.
    """
    limit = settings.WRITES_PER_MINUTE if kind == "write" else settings.CALLS_PER_MINUTE
    # By owner and by key: neither many keys nor one alone uses up what the others need.
    allowed = {f"{kind}:person:{user}": limit * KEYS_OF_A_USER}
    if key is not None:
        allowed[f"{kind}:key:{key}"] = limit
    return rate_limits.spend(allowed, now)


class MinuteThrottle(BaseThrottle):
    now: float

    def wait(self) -> float:
        return float(rate_limits.seconds_left(self.now))


class CallLimit(MinuteThrottle):
    """A limit for each key and user. Reads and writes have separate counts; refused requests count too."""

    # `view` is an APIView; DRF imports this module while it defines that class.
    def allow_request(self, request: Request, view: Any) -> bool:
        self.now = time.time()
        kind: Kind = "read" if request.method in SAFE_METHODS else "write"
        if kind == "write" and getattr(view, "invokes", False):
            kind = "invoke"
        key = request.auth.pk if isinstance(request.auth, ApiKey) else None
        return is_within_limit(kind, request.user.pk, key, self.now)


class ReportLimit(MinuteThrottle):
    """A limit by address for a request without sign-in, which protects the database."""

    def allow_request(self, request: Request, view: Any) -> bool:
        self.now = time.time()
        (request_count,) = rate_limits.count([f"report:{client_address(request._request)}"], self.now)
        return request_count <= REPORTS_PER_MINUTE
