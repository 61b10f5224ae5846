"""Private keys that authenticate a client in place of a secret: RFC 7523 section 2.2, in OpenID Connect
`private_key_jwt`.

Pegboard creates the key and publishes its public part (RFC 7517), with which the server verifies signatures.
The algorithm is RS256, because every server with this method supports it.
"""

import base64
import hashlib
import json
import secrets
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from jwt.algorithms import RSAAlgorithm

from core.encryption import Secret

ALGORITHM, BITS = "RS256", 2048
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE_SECONDS = 60


def create_key() -> Secret:
    """Return a new private key as one line of text."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Secret(base64.b64encode(der).decode())


def public_part(private: Secret) -> dict[str, Any]:
    """Return the public part as a JWK, with its thumbprint (RFC 7638) as id."""
    key = RSAAlgorithm.to_jwk(_load(private).public_key(), as_dict=True)
    members = {name: key[name] for name in ("e", "kty", "n")}
    digest = hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest()
    kid = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return {**members, "kid": kid, "alg": ALGORITHM, "use": "sig"}


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
    header = {"kid": public_part(private)["kid"]}
    return jwt.encode(claims, _load(private), algorithm=ALGORITHM, headers=header)


def _load(private: Secret) -> RSAPrivateKey:
    key = load_der_private_key(base64.b64decode(private.reveal()), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError("the key was not created by Pegboard")
    return key
