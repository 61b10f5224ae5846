"""Clients of runtimes that a user signs in at the identity provider, in place of an API key.

Pegboard is a resource server (RFC 6750, RFC 9728), and the identity provider of single sign-on is the
authorization server. An access token means a user and, with the address that is asked, one agent. The request
is then made with that user's key for signed-in clients of that agent (people.api_keys.admit), so that what
holds for keys holds for it. docs/decisions/0067-signed-in-clients.md.
"""

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from core.errors import DomainError
from core.public_url import public_url, runtimes_url
from designer import agent_addresses, agent_keys
from people.authentication import ApiKeyAuthentication
from people.models import ApiKey, Identity, User
from people.sso import access_tokens, id_tokens, provider
from people.sso.errors import SignInError
from people.sso.provider import Provider

ROOT, METADATA = "/serve/", "/.well-known/oauth-protected-resource"
# How long a token is believed without another look at it and at whom it means. User, key and team are looked
# at with every request.
BELIEVED_SECONDS = 60.0
# Clients request what the metadata names, and some refuse to sign in without any. Every OpenID provider
# knows this scope, and it grants nothing at Pegboard.
DEFAULT_SCOPES = ("openid",)
MAX_BELIEVED = 10_000
# How long a provider that does not answer is not asked again.
AWAY_SECONDS = 15.0
NOT_BELIEVED = "This access token is not valid here. Sign in again."


@dataclass(frozen=True, slots=True)
class _Believed:
    digest: str
    ends: float


_believed: dict[tuple[bytes, str], _Believed] = {}
_asking = threading.Lock()
_away_until = 0.0


def accepted() -> Provider | None:
    """The provider whose access tokens are taken; None where none are."""
    found = provider.configured()
    return found if found and found.runtimes != "off" else None


def metadata(path: str) -> dict[str, Any] | None:
    """Return the metadata of the protected resource at a path below /serve/ (RFC 9728 section 2)."""
    trusted = accepted()
    if trusted is None:
        return None
    return {
        "resource": runtimes_url(path),
        "authorization_servers": [trusted.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Pegboard",
        "scopes_supported": [*(trusted.runtime_scopes or DEFAULT_SCOPES)],
    }


def challenge(path: str, code: str) -> str:
    """The header WWW-Authenticate of a refusal, for a request at `path` (RFC 6750 section 3, RFC 9728)."""
    parts = ['Bearer realm="pegboard"']
    if path.startswith(ROOT) and (trusted := accepted()):
        if code in ("invalid_token", "insufficient_scope"):
            parts.append(f'error="{code}"')
        parts.append(f'resource_metadata="{runtimes_url(METADATA + path)}"')
        if trusted.runtime_scopes:
            parts.append(f'scope="{" ".join(trusted.runtime_scopes)}"')
    return ", ".join(parts)


class RuntimeAuthentication(ApiKeyAuthentication):
    """An API key, or where that is configured an access token for the agent that the address names."""

    def authenticate(self, request: HttpRequest | Request) -> tuple[User, ApiKey] | None:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        token = given.strip()
        if scheme.lower() != "bearer" or not access_tokens.is_jwt(token) or (trusted := accepted()) is None:
            return super().authenticate(request)
        match = request.resolver_match
        slug = match.kwargs.get("slug") if match else None
        if not slug:
            raise AuthenticationFailed(
                "An access token is good for the addresses of an agent.", "invalid_token"
            )
        return self.owner_by(_key_digest(token, slug, trusted), request)


def _key_digest(token: str, slug: str, trusted: Provider) -> str:
    name = hashlib.sha256(token.encode()).digest(), slug
    held = _believed.get(name)
    if held and held.ends > time.monotonic():
        return held.digest
    claims = _claims(token, slug, trusted)
    if missing := [each for each in trusted.runtime_scopes if each not in access_tokens.scopes_of(claims)]:
        raise PermissionDenied(f"The access token lacks the scope {missing[0]}.", "insufficient_scope")
    identity = Identity.objects.filter(issuer=claims["iss"], subject=claims["sub"])
    user = User.objects.filter(identities__in=identity).first()
    if user is None:
        # The token is valid, so another one would not help: a client must not send its user to sign in again.
        message = "The access token is valid, but no user of Pegboard has its identity. Open Pegboard in a "
        raise PermissionDenied(f"{message}browser and sign in once.", "unknown_user")
    # The token may be for an address that the agent had before.
    agent = agent_addresses.agent_at(slug, user)
    if agent is None:
        raise Http404
    digest = agent_keys.of_signed_in(user, agent)
    if len(_believed) >= MAX_BELIEVED:
        _believed.clear()
    lasts = min(BELIEVED_SECONDS, claims["exp"] + id_tokens.LEEWAY - time.time())
    _believed[name] = _Believed(digest, time.monotonic() + lasts)
    return digest


def _claims(token: str, slug: str, trusted: Provider) -> dict[str, Any]:
    addresses = (runtimes_url(f"{ROOT}{slug}"), public_url(f"{ROOT}{slug}"))
    own = {each for each in addresses if "://" in each}  # without a setting it is a path, which names no one

    def accepts_audience(audience: str) -> bool:
        return (
            audience in trusted.audiences
            or audience in own
            or any(audience.startswith(f"{each}/") for each in own)
        )

    try:
        return access_tokens.verified(
            token,
            _keys(trusted, id_tokens.key_id(token)),
            issuer=trusted.issuer,
            accepts_audience=accepts_audience,
            accepts_untyped=trusted.runtimes == "unmarked",
        )
    except SignInError as error:
        if error.status >= 500:
            message = "The identity provider does not answer, so the access token cannot be verified."
            raise DomainError("provider_unreachable", message, status=503) from error
        raise AuthenticationFailed(NOT_BELIEVED, "invalid_token") from error


def _keys(trusted: Provider, key: str | None) -> list[dict[str, Any]]:
    # One thread asks a provider that is slow, and after a failure none for a while: senders of made-up tokens
    # shall not have all threads wait.
    global _away_until
    with _asking:
        if time.monotonic() < _away_until:
            if kept := provider.cached_keys(trusted, key):
                return kept
            raise SignInError("provider_unreachable", "", status=502)
        try:
            return provider.keys(trusted, key_id=key)
        except SignInError:
            _away_until = time.monotonic() + AWAY_SECONDS
            raise


def forget() -> None:
    """What was believed, for tests and after new settings."""
    global _away_until
    _believed.clear()
    _away_until = 0.0
