"""Encrypt secrets at rest with a key that only the processes of this installation have.

An encrypted secret has the form `v1:<key id>:<base64 of nonce, ciphertext and tag>` (AES-256-GCM). Its
associated data is "<app.model.field>:<id of its row>", so a ciphertext that is copied to another row or field
cannot be decrypted. Keys come from PEGBOARD_KEYS or from the file in PEGBOARD_KEYS_FILE, and from nowhere
else, each as "id:base64 of 32 bytes". The first key encrypts; all keys decrypt.

A model stores a secret in two columns, and `columns` finds those of all models:

    sealed = EncryptedField() key_id = KeyIdField("sealed")
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import stat
import time
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.db import connection, models
from django.db.models import Count, F, Func, Value

from core.errors import DomainError
from core.own_commands import MANAGE

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
KEY_COMMAND = "python3 -c \"import base64, os; print('k1:' + base64.b64encode(os.urandom(32)).decode())\""
GONE = "does not exist any more. Enter it again."
DAMAGED = "cannot be decrypted with the keys of this installation. Enter it again."
NO_KEY = (
    "needs a key that is not in PEGBOARD_KEYS. "
    "Ask the operator of this installation to put it back, or enter the secret again."
)
# The one row of its table.
FINGERPRINT_KEY = UUID("5ea1ed00-0000-4000-8000-000000000001")
# Seconds for which a process uses the key of digests before it reads it again.
DIGEST_KEY_CACHED_FOR = 60.0
_cached_digest_key: tuple[float, bytes] | None = None


class Secret:
    """Text that appears in no repr, log line or JSON document."""

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


class UndecryptableError(DomainError):
    """The key is missing or wrong, or the ciphertext belongs elsewhere.

    problem: the end of a sentence that begins with “The secret”.
    missing_key: the id of the key that is not in PEGBOARD_KEYS, or "" for another problem.
    """

    def __init__(self, name: str, problem: str, missing_key: str = "") -> None:
        super().__init__("CREDENTIAL_LOCKED", f"The secret of “{name}” {problem}")
        self.problem = problem
        self.missing_key = missing_key

    @property
    def remedy(self) -> str:
        """Return the step by which an operator replaces a secret that this installation can create again."""
        if not self.missing_key:
            return "Its key is damaged. Restore the database from a backup, or ask for help with the log."
        return (
            f"Its key is encrypted under “{self.missing_key}”, which is not in PEGBOARD_KEYS. Put that back. "
            f"If it is lost, run {MANAGE} rotate_keys --forget {self.missing_key}, which creates a new key."
        )


class KeyringError(Exception):
    """There is no usable key. The message states the problem and the remedy, and contains no key."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys of an installation. `keys` by their ids; new secrets are encrypted under `first`."""

    first: str
    keys: dict[str, AESGCM]


def keyring() -> Keyring:
    """Return the current keys; a changed file needs no restart. Raises KeyringError."""
    if settings.KEYS and settings.KEYS_FILE:
        raise KeyringError("Set either PEGBOARD_KEYS or PEGBOARD_KEYS_FILE, not both.")
    if settings.KEYS_FILE:
        path = Path(settings.KEYS_FILE)
        # One entry per line; empty lines and lines with # are skipped.
        try:
            with path.open() as file:
                if os.fstat(file.fileno()).st_mode & stat.S_IRWXO:
                    raise KeyringError(
                        f"Every user of this machine can read {path}, which PEGBOARD_KEYS_FILE names. "
                        f"Remove that permission: chmod o= {path}"
                    )
                lines = [line.strip() for line in file]
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is not text"
            raise KeyringError(f"{path}, which PEGBOARD_KEYS_FILE names, cannot be read: {reason}.") from exc
        return _parse_keyring(tuple(line for line in lines if line and not line.startswith("#")))
    return _parse_keyring(tuple(settings.KEYS))


@lru_cache
def _parse_keyring(entries: tuple[str, ...]) -> Keyring:
    # Messages number the entries and never quote one, because misplaced text may be a key.
    if not entries:
        raise KeyringError(
            f"There is no key for secrets. Create one and set it in PEGBOARD_KEYS or a file that "
            f"PEGBOARD_KEYS_FILE names: {KEY_COMMAND}"
        )
    keys: dict[str, AESGCM] = {}
    for number, entry in enumerate(entries, start=1):
        key_id, _, text = entry.partition(":")
        try:
            key = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not KEY_ID.fullmatch(key_id) or len(key) != KEY_BYTES:
            raise KeyringError(
                f"Key {number} of PEGBOARD_KEYS is not valid. "
                f"A key has the form id:base64 of {KEY_BYTES} bytes. Create one with: {KEY_COMMAND}"
            )
        if key_id in keys:
            raise KeyringError(f"PEGBOARD_KEYS names two keys “{key_id}”. Use a different id for each key.")
        keys[key_id] = AESGCM(key)
    return Keyring(next(iter(keys)), keys)


def encrypt(secret: Secret, *, row: UUID, field: str) -> str:
    """Encrypt a secret for one field of one row. field: "<app.model.field>", such as
    catalog.credential.sealed.

    Raises DomainError (no_key) if the installation has no usable key.
    """
    try:
        ring = keyring()
    except KeyringError as exc:
        raise DomainError(
            "no_key",
            "This installation has no usable key for secrets. Ask its operator to check PEGBOARD_KEYS.",
        ) from exc
    nonce = os.urandom(NONCE_BYTES)
    data = nonce + ring.keys[ring.first].encrypt(
        nonce, secret.reveal().encode(), _associated_data(row, field)
    )
    return f"v1:{ring.first}:{base64.b64encode(data).decode()}"


