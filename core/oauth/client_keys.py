"""Private keys that authenticate a client in place of a secret: RFC 7523 section 2.2, in OpenID Connect
`private_key_jwt`.

Pegboard creates the key, or takes one that the server issued. It publishes the public part (RFC 7517), with
which the server verifies signatures. It creates keys for RS256, because every server with this method
supports it.
"""

import base64
import hashlib
import json
import secrets
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from jwt.algorithms import get_default_algorithms

from core.encryption import Secret
from core.private_keys import read_private_key

BITS = 2048
_ALGORITHMS: tuple[tuple[type, str], ...] = (
    (RSAPrivateKey, "RS256"),
    (EllipticCurvePrivateKey, "ES256"),
    (EllipticCurvePrivateKey, "ES384"),
    (Ed25519PrivateKey, "EdDSA"),
)
_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1"}
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE_SECONDS = 60


def create_key() -> Secret:
    """Return a new private key as one line of text."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Secret(base64.b64encode(der).decode())


def import_key(text: str) -> Secret:
    """Return a private key that a server issued, as one line of text.

    text: PEM without a passphrase, or a JWK, whose `kid` is kept. Raises ValueError for any other text and
    for a key that no algorithm of `_ALGORITHMS` uses.
    """
    key = read_private_key(text)
    if key is None:
        line = json.dumps(json.loads(text), separators=(",", ":"))
    else:
        der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        line = base64.b64encode(der).decode()
    private = Secret(line)
    _load_key(private)
    return private


def public_part(private: Secret) -> dict[str, Any]:
    """Return the public part as a JWK. Its id is the one of the key, or its thumbprint (RFC 7638)."""
    key, algorithm, kid = _load_key(private)
    jwk = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
    members: dict[str, Any] = {name: jwk[name] for name in ("crv", "e", "kty", "n", "x", "y") if name in jwk}
    digest = hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest()
    kid = kid or base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return {**members, "kid": kid, "alg": algorithm, "use": "sig"}


def create_assertion(private: Secret, *, client_id: str, audience: str, now: int) -> str:
    """Return a signed assertion of the client's identity for one server, valid once for a minute. now:
    Unix time."""
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": secrets.token_urlsafe(24),
        "iat": now,
        "exp": now + LIFE_SECONDS,
    }
    key, algorithm, _ = _load_key(private)
    header = {"kid": public_part(private)["kid"]}
    return jwt.encode(claims, key, algorithm=algorithm, headers=header)


def _load_key(private: Secret) -> tuple[Any, str, str]:
    """Return the key, its algorithm and its id, which may be empty."""
    text, kid = private.reveal(), ""
    key: Any
    if text.startswith("{"):
        try:
            jwk = jwt.PyJWK(json.loads(text))
        except jwt.PyJWTError as error:
            raise ValueError("no private key") from error
        key, kid = jwk.key, jwk.key_id or ""
    else:
        key = load_der_private_key(base64.b64decode(text), password=None)
    for kind, algorithm in _ALGORITHMS:
        is_long = not isinstance(key, RSAPrivateKey) or key.key_size >= BITS
        is_on_curve = not isinstance(key, EllipticCurvePrivateKey) or key.curve.name == _CURVES.get(algorithm)
        if isinstance(key, kind) and is_long and is_on_curve:
            return key, algorithm, kid
    raise ValueError("no algorithm uses this key")
