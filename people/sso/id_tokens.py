"""Validate ID tokens: OpenID Connect Core 1.0 section 3.1.3.7, RFC 8725. Pure.

This module chooses the algorithm, and it has to fit the type of the key: so neither `none` nor a public key
used as a shared secret passes. `kid` selects among the provider's own keys; `jku`, `x5u` and `jwk` in a
header are ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from django.utils.translation import gettext as _

from people.sso.errors import SignInError

KEY_TYPES = {"RS256": "RSA", "ES256": "EC"}
CURVES = {"ES256": "P-256"}
LEEWAY = 60  # seconds that two clocks may differ
MAX_AGE_SECONDS = 600  # since the token was issued; it has just been requested
# RFC 7518, section 3.3.
MIN_RSA_BITS = 2048
MAX_TOKEN_LENGTH = 16_000
# OpenID Connect Core, section 2.
MAX_SUBJECT_LENGTH = 255
REQUIRED_CLAIMS = ["iss", "sub", "aud", "exp", "iat", "nonce"]


def key_id(token: str) -> str | None:
    """Return the `kid` of the token's header. The header is not verified."""
    kid = read_header(token).get("kid")
    return kid if isinstance(kid, str) else None


def verify_id_token(
    token: str,
    keys: Sequence[Mapping[str, Any]],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    now: float,
) -> dict[str, Any]:
    """Verify an ID token and return its claims. `now` is in seconds since 1970. Raises SignInError."""
    header = read_header(token)
    key = key_for(header, keys)
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[header["alg"]],
            issuer=issuer,
            audience=client_id,
            leeway=LEEWAY,
            options={"require": REQUIRED_CLAIMS},
        )
    except jwt.InvalidSignatureError as error:
        raise _refuse_token("signature") from error
    except jwt.PyJWTError as error:
        raise _refuse_token(type(error).__name__) from error
    _check_claims(claims, issuer, client_id, nonce, now)
    return claims


def _check_claims(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str, now: float) -> None:
    # The library does not check these claims, or is less strict.
    if claims["iss"] != issuer:
        raise _refuse_token("issuer")
    audience = claims["aud"]
    # A token for several audiences has to name this client as its authorized party.
    has_other_audiences = isinstance(audience, list) and len(audience) > 1
    if claims.get("azp", None if has_other_audiences else client_id) != client_id:
        raise _refuse_token("authorized party")
    if claims["nonce"] != nonce:
        raise _refuse_token("nonce")
    times = [claims["iat"], claims["exp"]]
    if not all(map(is_time, times)):
        raise _refuse_token("times")
    if now - claims["iat"] > MAX_AGE_SECONDS:
        raise _refuse_token("age")
    if not is_subject(claims["sub"]):
        raise _refuse_token("subject")


def is_time(value: object) -> bool:
    # The library accepts times in strings.
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_subject(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_SUBJECT_LENGTH and value.isprintable()


def read_header(token: str) -> dict[str, Any]:
    if len(token) > MAX_TOKEN_LENGTH:
        raise _refuse_token("length")
    try:
        return jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise _refuse_token("form") from error


def key_for(header: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> Any:
    """Return the key that the token names, or the only key there is. Raises SignInError."""
    algorithm = header.get("alg")
    # A reader has to support the extensions that `crit` names (RFC 7515, 4.1.11); none is supported here.
    if algorithm not in KEY_TYPES or "crit" in header:
        raise _refuse_token("algorithm")
    candidates = [
        key
        for key in keys
        if key.get("kty") == KEY_TYPES[algorithm]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and key.get("crv") == CURVES.get(algorithm)
        # Everyone who reads the key set knows a private key in it.
        and "d" not in key
        and ("kid" not in header or key.get("kid") == header["kid"])
    ]
    # If several keys fit, the token has to name one; otherwise any of them would verify it.
    if len(candidates) != 1:
        raise _refuse_token("key")
    try:
        key = jwt.PyJWK(dict(candidates[0]), algorithm).key
    except jwt.PyJWTError as error:
        raise _refuse_token("key") from error
    if algorithm == "RS256" and key.key_size < MIN_RSA_BITS:
        raise _refuse_token("key")
    return key


def _refuse_token(reason: str) -> SignInError:
    # All faults have the same sentence, so that an attacker learns nothing; the log has the code.
    code = "id_token_" + "_".join(reason.lower().split())
    return SignInError(
        code, _("The identity provider's confirmation is not valid. Start again, or ask an administrator.")
    )
