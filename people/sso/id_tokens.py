"""Which id token is valid: OpenID Connect Core 1.0 section 3.1.3.7, RFC 8725. Pure.

The algorithm is chosen by us and fits the kind of the key, so neither `none` nor a public key taken for a
shared secret gets through. `kid` only picks among the provider's own keys; `jku`, `x5u` and `jwk` in a
header are never looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jwt

from people.sso.errors import SignInError

KINDS = {"RS256": "RSA", "ES256": "EC"}
CURVES = {"ES256": "P-256"}
LEEWAY = 60  # seconds that two clocks may differ
MAX_AGE_SECONDS = 600  # seconds since it was issued; it has just been asked for
# RFC 7518, section 3.3.
MIN_RSA_BITS = 2048
MAX_TOKEN_LENGTH = 16_000
# OpenID Connect Core, section 2.
MAX_SUBJECT_LENGTH = 255
NEEDED = ["iss", "sub", "aud", "exp", "iat", "nonce"]


def key_id(token: str) -> str | None:
    # The `kid` of its header, which is not verified yet.
    kid = read_header(token).get("kid")
    return kid if isinstance(kid, str) else None


def verified(
    token: str,
    keys: Sequence[Mapping[str, Any]],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    now: float,
) -> dict[str, Any]:
    """Its claims. Raises SignInError for whatever does not hold. `now` is in seconds since 1970."""
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
            options={"require": NEEDED},
        )
    except jwt.InvalidSignatureError as error:
        raise _refused("signature") from error
    except jwt.PyJWTError as error:
        raise _refused(type(error).__name__) from error
    _check_claims(claims, issuer, client_id, nonce, now)
    return claims


def _check_claims(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str, now: float) -> None:
    # The library leaves these checks to us, or is less strict.
    if claims["iss"] != issuer:
        raise _refused("issuer")
    audience = claims["aud"]
    # Then the token has to name us as the one that it was made for.
    is_for_others_too = isinstance(audience, list) and len(audience) > 1
    if claims.get("azp", None if is_for_others_too else client_id) != client_id:
        raise _refused("authorized party")
    if claims["nonce"] != nonce:
        raise _refused("nonce")
    times = [claims["iat"], claims["exp"]]
    if not all(map(is_time, times)):
        raise _refused("times")
    if now - claims["iat"] > MAX_AGE_SECONDS:
        raise _refused("age")
    if not is_subject(claims["sub"]):
        raise _refused("subject")


def is_time(value: object) -> bool:
    # The library takes times that are written as texts.
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_subject(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_SUBJECT_LENGTH and value.isprintable()


def read_header(token: str) -> dict[str, Any]:
    if len(token) > MAX_TOKEN_LENGTH:
        raise _refused("length")
    try:
        return jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise _refused("form") from error


def key_for(header: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> Any:
    """The one key that this token names, or the only one there is."""
    algorithm = header.get("alg")
    # What `crit` names has to be understood (RFC 7515, 4.1.11), and we know none of it.
    if algorithm not in KINDS or "crit" in header:
        raise _refused("algorithm")
    fitting = [
        key
        for key in keys
        if key.get("kty") == KINDS[algorithm]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and key.get("crv") == CURVES.get(algorithm)
        # A private key among the public ones is known to everyone who reads them.
        and "d" not in key
        and ("kid" not in header or key.get("kid") == header["kid"])
    ]
    # Where several fit, the token has to say which one, or any of them would do.
    if len(fitting) != 1:
        raise _refused("key")
    try:
        key = jwt.PyJWK(dict(fitting[0]), algorithm).key
    except jwt.PyJWTError as error:
        raise _refused("key") from error
    if algorithm == "RS256" and key.key_size < MIN_RSA_BITS:
        raise _refused("key")
    return key


def _refused(what: str) -> SignInError:
    # One sentence for all faults: an attacker learns nothing, and `code` is for the log.
    code = "id_token_" + "_".join(what.lower().split())
    return SignInError(
        code, "The identity provider's confirmation cannot be believed. Start again, or ask an administrator."
    )
