"""Authentication of programs, which reads the API key and the release in the address with one statement."""

from django.http import HttpRequest
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from designer.agents import access_tokens
from designer.models import Release
from designer.releases import release_access
from people.authentication import ApiKeyAuthentication
from people.models import KEY_PREFIX, ApiKey, User
from people.sso.access_tokens import is_jwt

_ATTRIBUTE = "prefetched_release"


class ReleaseAuthentication(ApiKeyAuthentication):
    """Accepts an API key or, if configured, an access token for the agent in the address. Stores the release
    with the request, for `take_prefetched_release`.
    """

    def authenticate(self, request: HttpRequest | Request) -> tuple[User, ApiKey] | None:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        token = credentials.strip()
        if (
            scheme.lower() != "bearer"
            or token.startswith(KEY_PREFIX)
            or not is_jwt(token)
            or (trusted := access_tokens.trusted_provider()) is None
        ):
            return super().authenticate(request)
        match = request.resolver_match
        slug = match.kwargs.get("slug") if match else None
        if not slug:
            raise AuthenticationFailed(
                "An access token is valid only at the address of an agent.", "invalid_token"
            )
        return self.owner_by(access_tokens.find_key_digest(token, slug, trusted), request)

    def find_key(self, digest: str, request: HttpRequest | Request) -> ApiKey | None:
        match = request.resolver_match
        slug, name = (match.kwargs.get("slug"), match.kwargs.get("number")) if match else (None, None)
        if not slug or not isinstance(name, str):
            return super().find_key(digest, request)
        key, release = release_access.find_key_and_release(digest, slug, name)
        setattr(django_request(request), _ATTRIBUTE, (slug, name, release))
        return key


def take_prefetched_release(request: HttpRequest | Request, slug: str, name: str) -> Release | None:
    """Return the release that was read with the key of this request; only once, because a request that asks
    again needs the present state.
    """
    *address, release = vars(django_request(request)).pop(_ATTRIBUTE, ("", "", None))
    return release if address == [slug, name] else None


def django_request(request: HttpRequest | Request) -> HttpRequest:
    """Return the request that middleware sees, whose attributes select headers of the response."""
    return request._request if isinstance(request, Request) else request
