"""How many calls of the API a key and a person may make in a minute. Addresses play no part in it, except
where nobody has to say who they are."""

import time
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from people import limits
from people.addresses import client_address
from people.models import ApiToken

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which imports this module while it is being made

# So that one runaway key does not use up what its owner's other keys need.
KEYS_OF_A_PERSON = 2
REPORTS_PER_MINUTE = 30  # from one address


class CallLimit(BaseThrottle):
    """Reading and writing are counted apart; what is refused counts as well."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        kind, most = "read", settings.CALLS_PER_MINUTE
        if request.method not in SAFE_METHODS:
            kind, most = "write", settings.WRITES_PER_MINUTE
        allowed = {f"{kind}:person:{request.user.pk}": most * KEYS_OF_A_PERSON}
        if isinstance(request.auth, ApiToken):
            allowed[f"{kind}:key:{request.auth.pk}"] = most
        self.now = time.time()
        made = limits.count(list(allowed), self.now)
        return all(count <= limit for count, limit in zip(made, allowed.values(), strict=True))

    def wait(self) -> float:
        return float(limits.seconds_left(self.now))


class ReportLimit(BaseThrottle):
    """For a call that strangers may make; a key has 190 random bits, so this only spares the database."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        self.now = time.time()
        (made,) = limits.count([f"report:{client_address(request._request)}"], self.now)
        return made <= REPORTS_PER_MINUTE

    def wait(self) -> float:
        return float(limits.seconds_left(self.now))
