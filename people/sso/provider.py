"""The identity provider: its settings in this deployment, its metadata and its keys.

Each process caches the metadata and the keys (OpenID Connect Discovery 1.0, RFC 7517) for ten minutes. An ID
token that names a key outside the cache makes the process read the keys again, at most every 30 seconds.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core import strict_json
from core.encryption import Secret
from core.oauth import http
from core.oauth.client import ClientAuthentication, token_form
from core.oauth.token_reply import is_success, read_token_reply
from core.outbound.errors import ProtocolError, UnavailableError
from people.models import Role
from people.sso.errors import SignInError

logger = logging.getLogger(__name__)

WELL_KNOWN = "/.well-known/openid-configuration"
# A key that the provider withdraws stays valid here for this long.
CACHE_SECONDS = 600.0
# Invented key ids must not cause a request to the provider each time.
REFETCH_SECONDS = 30.0
MAX_ADDRESS_LENGTH = 2_000
CHECK_SETTINGS = gettext_lazy("Ask an administrator to look at the settings of single sign-on.")


@dataclass(frozen=True)
class Provider:
    """The settings of the provider, from the environment; docs/operations.md lists the variables."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = "single sign-on"
    scopes: str = "openid profile email"
    roles_claim: str = ""
    roles: Mapping[str, Role] = field(default_factory=dict)
    default_role: Role | None = Role.VIEWER
    domains: Sequence[str] = ()
    # The access tokens that runtimes may sign in with: off, typed (RFC 9068), or untyped as well.
    runtimes: str = "off"
    audiences: Sequence[str] = ()
    runtime_scopes: Sequence[str] = ()


@dataclass(frozen=True)
class Metadata:
    authorization: str
    token: str
    keys: str
    sign_out: str
    supports_basic: bool
    states_issuer: bool


@dataclass
class _CacheEntry:
    metadata: Metadata | None = None
    keys: list[dict[str, Any]] = field(default_factory=list)
    metadata_at: float = 0.0
    keys_at: float = 0.0


_cache: dict[str, _CacheEntry] = {}


def configured_provider() -> Provider | None:
    if settings.OIDC is None:
        return None
    values = dict(settings.OIDC)
    default, roles = values.pop("default_role"), values.pop("roles")
    return Provider(
        **values,
        roles={group: Role(role) for group, role in roles.items() if role != "none"},
        default_role=None if default == "none" else Role(default),
    )


def metadata(provider: Provider) -> Metadata:
    entry = _cache.setdefault(provider.issuer, _CacheEntry())
    if entry.metadata and time.monotonic() - entry.metadata_at <= CACHE_SECONDS:
        return entry.metadata
    document = _fetch_object(provider.issuer.rstrip("/") + WELL_KNOWN)
    # Discovery 1.0 section 4.3: the issuer has to equal the requested one exactly.
    if document.get("issuer") != provider.issuer:
        message = _("The identity provider states another issuer than the settings. {advice}").format(
            advice=CHECK_SETTINGS
        )
        raise SignInError("issuer_differs", message, status=502)
    # The default of a missing member: OpenID Connect Discovery, section 3.
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    has_sign_out = "end_session_endpoint" in document
    entry.metadata = Metadata(
        authorization=_address(document, "authorization_endpoint", provider),
        token=_address(document, "token_endpoint", provider),
        keys=_address(document, "jwks_uri", provider),
        sign_out=_address(document, "end_session_endpoint", provider) if has_sign_out else "",
        supports_basic=isinstance(methods, list) and "client_secret_basic" in methods,
        states_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )
    entry.metadata_at = time.monotonic()
    return entry.metadata


def keys(provider: Provider, *, key_id: str | None = None) -> list[dict[str, Any]]:
    """Return the provider's public keys as JWKs. Fetch them again if the cache has no key `key_id`."""
    entry, address = _cache.setdefault(provider.issuer, _CacheEntry()), metadata(provider).keys
    age = time.monotonic() - entry.keys_at
    is_missing = key_id is not None and all(key.get("kid") != key_id for key in entry.keys)
    if not entry.keys or age > CACHE_SECONDS or (is_missing and age > REFETCH_SECONDS):
        members = _fetch_object(address).get("keys")
        entry.keys = [key for key in members if isinstance(key, dict)] if isinstance(members, list) else []
        entry.keys_at = time.monotonic()
    return entry.keys


def cached_keys(provider: Provider, key_id: str | None) -> list[dict[str, Any]]:
    """Return the cached keys if they include `key_id`, else an empty list. Sends no request."""
    entry = _cache.get(provider.issuer)
    if entry is None or time.monotonic() - entry.keys_at > CACHE_SECONDS:
        return []
    return entry.keys if key_id is None or any(key.get("kid") == key_id for key in entry.keys) else []


def clear_cache() -> None:
    """Drop the metadata and the keys of all providers: for tests, and after new settings."""
    _cache.clear()


def exchange(provider: Provider, *, code: str, redirect_uri: str, verifier: str) -> str:
    """Exchange an authorization code for an ID token (OpenID Connect Core 3.1.3, RFC 7636).

    Raises SignInError.
    """
    endpoints = metadata(provider)
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    method = ClientAuthentication.BASIC if endpoints.supports_basic else ClientAuthentication.POST
    form = token_form(provider.client_id, method, Secret(provider.client_secret), fields)
    try:
        reply = http.post_form(endpoints.token, form)
        answer = read_token_reply(reply)
    except ProtocolError as error:
        raise _unreachable(error) from error
    if answer.notes:
        logger.warning("the identity provider %s", ", ".join(answer.notes))
    token = answer.members.get("id_token")
    token_type = str(answer.members.get("token_type") or "Bearer")
    is_refused = answer.members.get("error") is not None or token_type.lower() != "bearer"
    if not is_success(reply) or is_refused or not isinstance(token, str):
        raise SignInError(
            "no_id_token", _("The identity provider did not confirm this sign-in. Start again.")
        )
    return token


def _fetch_object(address: str) -> dict[str, Any]:
    try:
        document = strict_json.require_json(http.get(address, (200,), seconds=10.0))
    except ProtocolError as error:
        raise _unreachable(error) from error
    if not isinstance(document, dict):
        raise SignInError(
            "provider_odd",
            _("The identity provider sent no object. {advice}").format(advice=CHECK_SETTINGS),
            status=502,
        )
    return document


def _unreachable(error: ProtocolError) -> SignInError:
    logger.warning("the identity provider cannot be used (%s): %s", error.code, error.message)
    if error.code == "TLS":
        message = _("Pegboard cannot verify the identity provider's certificate. {advice}").format(
            advice=CHECK_SETTINGS
        )
        return SignInError("provider_unreachable", message, status=502)
    advice = _("Try again in a minute.") if isinstance(error, UnavailableError) else CHECK_SETTINGS
    return SignInError(
        "provider_unreachable",
        _("The identity provider does not answer. {advice}").format(advice=advice),
        status=502,
    )


def _address(document: Mapping[str, Any], member: str, provider: Provider) -> str:
    # A provider with an https issuer must not point to an address without TLS.
    value = document.get(member)
    scheme = urlsplit(provider.issuer).scheme
    if not isinstance(value, str) or len(value) > MAX_ADDRESS_LENGTH or not value.startswith(f"{scheme}://"):
        message = _("The identity provider states no usable “{member}”. {advice}").format(
            member=member, advice=CHECK_SETTINGS
        )
        raise SignInError("provider_odd", message, status=502)
    return value
