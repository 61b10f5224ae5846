from collections.abc import Hashable
from datetime import timedelta

from django.db import connection
from django.http import HttpRequest
from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from core.public_url import foreign_page_message, is_foreign_page
from core.read_ahead import ReadAhead
from people.api_keys import is_well_formed
from people.models import ApiKey, User

# A write with each call would cost more than the call.
WRITE_LAST_USE_EVERY = timedelta(hours=1)
_KEY = [field.attname for field in ApiKey._meta.concrete_fields]
_USER = [field.attname for field in User._meta.concrete_fields]
# Constant and planned once, because every call of every program runs it: compiling an ORM query, and planning
# it, each took longer than running it.
_FIND = f"""
    SELECT {", ".join(f"key.{name}" for name in _KEY)}, {", ".join(f"owner.{name}" for name in _USER)}
    FROM people_apitoken key JOIN people_user owner ON owner.id = key.user_id
    WHERE key.digest = %s
"""  # noqa: S608 - the names of columns, out of the models


class ApiKeyAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer pgb_…`, looked up by its digest with its owner in one query."""

    # A view without DRF asks this as well, with Django's own request.
    def authenticate(self, request: HttpRequest | Request) -> tuple[User, ApiKey] | None:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self.owner_of(given.strip(), request)

    def owner_of(self, given: str, request: HttpRequest | Request) -> tuple[User, ApiKey]:
        """Of a key as it was sent. Raises AuthenticationFailed."""
        # Before the database is asked: the checksum tells a key that was cut off from one that is unknown.
        if not is_well_formed(given):
            raise AuthenticationFailed("This is not an API key of Pegboard; was it cut off?", "malformed_key")
        return self.owner_by(ApiKey.digest_of(given), request)

    def owner_by(self, digest: str, request: HttpRequest | Request) -> tuple[User, ApiKey]:
        asks_for = getattr(request, "asks_for", "")
        key, now = _with_owner(digest, (request.method, request.path, asks_for)), timezone.now()
        if key is None:
            raise AuthenticationFailed("This API key is not known here.", "unknown_key")
        # Revoking the keys of a user who leaves is another transaction; this holds from the first moment.
        if not key.user.is_active:
            raise AuthenticationFailed("The owner of this API key is not active any more.", "inactive_owner")
        if key.is_of_signed_in and key.revoked_at:
            message = "Clients that you sign in may not use this agent any more. Ask an administrator."
            raise PermissionDenied(message, "revoked_key")
        if not key.is_usable(now):
            raise AuthenticationFailed(f"This API key is {key.state}.", f"{key.state}_key")
        if key.last_used_at is None or now - key.last_used_at > WRITE_LAST_USE_EVERY:
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pegboard"'


class SessionAuthentication(authentication.SessionAuthentication):
    """Without a session the answer is 401, not 403; writing with a cookie takes the CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            if is_foreign_page(request):
                raise PermissionDenied(foreign_page_message(request)) from error
            raise

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pegboard"'


def _with_owner(digest: str, place: Hashable) -> ApiKey | None:
    ahead = ReadAhead((digest, place))
    rows = ahead.begin(_FIND, [digest])
    if not rows:
        return None
    (row,) = rows
    key = ApiKey.from_db(connection.alias, _KEY, row[: len(_KEY)])
    key.read_ahead = ahead
    key.user = User.from_db(connection.alias, _USER, row[len(_KEY) :])
    return key
