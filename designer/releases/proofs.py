"""Prove that a release or an export was written by publishing, and not put into its table in another way."""

import hashlib
import hmac
import os
from uuid import UUID

from django.db import ProgrammingError, connection, transaction
from django.utils.translation import gettext_lazy
from psycopg import errors

from core import encryption
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.own_commands import MANAGE
from designer.models import PUBLISHING_KEY, PublishingKey

FIELD = "designer.publishingkey.sealed"
NAME = "publishing"
BLOCK_BYTES = 64  # of SHA-256
NO_KEY = gettext_lazy(
    "Pegboard cannot publish: there is no key that proves what it publishes, and its database role may not "
    "make one. Run {command}."
)


def proof_of_release(key: bytes, *, agent: int, number: int, digest: str, created_by: int) -> str:
    return _compute_proof(key, "release", agent, number, digest, created_by)


def proof_of_export(key: bytes, *, release: int, format_: str, body: bytes) -> str:
    return _compute_proof(key, "export", release, format_, hashlib.sha256(body).hexdigest())


def _compute_proof(key: bytes, *facts: object) -> str:
    # The trigger pegboard_check_proof uses the same format.
    return hmac.new(key, "\n".join(map(str, facts)).encode(), hashlib.sha256).hexdigest()


def key() -> bytes:
    """Return the key that proves publications.

    Raises DomainError (publishing_locked) if it cannot be decrypted, or this role may not create one. An
    unavailable database raises its own error.
    """
    try:
        return _stored_key() or make_key()
    except UndecryptableError as exc:
        raise DomainError("publishing_locked", f"Pegboard cannot publish. {exc.remedy}", status=409) from exc
    except ProgrammingError as exc:
        # Only the owner of the tables may make the key.
        if not isinstance(exc.__cause__, errors.InsufficientPrivilege):
            raise
        message = NO_KEY.format(command=f"{MANAGE} database_role")
        raise DomainError("publishing_locked", message, status=409) from exc


def make_key() -> bytes:
    """Return the key; create it if there is none. Only the owner of the tables may."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Of two processes that find no key, the second waits here for the first one's.
        cursor.execute(
            "INSERT INTO designer_publishingcheck VALUES (1, '', '') ON CONFLICT (id) DO UPDATE SET id = 1"
        )
        if stored := _stored_key():
            return stored
        new_key = os.urandom(encryption.KEY_BYTES)
        block = new_key.ljust(BLOCK_BYTES, b"\0")
        cursor.execute(
            "UPDATE designer_publishingcheck SET inner_key = %s, outer_key = %s",
            [bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)],
        )
        sealed = encryption.encrypt(Secret(new_key.hex()), row=PUBLISHING_KEY, field=FIELD)
        PublishingKey.objects.update_or_create(pk=PUBLISHING_KEY, defaults={"sealed": sealed})
    return new_key


def _stored_key() -> bytes | None:
    sealed = PublishingKey.objects.exclude(sealed="").values_list("sealed", flat=True).first()
    if sealed is None:
        return None
    row: UUID = PUBLISHING_KEY
    return bytes.fromhex(encryption.decrypt(sealed, row=row, field=FIELD, name=NAME).reveal())
