from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from core import replica_reads
from core.compiled_queries import build_instance
from core.prepared_statements import read_prepared
from core.public_url import foreign_page_message, is_foreign_page
from people.models import ApiKey, User

# A write for each request would cost more than the request.
LAST_USE_INTERVAL = timedelta(hours=1)
_KEY = [field.attname for field in ApiKey._meta.concrete_fields]
_USER = [field.attname for field in User._meta.concrete_fields]
# Every request of a program reads a key. The text is constant and planned once, because compiling an ORM
# query and planning it each took longer than running it.
KEY_COLUMNS = ", ".join([*(f"key.{name}" for name in _KEY), *(f"owner.{name}" for name in _USER)])
KEY_COLUMN_COUNT = len(_KEY) + len(_USER)
KEY_TABLES = "people_apitoken key JOIN people_user owner ON owner.id = key.user_id"
_FIND = f"SELECT {KEY_COLUMNS} FROM {KEY_TABLES} WHERE key.digest = %s"  # noqa: S608 - the names of columns


class ApiKeyAuthentication(authentication.BaseAuthentication):
    """Authenticate `Authorization: Bearer pgb_…` by the digest of the key, with its owner in one query."""

    # Views without DRF call this as well, with Django's own request.
    def authenticate(self, request: HttpRequest | Request) -> tuple[User, ApiKey] | None:
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self.owner_of(key.strip(), request)

    def owner_of(self, key: str, request: HttpRequest | Request) -> tuple[User, ApiKey]:
        """Return the owner and the row of a key. Raises AuthenticationFailed, PermissionDenied."""
        # The checksum distinguishes a truncated key from an unknown one without a query.
        if not ApiKey.is_well_formed(key):
            raise AuthenticationFailed("This is not an API key of Pegboard; was it cut off?", "malformed_key")
        return self.owner_by(ApiKey.digest_of(key), request)

    # A key that was revoked is refused at once.
    @replica_reads.on_primary()
    def owner_by(self, digest: str, request: HttpRequest | Request) -> tuple[User, ApiKey]:
        """Return the owner and the row of the key with this digest. Raises as `owner_of`."""
        key, now = self.find_key(digest, request), timezone.now()
        if key is None:
            raise AuthenticationFailed("There is no such API key.", "unknown_key")
        # Deactivating a user revokes the keys a moment later; this check applies at once.
        if not key.user.is_active:
            raise AuthenticationFailed("The owner of this API key has been deactivated.", "inactive_owner")
        if key.is_of_signed_in and key.revoked_at:
            message = "Clients that you sign in may not use this agent any more. Ask an administrator."
            raise PermissionDenied(message, "revoked_key")
        if not key.is_usable(now):
            raise AuthenticationFailed(f"This API key is {key.state}.", f"{key.state}_key")
        if key.last_used_at is None or now - key.last_used_at > LAST_USE_INTERVAL:
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
        return key.user, key

    def find_key(self, digest: str, request: HttpRequest | Request) -> ApiKey | None:
        """Return the key with its owner. A subclass may read more in the same round trip."""
        rows = read_prepared(_FIND, [digest])
        return build_key(rows[0]) if rows else None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pegboard"'


class SessionAuthentication(authentication.SessionAuthentication):
    """Authenticate by session. Without one the response is 401, not 403; writing needs the CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as error:
            if is_foreign_page(request):
                raise PermissionDenied(foreign_page_message(request)) from error
            raise

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pegboard"'


def build_key(columns: Sequence[Any]) -> ApiKey:
    """Return the key with its owner from the values of KEY_COLUMNS."""
    key = build_instance(ApiKey, _KEY, columns[: len(_KEY)])
    key.user = build_instance(User, _USER, columns[len(_KEY) :])
    return key
