"""Secrets at rest: encrypted under a key that only this installation's processes have.

An encrypted secret reads `v1:<key id>:<base64 of nonce, ciphertext and tag>` (AES-256-GCM). What it belongs
to, "<app.model.field>:<id of its row>", is associated data: a ciphertext copied to another row or to another
field cannot be decrypted. Keys come from PEGBOARD_KEYS or from the file that PEGBOARD_KEYS_FILE names,
and from nowhere else: "id:base64 of 32 bytes" each. The first encrypts, all decrypt.

A model keeps one in two columns, and whatever must know of all secrets finds them (see `columns`):

    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
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
MAKE_ONE = "python3 -c \"import base64, os; print('k1:' + base64.b64encode(os.urandom(32)).decode())\""
GONE = "is not there any more. Enter it again."
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


class UndecryptableError(DomainError):
    """The key is missing or wrong, or the ciphertext belongs elsewhere.

    why: the end of a sentence that begins with “The secret”.
    missing_key: the id of the key that is not in PEGBOARD_KEYS; "" where the key is not what is missing.
    """

    def __init__(self, name: str, why: str, missing_key: str = "") -> None:
        super().__init__("CREDENTIAL_LOCKED", f"The secret of “{name}” {why}")
        self.why = why
        self.missing_key = missing_key

    @property
    def remedy(self) -> str:
        """What an operator does about a secret that this installation made itself and can make again."""
        if not self.missing_key:
            return "Its key is damaged. Restore the database from a backup, or ask for help with the log."
        return (
            f"Its key is encrypted under “{self.missing_key}”, which is not in PEGBOARD_KEYS. Put that back. "
            f"If it is lost, run {MANAGE} rotate_keys --forget {self.missing_key}: a new key is made then."
        )


class KeyringError(Exception):
    """There is no usable key; says what is wrong and what to do, and shows no key."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """`keys` by their ids; new secrets are encrypted under `first`."""

    first: str
    keys: dict[str, AESGCM]


def keyring() -> Keyring:
    """The keys as they are now: a changed file counts without a restart. Raises KeyringError."""
    if settings.KEYS and settings.KEYS_FILE:
        raise KeyringError("Set either PEGBOARD_KEYS or PEGBOARD_KEYS_FILE, not both.")
    if settings.KEYS_FILE:
        return _parsed(_entries(Path(settings.KEYS_FILE)))
    return _parsed(tuple(settings.KEYS))


def _entries(path: Path) -> tuple[str, ...]:
    # One on each line; empty lines and comments with # are skipped.
    try:
        with path.open() as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IRWXO:
                raise KeyringError(
                    f"Every user of this machine may open {path}, which PEGBOARD_KEYS_FILE names. "
                    f"Take that right away: chmod o= {path}"
                )
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise KeyringError(f"{path}, which PEGBOARD_KEYS_FILE names, cannot be read: {reason}.") from exc
    return tuple(line for line in lines if line and not line.startswith("#"))


@lru_cache
def _parsed(entries: tuple[str, ...]) -> Keyring:
    # Messages count entries and never quote one: text in the wrong place may be a key.
    if not entries:
        raise KeyringError(
            f"There is no key for secrets. Make one and put it into PEGBOARD_KEYS or a file that "
            f"PEGBOARD_KEYS_FILE names: {MAKE_ONE}"
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
                f"Key {number} of PEGBOARD_KEYS is not valid: each reads id:base64 of {KEY_BYTES} bytes. "
                f"Make one with: {MAKE_ONE}"
            )
        if key_id in keys:
            raise KeyringError(f"PEGBOARD_KEYS names two keys “{key_id}”. Give each key an id of its own.")
        keys[key_id] = AESGCM(key)
    return Keyring(next(iter(keys)), keys)


def encrypt(secret: Secret, *, row: UUID, field: str) -> str:
    """For the row with this id; `field` is its "<app.model.field>", such as catalog.credential.sealed.

    Raises DomainError (no_key) when the installation has no usable key.
    """
    try:
        ring = keyring()
    except KeyringError as exc:
        raise DomainError(
            "no_key",
            "This installation has no usable key for secrets. Ask its operator to look at PEGBOARD_KEYS.",
        ) from exc
    nonce = os.urandom(NONCE_BYTES)
    data = nonce + ring.keys[ring.first].encrypt(nonce, secret.reveal().encode(), _bound_to(row, field))
    return f"v1:{ring.first}:{base64.b64encode(data).decode()}"


def decrypt(ciphertext: str, *, row: UUID, field: str, name: str) -> Secret:
    """Raises UndecryptableError, which tells a person about `name`; never returns ciphertext."""
    if not ciphertext:
        raise UndecryptableError(name, GONE)
    key_id = ""
    try:
        version, key_id, text = ciphertext.split(":")
        data = base64.b64decode(text, validate=True)
        key = keyring().keys[key_id]
        if version != "v1":
            raise UndecryptableError(name, DAMAGED)
        return Secret(key.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(row, field)).decode())
    except (KeyError, KeyringError) as exc:
        raise UndecryptableError(name, NO_KEY, missing_key=key_id) from exc
    except (ValueError, InvalidTag) as exc:
        raise UndecryptableError(name, DAMAGED) from exc


def _bound_to(row: UUID, field: str) -> bytes:
    return f"{field}:{row}".encode()


def fingerprint(secret: Secret) -> str:
    """8 hexadecimal digits that change with the secret and tell nothing about it.

    Raises UndecryptableError when the key of fingerprints cannot be decrypted.
    """
    return _keyed(secret.reveal())[:8]


def keyed_digest(text: str, *, field: str) -> str:
    """64 hexadecimal digits by which a text is found again, and which cannot be guessed back without the key
    of this installation. `field` is what it is a digest for, as with `encrypt`: those of two fields differ.
    """
    return _keyed(f"{field}\0{text}")


def _keyed(text: str) -> str:
    return hmac.new(_digest_key(), text.encode(), hashlib.sha256).hexdigest()


def forget_digest_key() -> None:
    """Read the key of digests again when it is next needed."""
    global _cached_digest_key
    _cached_digest_key = None


def _digest_key() -> bytes:
    # A random key that is encrypted in the database: it outlives every rotation, and fingerprints in the
    # audit trail stay comparable.
    global _cached_digest_key
    cached = _cached_digest_key
    if cached and time.monotonic() - cached[0] < DIGEST_KEY_CACHED_FOR:
        return cached[1]
    model = apps.get_model("catalog", "FingerprintKey")
    column = EncryptedColumn(model, "sealed", "key_id")
    kept = model._default_manager.filter(pk=FINGERPRINT_KEY).values_list("sealed", flat=True).first()
    if kept is None:
        made = encrypt(Secret(os.urandom(KEY_BYTES).hex()), row=FINGERPRINT_KEY, field=column.name)
        row, _ = model._default_manager.get_or_create(pk=FINGERPRINT_KEY, defaults={"sealed": made})
        kept = row.sealed
    key = decrypt(kept, row=FINGERPRINT_KEY, field=column.name, name="fingerprints").reveal().encode()
    # A transaction that has written the row may be rolled back, and another process writes another key then.
    if not connection.in_atomic_block:
        _cached_digest_key = time.monotonic(), key
    return key


class EncryptedField(models.TextField):  # type: ignore[type-arg]
    """The text that `encrypt` returned, or "" where there is no secret. Never takes anything else.

    Its model has a UUID as its primary key, assigned before it is saved, and a KeyIdField for this field.
    """

    def get_prep_value(self, value: Any) -> Any:
        # The message does not show the value: it may be a secret that should have been encrypted.
        if value and not (isinstance(value, str) and value.startswith("v1:")):
            raise TypeError(f"{self.model.__name__}.{self.name} takes encrypted secrets only")
        return super().get_prep_value(value)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        found = super().check(**kwargs)
        if not isinstance(self.model._meta.pk, models.UUIDField):
            found.append(Error("An EncryptedField needs a UUID as primary key.", obj=self, id="core.E001"))
        if not any(field.encrypted == self.name for field in _key_id_fields(self.model)):
            found.append(Error("An EncryptedField has a KeyIdField beside it.", obj=self, id="core.E002"))
        return found


class KeyIdField(models.GeneratedField):
    """The id of the key that a secret is encrypted under, as the database reads it from the ciphertext."""

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
        made_here = {"expression", "output_field", "db_persist", "db_index"}
        return name, path, [self.encrypted], {key: options[key] for key in options.keys() - made_here}


def _key_id_fields(model: type[models.Model]) -> list[KeyIdField]:
    return [field for field in model._meta.get_fields() if isinstance(field, KeyIdField)]


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column of secrets, and the column with the ids of their keys."""

    model: type[models.Model]
    encrypted: str
    key_id: str

    @property
    def name(self) -> str:
        """What its secrets are bound to, beside their rows."""
        return f"{self.model._meta.label_lower}.{self.encrypted}"


def columns() -> list[EncryptedColumn]:
    return [
        EncryptedColumn(model, field.encrypted, field.name)
        for model in apps.get_models()
        for field in _key_id_fields(model)
    ]


def secrets_by_key() -> dict[str, int]:
    """How many secrets are encrypted under each key, by its id, in one question to the database."""
    first, *others = (
        column.model._default_manager.exclude(**{column.key_id: ""})
        .order_by()
        .values_list(column.key_id)
        .annotate(count=Count("pk"))
        for column in columns()
    )
    found: Counter[str] = Counter()
    for key_id, count in first.union(*others, all=True):
        found[key_id] += count
    return dict(found)


def missing_keys(ring: Keyring) -> dict[str, int]:
    """Keys that are not in the ring although secrets are encrypted under them, and how many."""
    return {key_id: count for key_id, count in secrets_by_key().items() if key_id not in ring.keys}
