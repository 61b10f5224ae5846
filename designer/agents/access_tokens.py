"""Access tokens of the identity provider, which runtimes send in place of an API key.

Pegboard is a resource server (RFC 6750, RFC 9728), and the identity provider of single sign-on is the
authorization server. An access token identifies a user and, together with the requested address, one agent.
The request then uses that user's key for signed-in clients of the agent (people.api_keys.admit), so the
rules for keys apply to it. docs/decisions/0067-signed-in-clients.md.
"""

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import Any

from django.http import Http404
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied

from core.errors import DomainError
from core.public_url import public_url, runtimes_url
from designer.agents import agent_addresses, agent_keys
from people.models import Identity, User
from people.sso import access_tokens, id_tokens, provider
from people.sso.errors import SignInError
from people.sso.provider import Provider

ROOT, METADATA = "/serve/", "/.well-known/oauth-protected-resource"
# How long a verified token is cached. User, key and team are checked at every request.
CACHE_SECONDS = 60.0
# Clients request the scopes in the metadata, and some refuse to sign in without any. Every OpenID provider
# knows this scope, and it grants nothing at Pegboard.
DEFAULT_SCOPES = ("openid",)
MAX_CACHED = 10_000
# How long a provider that did not respond is not requested again.
BACKOFF_SECONDS = 15.0
REFUSAL = "This access token is not valid here. Sign in again."


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    digest: str
    expires_at: float


_cache: dict[tuple[bytes, str], _VerifiedToken] = {}
_request_lock = threading.Lock()
_away_until = 0.0


def trusted_provider() -> Provider | None:
    """Return the provider whose access tokens are accepted, if there is one."""
    settings = provider.configured_provider()
    return settings if settings and settings.runtimes != "off" else None


def metadata(path: str) -> dict[str, Any] | None:
    """Return the metadata of the protected resource at a path below /serve/ (RFC 9728 section 2)."""
    trusted = trusted_provider()
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
    """Return the header WWW-Authenticate for a refused request at `path` (RFC 6750 section 3, RFC 9728)."""
    parts = ['Bearer realm="pegboard"']
    if path.startswith(ROOT) and (trusted := trusted_provider()):
        if code in ("invalid_token", "insufficient_scope"):
            parts.append(f'error="{code}"')
        parts.append(f'resource_metadata="{runtimes_url(METADATA + path)}"')
        if trusted.runtime_scopes:
            parts.append(f'scope="{" ".join(trusted.runtime_scopes)}"')
    return ", ".join(parts)


def find_key_digest(token: str, slug: str, trusted_provider: Provider) -> str:
    """Return the digest of the key that the user of an access token has for signed-in clients of the agent.

    Raises AuthenticationFailed, PermissionDenied, DomainError, Http404.
    """
    cache_key = hashlib.sha256(token.encode()).digest(), slug
    cached = _cache.get(cache_key)
    if cached and cached.expires_at > time.monotonic():
        return cached.digest
    claims = _verify_token(token, slug, trusted_provider)
    scopes = access_tokens.scopes_of(claims)
    if missing := [scope for scope in trusted_provider.runtime_scopes if scope not in scopes]:
        raise PermissionDenied(f"The access token lacks the scope {missing[0]}.", "insufficient_scope")
    identity = Identity.objects.filter(issuer=claims["iss"], subject=claims["sub"])
    user = User.objects.filter(identities__in=identity).first()
    if user is None:
        # The token is valid, so a new sign-in would not help: the client must not ask its user for one.
        message = "The access token is valid, but no user of Pegboard has its identity. Open Pegboard in a "
        raise PermissionDenied(f"{message}browser and sign in once.", "unknown_user")
    # The token may be for an earlier address of the agent.
    agent = agent_addresses.agent_at(slug, user)
    if agent is None:
        raise Http404
    digest = agent_keys.digest_of_signed_in(user, agent)
    if len(_cache) >= MAX_CACHED:
        _cache.clear()
    lifetime = min(CACHE_SECONDS, claims["exp"] + id_tokens.LEEWAY - time.time())
    _cache[cache_key] = _VerifiedToken(digest, time.monotonic() + lifetime)
    return digest


def _verify_token(token: str, slug: str, trusted_provider: Provider) -> dict[str, Any]:
    addresses = (runtimes_url(f"{ROOT}{slug}"), public_url(f"{ROOT}{slug}"))
    resource_names = {
        name for name in addresses if "://" in name
    }  # Without the setting an address is a path, which identifies no server.

    def accepts_audience(audience: str) -> bool:
        return (
            audience in trusted_provider.audiences
            or audience in resource_names
            or any(audience.startswith(f"{name}/") for name in resource_names)
        )

    try:
        return access_tokens.verify_access_token(
            token,
            _fetch_keys(trusted_provider, id_tokens.key_id(token)),
            issuer=trusted_provider.issuer,
            accepts_audience=accepts_audience,
            accepts_untyped=trusted_provider.runtimes == "unmarked",
        )
    except SignInError as error:
        if error.status >= 500:
            message = "The identity provider does not respond, so the access token cannot be verified."
            raise DomainError("provider_unreachable", message, status=503) from error
        raise AuthenticationFailed(REFUSAL, "invalid_token") from error


def _fetch_keys(trusted_provider: Provider, key: str | None) -> list[dict[str, Any]]:
    # One thread requests a slow provider, and none for a while after a failure: a sender of invented tokens
    # must not block all threads.
    global _away_until
    with _request_lock:
        if time.monotonic() < _away_until:
            if cached := provider.cached_keys(trusted_provider, key):
                return cached
            raise SignInError("provider_unreachable", "", status=502)
        try:
            return provider.keys(trusted_provider, key_id=key)
        except SignInError:
            _away_until = time.monotonic() + BACKOFF_SECONDS
            raise


def clear_cache() -> None:
    """Clear the cache, for tests and after new settings."""
    global _away_until
    _cache.clear()
    _away_until = 0.0
