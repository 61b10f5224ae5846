"""Requests to authorization servers: the address of a sign-in and the form for a token endpoint. Pure.

RFC 6749 (the framework), 7636 (PKCE), 8707 (resource). A `Grant` has the client and its settings.
"""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from catalog.models import Grant
from core.encryption import Secret
from core.oauth import client
from core.oauth.client import challenge_of

# The standard parameters. Additional parameters must not have their names.
OWNED = frozenset(
    {
        "assertion",
        "audience",
        "client_assertion",
        "client_assertion_type",
        "client_id",
        "client_secret",
        "code",
        "code_challenge",
        "code_challenge_method",
        "code_verifier",
        "device_code",
        "grant_type",
        "password",
        "redirect_uri",
        "refresh_token",
        "request",
        "request_uri",
        "resource",
        "response_mode",
        "response_type",
        "scope",
        "state",
        "username",
    }
)
PARAMETER_NAME = re.compile(r"[A-Za-z0-9._~-]{1,64}")


def sign_in_address(grant: Grant, *, redirect_uri: str, state: str, verifier: str) -> str:
    """Return the address for the browser (RFC 6749 section 4.1.1). An existing query stays."""
    fields = {
        "response_type": "code",
        "client_id": grant.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        **_optional_parameters(grant),
    }
    joint = "&" if "?" in grant.authorization_url else "?"
    return f"{grant.authorization_url}{joint}{urlencode(fields)}"


def client_fields(grant: Grant) -> dict[str, str]:
    # RFC 6749 section 4.4.2.
    return {"grant_type": "client_credentials", **_optional_parameters(grant)}


def code_fields(grant: Grant, *, code: str, redirect_uri: str, verifier: str) -> dict[str, str]:
    # RFC 6749 section 4.1.3. The sign-in contained the scopes, and `resource` is repeated.
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return fields | _resource(grant)


def refresh_fields(grant: Grant, refresh_token: Secret) -> dict[str, str]:
    # RFC 6749 section 6. Without a scope, the new token has that of the old one.
    return {"grant_type": "refresh_token", "refresh_token": refresh_token.reveal()} | _resource(grant)


def token_form(grant: Grant, secret: Secret | None, fields: Mapping[str, str]) -> client.Form:
    way, server = grant.client_authentication, grant.token_url
    return client.token_form(grant.client_id, way, secret, fields, audience=server)


def revocation_form(grant: Grant, secret: Secret | None, fields: Mapping[str, str]) -> client.Form:
    """Return the form for the revocation address (RFC 7009). A signed assertion names only that server."""
    method, address, server = grant.client_authentication, grant.revocation_url, grant.token_url
    audience = server if urlsplit(address)[:2] == urlsplit(server)[:2] else address
    return client.token_form(grant.client_id, method, secret, fields, audience=audience)


def reserved_parameter_in(address: str) -> str:
    """Return the first parameter in the query of an address that only Pegboard may set; "" for none."""
    names = [name for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)]
    return next((name for name in names if name in OWNED), "")


def _optional_parameters(grant: Grant) -> dict[str, str]:
    stated = {"scope": grant.scope, "audience": grant.audience}
    return {**grant.parameters, **{name: text for name, text in stated.items() if text}, **_resource(grant)}


def _resource(grant: Grant) -> dict[str, str]:
    return {"resource": grant.resource} if grant.resource else {}
