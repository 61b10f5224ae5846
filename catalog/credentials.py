"""Secrets at rest, and the one place that attaches them to a request.

A sealed secret reads `v1:<key id>:<base64 of nonce and ciphertext>` (AES-256-GCM). The row's own id
is associated data, so a ciphertext copied to another row does not open. Keys come from
PEGBOARD_CREDENTIAL_KEYS ("id:base64 of 32 bytes", the first one seals) and from nowhere else.
"""

import base64
import copy
import hashlib
import hmac
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from catalog.addresses import Policy, check_url
from catalog.errors import CatalogError
from catalog.models import Credential, Endpoint
from catalog.models.vendors import CredentialKind
from catalog.outbound import Exchange, Session

KEY_BYTES = 32


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


def authorization(credential: Credential) -> dict[str, str]:
    """The request headers that carry this credential."""
    secret = unseal(credential).reveal()
    match credential.kind:
        case CredentialKind.BEARER:
            return {"Authorization": f"Bearer {secret}"}
        case CredentialKind.BASIC:
            pair = base64.b64encode(f"{credential.username}:{secret}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        case CredentialKind.HEADER:
            return {credential.header: secret}
    raise UndecryptableError(credential.name)


def open_session(
    endpoint: Endpoint, exchanges: list[Exchange] | None = None
) -> AbstractContextManager[Session]:
    """The only way to speak with an endpoint: its address rule, and its credential if it is bound there.

    What the protocol finds out about the endpoint meanwhile is kept for the next session.
    """
    return _remembering(endpoint, _session(endpoint, exchanges))


@contextmanager
def _remembering(endpoint: Endpoint, session: Session) -> Iterator[Session]:
    with session:
        try:
            yield session
        finally:
            if session.memory != endpoint.memory:
                endpoint.memory = session.memory
                Endpoint.objects.filter(pk=endpoint.pk).update(memory=session.memory)


def _session(endpoint: Endpoint, exchanges: list[Exchange] | None) -> Session:
    headers: dict[str, str] = {}
    secrets: list[str] = []
    origin = None
    if credential := endpoint.credential:
        origin = origin_of(endpoint.credential_url)
        if credential.removed_at or credential.origin != origin:
            raise CatalogError(
                "CREDENTIAL_ELSEWHERE",
                f"“{credential}” was entered for {credential.origin} and is not sent anywhere else. "
                "Choose or enter a credential for this address.",
            )
        headers = authorization(credential)
        secrets = [unseal(credential).reveal(), *(value.split()[-1] for value in headers.values())]
    return Session(
        endpoint.url,
        policy=outbound_policy(),
        authorization=headers,
        authorized_for=origin,
        secrets=secrets,
        memory=copy.deepcopy(endpoint.memory),
        exchanges=exchanges,
    )


def outbound_policy() -> Policy:
    return Policy.parse(settings.OUTBOUND_ALLOW)
