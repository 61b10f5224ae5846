"""How many calls of the API a key and a person may make in a minute. Addresses play no part in it, except
where nobody has to say who they are."""

import time
from typing import TYPE_CHECKING, Literal

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from core import rate_limits
from core.client_ip import client_address
from people.models import ApiToken

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which imports this module while it is being made

# So that one runaway key does not use up what its owner's other keys need.
KEYS_OF_A_PERSON = 2
REPORTS_PER_MINUTE = 30  # from one address


def is_within_limit(kind: Literal["read", "write"], person: int | None, key: int | None, now: float) -> bool:
    """Counts one more call of this person with this key."""
    most = settings.CALLS_PER_MINUTE if kind == "read" else settings.WRITES_PER_MINUTE
    allowed = {f"{kind}:person:{person}": most * KEYS_OF_A_PERSON}
    if key is not None:
        allowed[f"{kind}:key:{key}"] = most
    return rate_limits.spend(allowed, now)


class CallLimit(BaseThrottle):
    """Reading and writing are counted apart; what is refused counts as well."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        self.now = time.time()
        kind: Literal["read", "write"] = "read" if request.method in SAFE_METHODS else "write"
        key = request.auth.pk if isinstance(request.auth, ApiToken) else None
        return is_within_limit(kind, request.user.pk, key, self.now)

    def wait(self) -> float:
        return float(rate_limits.seconds_left(self.now))


class ReportLimit(BaseThrottle):
    """For a call that strangers may make; a key has 190 random bits, so this only spares the database."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        self.now = time.time()
        (made,) = rate_limits.count([f"report:{client_address(request._request)}"], self.now)
        return made <= REPORTS_PER_MINUTE

    def wait(self) -> float:
        return float(rate_limits.seconds_left(self.now))
