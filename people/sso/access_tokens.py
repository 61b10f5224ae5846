"""Which access token of the identity provider is valid for a resource of ours: RFC 9068 section 4, RFC 8725.
Pure.

Keys and algorithms are judged as those of id tokens are. Tokens that are opaque are not understood.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt

from people.sso import id_tokens
from people.sso.errors import SignInError

# By this an access token is told from an id token, which a provider signs with the same keys.
MARKS = ("at+jwt", "application/at+jwt")
NEEDED = ["iss", "sub", "aud", "exp"]
NEEDED_OF_MARKED = [*NEEDED, "iat", "client_id", "jti"]
_JWT = re.compile(r"ey[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


def is_one(given: str) -> bool:
    """By its form alone."""
    return len(given) <= id_tokens.MAX_TOKEN_LENGTH and _JWT.fullmatch(given) is not None


def verified(
    token: str,
    keys: Sequence[Mapping[str, Any]],
    *,
    issuer: str,
    is_ours: Callable[[str], bool],
    takes_unmarked: bool,
) -> dict[str, Any]:
    """Its claims. `is_ours` says of an audience whether it means us. Raises SignInError."""
    header = id_tokens.read_header(token)
    kind = str(header.get("typ", "")).lower()
    if kind not in MARKS and not (takes_unmarked and kind in ("", "jwt")):
        raise refused("type")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            id_tokens.key_for(header, keys),
            algorithms=[header["alg"]],
            issuer=issuer,
            leeway=id_tokens.LEEWAY,
            options={"require": NEEDED if takes_unmarked else NEEDED_OF_MARKED, "verify_aud": False},
        )
    except jwt.PyJWTError as error:
        raise refused(type(error).__name__) from error
    audience = claims["aud"]
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(each, str) and is_ours(each) for each in named):
        raise refused("audience")
    # A nonce stands in id tokens alone.
    if claims["iss"] != issuer or "nonce" in claims:
        raise refused("issuer or nonce")
    if not all(id_tokens.is_time(claims[name]) for name in ("exp", "iat", "nbf") if name in claims):
        raise refused("times")
    if not id_tokens.is_subject(claims["sub"]):
        raise refused("subject")
    return claims


def scopes_of(claims: Mapping[str, Any]) -> set[str]:
    """What the token is good for: `scope` (RFC 9068), or `scp`, as some providers say."""
    stated = claims.get("scope", claims.get("scp"))
    words = stated.split() if isinstance(stated, str) else stated if isinstance(stated, list) else []
    return {word for word in words if isinstance(word, str)}


def refused(what: str) -> SignInError:
    return SignInError("access_token_" + "_".join(what.lower().split()), "", status=401)