def decrypt(ciphertext: str, *, row: UUID, field: str, name: str) -> Secret:
    """Decrypt a secret. name: the name of the secret in an error message. Raises UndecryptableError."""
    if not ciphertext:
        raise UndecryptableError(name, GONE)
    key_id = ""
    try:
        version, key_id, text = ciphertext.split(":")
        data = base64.b64decode(text, validate=True)
        key = keyring().keys[key_id]
        if version != "v1":
            raise UndecryptableError(name, DAMAGED)
        return Secret(
            key.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _associated_data(row, field)).decode()
        )
    except (KeyError, KeyringError) as exc:
        raise UndecryptableError(name, NO_KEY, missing_key=key_id) from exc
    except (ValueError, InvalidTag) as exc:
        raise UndecryptableError(name, DAMAGED) from exc


def _associated_data(row: UUID, field: str) -> bytes:
    return f"{field}:{row}".encode()


def fingerprint(secret: Secret) -> str:
    """Return 8 hexadecimal digits that change with the secret and reveal nothing about it.

    Raises UndecryptableError if the key of fingerprints cannot be decrypted.
    """
    return _hmac(secret.reveal())[:8]


def keyed_digest(text: str, *, field: str) -> str:
    """Return a digest (64 hexadecimal digits) to look a text up by. Without the key of this installation
    the text cannot be found by guessing. field: as in `encrypt`; the digests of two fields differ."""
    return _hmac(f"{field}\0{text}")


def _hmac(text: str) -> str:
    return hmac.new(_digest_key(), text.encode(), hashlib.sha256).hexdigest()


def forget_digest_key() -> None:
    """Remove the cached key of digests, so that the next use reads it again."""
    global _cached_digest_key
    _cached_digest_key = None


def _digest_key() -> bytes:
    # A random key, encrypted in the database. It survives key rotation, so fingerprints in the audit trail
    # stay comparable.
    global _cached_digest_key
    cached = _cached_digest_key
    if cached and time.monotonic() - cached[0] < DIGEST_KEY_CACHED_FOR:
        return cached[1]
    model = apps.get_model("catalog", "FingerprintKey")
    column = EncryptedColumn(model, "sealed", "key_id")
    ciphertext = model._default_manager.filter(pk=FINGERPRINT_KEY).values_list("sealed", flat=True).first()
    if ciphertext is None:
        new_ciphertext = encrypt(Secret(os.urandom(KEY_BYTES).hex()), row=FINGERPRINT_KEY, field=column.name)
        row, _ = model._default_manager.get_or_create(pk=FINGERPRINT_KEY, defaults={"sealed": new_ciphertext})
        ciphertext = row.sealed
    key = decrypt(ciphertext, row=FINGERPRINT_KEY, field=column.name, name="fingerprints").reveal().encode()
    # If this transaction wrote the row, it may be rolled back, and another process may write another key.
    if not connection.in_atomic_block:
        _cached_digest_key = time.monotonic(), key
    return key


class EncryptedField(models.TextField):  # type: ignore[type-arg]
    """The result of `encrypt`, or "" without a secret. Rejects other values.

    Its model has a UUID as primary key, assigned before the row is saved, and a KeyIdField for this field.
    """

    def get_prep_value(self, value: Any) -> Any:
        # The message omits the value, which may be an unencrypted secret.
        if value and not (isinstance(value, str) and value.startswith("v1:")):
            raise TypeError(f"{self.model.__name__}.{self.name} accepts encrypted secrets only")
        return super().get_prep_value(value)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        errors = super().check(**kwargs)
        if not isinstance(self.model._meta.pk, models.UUIDField):
            errors.append(Error("An EncryptedField needs a UUID as primary key.", obj=self, id="core.E001"))
        if not any(field.encrypted == self.name for field in _key_id_fields(self.model)):
            errors.append(
                Error("An EncryptedField needs a KeyIdField in its model.", obj=self, id="core.E002")
            )
        return errors


class KeyIdField(models.GeneratedField):
    """The id of the key of a secret, which the database generates from the ciphertext."""

    def __init__(self, encrypted: str, **options: Any) -> None:
        self.encrypted = encrypted
        options |= {
            "expression": Func(F(encrypted), Value(":"), Value(2), function="split_part"),
            "output_field": models.TextField(),
            "db_persist": True,
            "db_index": True,
        }
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, path, _, options = super().deconstruct()
        generated = {"expression", "output_field", "db_persist", "db_index"}
        return name, path, [self.encrypted], {key: options[key] for key in options.keys() - generated}


def _key_id_fields(model: type[models.Model]) -> list[KeyIdField]:
    return [field for field in model._meta.get_fields() if isinstance(field, KeyIdField)]


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column of secrets and the column with the ids of their keys."""

    model: type[models.Model]
    encrypted: str
    key_id: str

    @property
    def name(self) -> str:
        """The part of the associated data that names the column."""
        return f"{self.model._meta.label_lower}.{self.encrypted}"


def columns() -> list[EncryptedColumn]:
    return [
        EncryptedColumn(model, field.encrypted, field.name)
        for model in apps.get_models()
        for field in _key_id_fields(model)
    ]


def secrets_by_key() -> dict[str, int]:
    """Return the number of secrets under each key, by key id, with one query."""
    first, *others = (
        column.model._default_manager.exclude(**{column.key_id: ""})
        .order_by()
        .values_list(column.key_id)
        .annotate(count=Count("pk"))
        for column in columns()
    )
    counts: Counter[str] = Counter()
    for key_id, count in first.union(*others, all=True):
        counts[key_id] += count
    return dict(counts)


def missing_keys(ring: Keyring) -> dict[str, int]:
    """Return the number of secrets under each key that is missing from the ring, by key id."""
    return {key_id: count for key_id, count in secrets_by_key().items() if key_id not in ring.keys}
