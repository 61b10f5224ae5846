"""Validate access tokens that the identity provider issued for Pegboard: RFC 9068 section 4, RFC 8725. Pure.

Keys and algorithms follow the rules for ID tokens. Opaque tokens are not supported.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt

from people.sso import id_tokens
from people.sso.errors import SignInError

# Distinguishes an access token from an ID token, which a provider signs with the same keys.
TOKEN_TYPES = ("at+jwt", "application/at+jwt")
REQUIRED = ["iss", "sub", "aud", "exp"]
REQUIRED_IN_TYPED = [*REQUIRED, "iat", "client_id", "jti"]
_JWT = re.compile(r"ey[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


def is_jwt(text: str) -> bool:
    """Return whether the text has the form of a JWT. Nothing is verified."""
    return len(text) <= id_tokens.MAX_TOKEN_LENGTH and _JWT.fullmatch(text) is not None


def verify_access_token(
    token: str,
    keys: Sequence[Mapping[str, Any]],
    *,
    issuer: str,
    accepts_audience: Callable[[str], bool],
    accepts_untyped: bool,
) -> dict[str, Any]:
    """Verify an access token and return its claims. Raises SignInError.

    accepts_audience: whether an audience names this installation.
    accepts_untyped: whether a token without the type `at+jwt` is accepted.
    """
    header = id_tokens.read_header(token)
    kind = str(header.get("typ", "")).lower()
    if kind not in TOKEN_TYPES and not (accepts_untyped and kind in ("", "jwt")):
        raise refuse_token("type")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            id_tokens.key_for(header, keys),
            algorithms=[header["alg"]],
            issuer=issuer,
            leeway=id_tokens.LEEWAY,
            options={
                "require": REQUIRED if accepts_untyped else REQUIRED_IN_TYPED,
                "verify_aud": False,
            },
        )
    except jwt.PyJWTError as error:
        raise refuse_token(type(error).__name__) from error
    audience = claims["aud"]
    audiences = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(name, str) and accepts_audience(name) for name in audiences):
        raise refuse_token("audience")
    # Only ID tokens contain a nonce.
    if claims["iss"] != issuer or "nonce" in claims:
        raise refuse_token("issuer or nonce")
    if not all(id_tokens.is_time(claims[name]) for name in ("exp", "iat", "nbf") if name in claims):
        raise refuse_token("times")
    if not id_tokens.is_subject(claims["sub"]):
        raise refuse_token("subject")
    return claims


def scopes_of(claims: Mapping[str, Any]) -> set[str]:
    """Return the scopes of a token: `scope` (RFC 9068), or `scp`, as some providers name it."""
    value = claims.get("scope", claims.get("scp"))
    scopes = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return {scope for scope in scopes if isinstance(scope, str)}


def refuse_token(reason: str) -> SignInError:
    return SignInError("access_token_" + "_".join(reason.lower().split()), "", status=401)
