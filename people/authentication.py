from datetime import timedelta

from django.db import connection
from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from people.api_keys import is_well_formed
from people.models import ApiToken, User

WRITE_LAST_USE_EVERY = timedelta(hours=1)
_TOKEN = [field.attname for field in ApiToken._meta.concrete_fields]
_USER = [field.attname for field in User._meta.concrete_fields]
# Constant, because every call of every program asks this, and putting an ORM query together each time
# took longer than running it.
_FIND = f"""
    SELECT {", ".join(f"token.{name}" for name in _TOKEN)}, {", ".join(f"owner.{name}" for name in _USER)}
    FROM people_apitoken token JOIN people_user owner ON owner.id = token.user_id
    WHERE token.digest = %s
"""  # noqa: S608 - the names of columns, out of the models


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer pgb_…`, looked up by its digest with its owner in one query."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = _find(given.strip())
        _note_use(token)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pegboard"'


class SessionAuthentication(authentication.SessionAuthentication):
    """Strangers get 401, not 403; writing with a cookie takes the CSRF token."""

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="pegboard"'


def _find(given: str) -> ApiToken:
    if not is_well_formed(given):
        raise AuthenticationFailed("This is not a Pegboard token; was it cut off?", "malformed_token")
    token = _with_owner(ApiToken.digest_of(given))
    if token is None:
        raise AuthenticationFailed("This token is not known here.", "unknown_token")
    if not token.user.is_active:
        raise AuthenticationFailed("The owner of this token has left.", "inactive_owner")
    if not token.is_usable(timezone.now()):
        raise AuthenticationFailed(f"This token is {token.state}.", f"{token.state}_token")
    return token


def _with_owner(digest: str) -> ApiToken | None:
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [digest])
        row = cursor.fetchone()
    if row is None:
        return None
    token = ApiToken.from_db(connection.alias, _TOKEN, row[: len(_TOKEN)])
    token.user = User.from_db(connection.alias, _USER, row[len(_TOKEN) :])
    return token


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > WRITE_LAST_USE_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
