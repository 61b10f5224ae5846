"""Secrets at rest, and the one place that attaches them to a request.

A sealed secret reads `v1:<key id>:<base64 of nonce and ciphertext>` (AES-256-GCM). The row's own id
is associated data, so a ciphertext copied to another row does not open. Keys come from
PEGBOARD_CREDENTIAL_KEYS ("id:base64 of 32 bytes", the first one seals) and from nowhere else.
"""

import base64
import copy
import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from catalog.addresses import Policy, check_url
from catalog.errors import CatalogError
from catalog.models import Credential, Endpoint
from catalog.models.vendors import CredentialKind
from catalog.outbound import Exchange, Session
from catalog.wire import DEFAULT_LIMITS, Limits

KEY_BYTES = 32
LONGEST_LIFE = 900  # seconds that a signed token may live
USUAL_LIFE = 600  # longer than the longest conversation with a vendor


class Secret:
    """Text that does not show itself: not in a repr, not in a log line, not in JSON."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "****"

    __str__ = __repr__

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not serialised")

    def reveal(self) -> str:
        return self._text


class UndecryptableError(CatalogError):
    """The key is missing or wrong, or the ciphertext belongs to another row."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "CREDENTIAL_LOCKED",
            f"The secret of “{name}” cannot be opened with the keys of this installation. Enter it again.",
        )


@lru_cache
def _keyring(entries: tuple[str, ...]) -> dict[str, AESGCM]:
    """Raises ValueError for an entry that is no key."""
    ring = {}
    for entry in entries:
        key_id, _, text = entry.partition(":")
        key = base64.b64decode(text, validate=True)
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        ring[key_id] = AESGCM(key)
    return ring


def _sealing_key() -> tuple[str, AESGCM]:
    try:
        return next(iter(_keyring(tuple(settings.CREDENTIAL_KEYS)).items()))
    except (StopIteration, ValueError) as exc:
        raise CatalogError(
            "no_credential_key",
            "This installation has no usable key for secrets. "
            "Ask whoever runs it to look at PEGBOARD_CREDENTIAL_KEYS.",
        ) from exc


def seal(credential: Credential, secret: Secret) -> None:
    """Put `secret` into the row (not saved). Raises CatalogError when the installation has no key."""
    key_id, key = _sealing_key()
    nonce = os.urandom(12)
    text = nonce + key.encrypt(nonce, secret.reveal().encode(), _bound_to(credential))
    credential.sealed = f"v1:{key_id}:{base64.b64encode(text).decode()}"
    credential.fingerprint = hmac.new(
        settings.SECRET_KEY.encode(), secret.reveal().encode(), hashlib.sha256
    ).hexdigest()[:8]


def unseal(credential: Credential) -> Secret:
    """Raises UndecryptableError; never returns ciphertext."""
    try:
        version, key_id, text = credential.sealed.split(":")
        data = base64.b64decode(text, validate=True)
        key = _keyring(tuple(settings.CREDENTIAL_KEYS))[key_id]
        if version != "v1":
            raise UndecryptableError(credential.name)
        return Secret(key.decrypt(data[:12], data[12:], _bound_to(credential)).decode())
    except (ValueError, KeyError, InvalidTag) as exc:
        raise UndecryptableError(credential.name) from exc


def _bound_to(credential: Credential) -> bytes:
    return f"catalog.credential.sealed:{credential.pk}".encode()


def origin_of(url: str) -> str:
    """Scheme, host and port: what a credential is bound to. Raises RefusedError for what is no address."""
    return check_url(url, outbound_policy()).origin


@dataclass(frozen=True, slots=True)
class Proof:
    """What carries a credential in a request, and every text by which it could come back."""

    headers: dict[str, str]
    query: dict[str, str]
    secrets: tuple[str, ...]


NO_PROOF = Proof({}, {}, ())


def proof(credential: Credential) -> Proof:
    """Opened for one conversation; a signed token is made anew for each."""
    secret = unseal(credential).reveal()
    headers, query = _headers(credential, secret), {}
    if credential.kind == CredentialKind.QUERY:
        query = {credential.parameter: secret}
    carried = [value.split()[-1] for value in headers.values()]
    return Proof(headers, query, (secret, quote(secret, safe=""), *carried))


def _headers(credential: Credential, secret: str) -> dict[str, str]:
    """The request headers that carry this credential."""
    match credential.kind:
        case CredentialKind.BEARER:
            return {"Authorization": f"Bearer {secret}"}
        case CredentialKind.BASIC:
            pair = base64.b64encode(f"{credential.username}:{secret}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        case CredentialKind.HEADER:
            return {credential.header: secret}
        case CredentialKind.JWT:
            return {"Authorization": f"Bearer {_signed_token(credential, secret, int(time.time()))}"}
        case CredentialKind.QUERY:
            return {}
    raise UndecryptableError(credential.name)


def _signed_token(credential: Credential, secret: str, now: int) -> str:
    """A JSON Web Token under HS256: https://www.rfc-editor.org/rfc/rfc7519, rfc7515 section 3.1."""
    stated = {"iss": credential.issuer, "sub": credential.subject, "aud": credential.audience}
    claims = {name: value for name, value in stated.items() if value}
    life = credential.lifetime_seconds or USUAL_LIFE
    parts = ({"alg": "HS256", "typ": "JWT"}, claims | {"iat": now, "exp": now + life})
    signed = ".".join(_in_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    return f"{signed}.{_in_base64url(hmac.digest(secret.encode(), signed.encode(), 'sha256'))}"


def _in_base64url(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def open_session(
    endpoint: Endpoint, exchanges: list[Exchange] | None = None, limits: Limits = DEFAULT_LIMITS
) -> AbstractContextManager[Session]:
    """The only way to speak with an endpoint: its address rule, and its credential if it is bound there.

    What the protocol finds out about the endpoint meanwhile is kept for the next session.
    """
    return _remembering(endpoint, _session(endpoint, exchanges, limits))


@contextmanager
def _remembering(endpoint: Endpoint, session: Session) -> Iterator[Session]:
    with session:
        try:
            yield session
        finally:
            if session.memory != endpoint.memory:
                endpoint.memory = session.memory
                Endpoint.objects.filter(pk=endpoint.pk).update(memory=session.memory)


def _session(endpoint: Endpoint, exchanges: list[Exchange] | None, limits: Limits) -> Session:
    carried, origin = NO_PROOF, None
    if credential := endpoint.credential:
        origin = origin_of(endpoint.credential_url)
        if credential.removed_at or credential.origin != origin:
            raise CatalogError(
                "CREDENTIAL_ELSEWHERE",
                f"“{credential}” was entered for {credential.origin} and is not sent anywhere else. "
                "Choose or enter a credential for this address.",
            )
        carried = proof(credential)
    return Session(
        endpoint.url,
        policy=outbound_policy(),
        authorization=carried.headers,
        authorization_query=carried.query,
        authorized_for=origin,
        secrets=carried.secrets,
        memory=copy.deepcopy(endpoint.memory),
        exchanges=exchanges,
        limits=limits,
    )


def outbound_policy() -> Policy:
    return Policy.parse(settings.OUTBOUND_ALLOW)
