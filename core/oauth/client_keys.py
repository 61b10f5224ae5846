"""Keys with which a client proves who it is in place of a secret: RFC 7523 section 2.2, which OpenID Connect
calls `private_key_jwt`.

We make the key; only its public part leaves us (RFC 7517), by which the server knows what it signed. RS256,
because it is what servers take that take any.
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


def make() -> Secret:
    """A new private key, as one line of text."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Secret(base64.b64encode(der).decode())


def public_part(private: Secret) -> dict[str, Any]:
    """As a JWK, named by its own digest (RFC 7638)."""
    key = RSAAlgorithm.to_jwk(_loaded(private).public_key(), as_dict=True)
    own = {name: key[name] for name in ("e", "kty", "n")}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True, separators=(",", ":")).encode()).digest()
    kid = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return {**own, "kid": kid, "alg": ALGORITHM, "use": "sig"}


def assertion(private: Secret, *, client_id: str, audience: str, now: int) -> str:
    """What is signed says who we are, to one server, once, for a minute. `now` is in seconds since 1970."""
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": secrets.token_urlsafe(24),
        "iat": now,
        "exp": now + LIFE_SECONDS,
    }
    header = {"kid": public_part(private)["kid"]}
    return jwt.encode(claims, _loaded(private), algorithm=ALGORITHM, headers=header)


def _loaded(private: Secret) -> RSAPrivateKey:
    key = load_der_private_key(base64.b64decode(private.reveal()), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError("this is no key that was made here")
    return key
