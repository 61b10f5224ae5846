"""Proof that a release or an export comes from publishing, and was not put into its table past it.

A row carries an HMAC-SHA256 under a key of this installation. A trigger computes it again and refuses a row
of the product's own role without it. So two places hold the key: a column that is encrypted like every
secret, for the processes that publish, and a table that only the owner of the tables reads, for the
trigger. docs/decisions/0036-proof-of-publishing.md.
"""

import hashlib
import hmac
import os
from uuid import UUID

from django.db import ProgrammingError, connection, transaction
from psycopg import errors

from core import encryption
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.own_commands import MANAGE
from designer.models import PUBLISHING_KEY, PublishingKey

FIELD = "designer.publishingkey.sealed"
NAME = "publishing"
BLOCK_BYTES = 64  # of SHA-256
NO_KEY = (
    "Pegboard cannot publish: there is no key that proves what it publishes, and its database role may not "
    f"make one. Run {MANAGE} database_role."
)


def of_release(key: bytes, *, agent: int, number: int, digest: str, created_by: int) -> str:
    return _proof(key, "release", agent, number, digest, created_by)


def of_export(key: bytes, *, release: int, format_: str, body: bytes) -> str:
    return _proof(key, "export", release, format_, hashlib.sha256(body).hexdigest())


def _proof(key: bytes, *facts: object) -> str:
    # The trigger pegboard_check_proof writes the same lines.
    return hmac.new(key, "\n".join(map(str, facts)).encode(), hashlib.sha256).hexdigest()


def key() -> bytes:
    """Return the key that proves what is published.

    Raises DomainError (publishing_locked) where it cannot be decrypted, or this role may not make one.
    A database that is away or slow raises its own error.
    """
    try:
        return _kept() or make_key()
    except UndecryptableError as exc:
        raise DomainError("publishing_locked", f"Pegboard cannot publish. {exc.remedy}", status=409) from exc
    except ProgrammingError as exc:
        # Only the owner of the tables may make the key.
        if not isinstance(exc.__cause__, errors.InsufficientPrivilege):
            raise
        raise DomainError("publishing_locked", NO_KEY, status=409) from exc


def make_key() -> bytes:
    """The key, made now if there is none. Only the owner of the tables may."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Of two that find none, the second waits here for the first one's.
        cursor.execute(
            "INSERT INTO designer_publishingcheck VALUES (1, '', '') ON CONFLICT (id) DO UPDATE SET id = 1"
        )
        if kept := _kept():
            return kept
        made = os.urandom(encryption.KEY_BYTES)
        block = made.ljust(BLOCK_BYTES, b"\0")
        cursor.execute(
            "UPDATE designer_publishingcheck SET inner_key = %s, outer_key = %s",
            [bytes(each ^ 0x36 for each in block), bytes(each ^ 0x5C for each in block)],
        )
        sealed = encryption.encrypt(Secret(made.hex()), row=PUBLISHING_KEY, field=FIELD)
        PublishingKey.objects.update_or_create(pk=PUBLISHING_KEY, defaults={"sealed": sealed})
    return made


def _kept() -> bytes | None:
    sealed = PublishingKey.objects.exclude(sealed="").values_list("sealed", flat=True).first()
    if sealed is None:
        return None
    row: UUID = PUBLISHING_KEY
    return bytes.fromhex(encryption.decrypt(sealed, row=row, field=FIELD, name=NAME).reveal())
