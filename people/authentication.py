from datetime import timedelta

from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from people.models import ApiToken, User
from people.tokens import is_well_formed

WRITE_LAST_USE_EVERY = timedelta(hours=1)


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
    token = ApiToken.objects.select_related("user").filter(digest=ApiToken.digest_of(given)).first()
    if token is None:
        raise AuthenticationFailed("This token is not known here.", "unknown_token")
    if not token.user.is_active:
        raise AuthenticationFailed("The owner of this token has left.", "inactive_owner")
    if not token.is_usable(timezone.now()):
        raise AuthenticationFailed(f"This token is {token.state}.", f"{token.state}_token")
    return token


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > WRITE_LAST_USE_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
