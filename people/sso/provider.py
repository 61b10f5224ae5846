"""The identity provider: what the deployment's settings say about it, and what it says about itself.

What it publishes (OpenID Connect Discovery 1.0, RFC 7517) is kept for ten minutes in each process. An id
token under a key that is not among the kept ones has the keys read again, at most every 30 seconds.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

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
# A key that the provider takes back counts for so long.
KEEP_SECONDS = 600.0
# A sender of made-up key ids must not have us ask the provider each time.
ASK_AGAIN_SECONDS = 30.0
MAX_ADDRESS_LENGTH = 2_000
OURS_TO_MEND = "Ask an administrator to look at the settings of single sign-on."


@dataclass(frozen=True)
class Provider:
    """What the environment says; docs/operations.md lists the variables."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = "single sign-on"
    scopes: str = "openid profile email"
    roles_claim: str = ""
    roles: Mapping[str, Role] = field(default_factory=dict)
    default_role: Role | None = Role.VIEWER
    domains: Sequence[str] = ()
    # Which access tokens clients of runtimes may sign in with: off, marked (RFC 9068), or unmarked ones too.
    runtimes: str = "off"
    audiences: Sequence[str] = ()
    runtime_scopes: Sequence[str] = ()


@dataclass(frozen=True)
class Metadata:
    authorization: str
    token: str
    keys: str
    sign_out: str
    takes_basic: bool
    states_issuer: bool


@dataclass
class _Kept:
    metadata: Metadata | None = None
    keys: list[dict[str, Any]] = field(default_factory=list)
    metadata_at: float = 0.0
    keys_at: float = 0.0


_kept: dict[str, _Kept] = {}


def configured() -> Provider | None:
    if settings.OIDC is None:
        return None
    stated = dict(settings.OIDC)
    default, roles = stated.pop("default_role"), stated.pop("roles")
    return Provider(
        **stated,
        roles={group: Role(role) for group, role in roles.items() if role != "none"},
        default_role=None if default == "none" else Role(default),
    )


def metadata(provider: Provider) -> Metadata:
    kept = _kept.setdefault(provider.issuer, _Kept())
    if kept.metadata is None or time.monotonic() - kept.metadata_at > KEEP_SECONDS:
        kept.metadata = _read_metadata(provider, _document(provider.issuer.rstrip("/") + WELL_KNOWN))
        kept.metadata_at = time.monotonic()
    return kept.metadata


def keys(provider: Provider, *, besides: str | None = None) -> list[dict[str, Any]]:
    """The provider's public keys as JWKs; read anew when `besides`, a key id, is not among the kept ones."""
    kept, address = _kept.setdefault(provider.issuer, _Kept()), metadata(provider).keys
    age = time.monotonic() - kept.keys_at
    is_missing = besides is not None and all(key.get("kid") != besides for key in kept.keys)
    if not kept.keys or age > KEEP_SECONDS or (is_missing and age > ASK_AGAIN_SECONDS):
        found = _document(address).get("keys")
        kept.keys = [key for key in found if isinstance(key, dict)] if isinstance(found, list) else []
        kept.keys_at = time.monotonic()
    return kept.keys


def kept_keys(provider: Provider, key_id: str | None) -> list[dict[str, Any]]:
    """The keys that are there without asking, if they hold the one that is named; else none."""
    kept = _kept.get(provider.issuer)
    if kept is None or time.monotonic() - kept.keys_at > KEEP_SECONDS:
        return []
    return kept.keys if key_id is None or any(key.get("kid") == key_id for key in kept.keys) else []


def forget() -> None:
    """What was kept, for tests and after new settings."""
    _kept.clear()


def exchange(provider: Provider, *, code: str, redirect_uri: str, verifier: str) -> str:
    """The id token for an authorization code (OpenID Connect Core 3.1.3, RFC 7636)."""
    said = metadata(provider)
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    way = ClientAuthentication.BASIC if said.takes_basic else ClientAuthentication.POST
    form = token_form(provider.client_id, way, Secret(provider.client_secret), fields)
    try:
        reply = http.post_form(said.token, form)
        answer = read_token_reply(reply)
    except ProtocolError as error:
        raise _unreachable(error) from error
    if answer.notes:
        logger.warning("the identity provider %s", ", ".join(answer.notes))
    token = answer.members.get("id_token")
    token_type = str(answer.members.get("token_type") or "Bearer")
    is_refused = answer.members.get("error") is not None or token_type.lower() != "bearer"
    if not is_success(reply) or is_refused or not isinstance(token, str):
        raise SignInError("no_id_token", "The identity provider did not confirm this sign-in. Start again.")
    return token


def _document(address: str) -> dict[str, Any]:
    try:
        document = strict_json.require_json(http.get(address, (200,), seconds=10.0))
    except ProtocolError as error:
        raise _unreachable(error) from error
    if not isinstance(document, dict):
        raise SignInError("provider_odd", f"The identity provider sent no object. {OURS_TO_MEND}", status=502)
    return document


def _unreachable(error: ProtocolError) -> SignInError:
    logger.warning("the identity provider cannot be used (%s): %s", error.code, error.message)
    if error.code == "TLS":
        message = f"Pegboard cannot verify the identity provider's certificate. {OURS_TO_MEND}"
        return SignInError("provider_unreachable", message, status=502)
    what = "Try again in a minute." if isinstance(error, UnavailableError) else OURS_TO_MEND
    return SignInError("provider_unreachable", f"The identity provider does not answer. {what}", status=502)


def _read_metadata(provider: Provider, said: Mapping[str, Any]) -> Metadata:
    # Discovery 1.0 section 4.3: the issuer is the one that was asked for, to the letter.
    if said.get("issuer") != provider.issuer:
        message = f"The identity provider calls itself by another name than the settings do. {OURS_TO_MEND}"
        raise SignInError("issuer_differs", message, status=502)
    # The default where nothing is said: OpenID Connect Discovery, section 3.
    methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Metadata(
        authorization=_address(said, "authorization_endpoint", provider),
        token=_address(said, "token_endpoint", provider),
        keys=_address(said, "jwks_uri", provider),
        sign_out=_address(said, "end_session_endpoint", provider) if "end_session_endpoint" in said else "",
        takes_basic=isinstance(methods, list) and "client_secret_basic" in methods,
        states_issuer=said.get("authorization_response_iss_parameter_supported") is True,
    )


def _address(said: Mapping[str, Any], member: str, provider: Provider) -> str:
    # A server that is asked over TLS cannot lead to an address without it.
    value = said.get(member)
    scheme = urlsplit(provider.issuer).scheme
    if not isinstance(value, str) or len(value) > MAX_ADDRESS_LENGTH or not value.startswith(f"{scheme}://"):
        message = f"The identity provider states no usable “{member}”. {OURS_TO_MEND}"
        raise SignInError("provider_odd", message, status=502)
    return value
