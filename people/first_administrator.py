"""The first administrator, created in the browser with a one-time code that the terminal prints.

Redis has a hash of the code for an hour. The code is used once, and is void as soon as an account exists.
"""

import hashlib
import hmac
import time

import redis
from django.db import transaction
from django.utils.translation import gettext as _

from core import rate_limits, redis_client
from core.errors import DomainError
from people import users
from people.models import Role, User

CODE_SECONDS = 3_600
TRIES_PER_MINUTE = 10  # from one address, so that a stranger keeps nobody else out
# From all addresses. The code has at least 48 bits and expires in an hour, so these tries never guess it.
ALL_TRIES_PER_MINUTE = 1_000
WHY = "The first account, created with the code of the terminal."
_KEY = "pegboard:first-administrator"


def store_code(code: str) -> None:
    """Store the hash of a new code, which replaces an earlier one."""
    redis_client.client().set(_KEY, _hash(code), ex=CODE_SECONDS)


def is_open() -> bool:
    """Return whether there is no account, and a code that can create one."""
    try:
        return not User.objects.exists() and bool(redis_client.client().exists(_KEY))
    except redis.RedisError:
        return False


def create(*, code: str, username: str, password: str, address: str = "") -> User:
    """Create the administrator, and use up the code. Raises DomainError.

    address: that of the client. Tries beyond its own limit do not count towards the common one.
    """
    limits = {f"first-administrator:{address}": TRIES_PER_MINUTE, "first-administrator": ALL_TRIES_PER_MINUTE}
    if not all(rate_limits.spend({name: limit}, time.time()) for name, limit in limits.items()):
        raise DomainError("rate_limited", _("Too many tries. Wait a minute, then try again."), status=429)
    expected = _hash(code)
    broker = redis_client.client()
    try:
        if not hmac.compare_digest(str(broker.get(_KEY) or ""), expected):
            raise _wrong_code()
        with transaction.atomic():
            if User.objects.exists():
                raise DomainError("not_first", _("An account exists already. Sign in."), status=409)
            user = users.add_user(actor=None, username=username, password=password, role=Role.ADMIN, why=WHY)
            # Only one request gets the value; the account of any other is rolled back.
            if broker.getdel(_KEY) != expected:
                raise _wrong_code()
    except redis.RedisError as exc:
        message = _("The code cannot be checked right now. Try again in a minute.")
        raise DomainError("unavailable", message, status=503) from exc
    return user


def _wrong_code() -> DomainError:
    message = _("This is not the current code. The terminal prints a new one when Pegboard starts.")
    return DomainError("wrong_code", message, fields={"code": message}, status=403)


def _hash(code: str) -> str:
    return hashlib.sha256(code.strip().replace("-", "").upper().encode()).hexdigest()
