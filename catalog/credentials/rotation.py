"""Encrypts every secret again under the first key, while the product runs, so that an older one can go.

Each batch is one short transaction, so it may be killed at any moment and started again: finished batches
stay finished, and every secret can be decrypted with the old key or with the new one. A row that another
transaction locks is left for the next pass, and one that was replaced meanwhile is left as it is.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from catalog.models import FingerprintKey
from core import encryption
from core.encryption import EncryptedColumn, UndecryptableError
from core.errors import DomainError
from people import audit

logger = logging.getLogger(__name__)

# Few enough that no writer waits long for the rows.
BATCH = 200
LOCK_WAIT_SECONDS = 10.0  # seconds to wait for rows that other transactions lock
FIRST = UUID(int=0)
LOST = "The key of its secret is lost, and rotate_keys --forget has emptied it."


@dataclass(slots=True)
class RotationProgress:
    encrypted: int = 0
    undecryptable: int = 0


def rotate(say: Callable[[RotationProgress], None] = lambda progress: None) -> RotationProgress:
    """Encrypt every secret with the first key of the ring. Calls `say` after each batch.

    Secrets of keys that are not in the ring stay unchanged, and undecryptable ones are counted. Raises
    KeyringError.
    """
    ring = encryption.keyring()
    progress = RotationProgress()
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    old = ring.keys.keys() - {ring.first}
    while True:
        progress.undecryptable = 0
        before = progress.encrypted
        for column in encryption.columns():
            for key_id in old:
                after = FIRST
                while last := _encrypt_batch(column, key_id, after, progress):
                    after = last
                    say(progress)
        remaining = sum(count for key_id, count in encryption.secrets_by_key().items() if key_id in old)
        if remaining <= progress.undecryptable or time.monotonic() > deadline:
            return progress
        if progress.encrypted == before:
            time.sleep(0.2)


@transaction.atomic
def _encrypt_batch(
    column: EncryptedColumn, key_id: str, after: UUID, progress: RotationProgress
) -> UUID | None:
    """Return the id of the last row of the batch, or None if there was none."""
    table = column.model._default_manager
    rows = (
        table.select_for_update(skip_locked=True, no_key=True)
        .filter(**{column.key_id: key_id}, pk__gt=after)
        .order_by("pk")
        .values_list("pk", column.encrypted)
    )
    last = None
    for last, ciphertext in rows[:BATCH]:
        try:
            secret = encryption.decrypt(ciphertext, row=last, field=column.name, name=str(last))
        except UndecryptableError:
            progress.undecryptable += 1
            logger.warning("%s of row %s cannot be decrypted with key %s", column.name, last, key_id)
            continue
        again = encryption.encrypt(secret, row=last, field=column.name)
        progress.encrypted += table.filter(pk=last, **{column.encrypted: ciphertext}).update(
            **{column.encrypted: again}
        )
    return last


@transaction.atomic
def forget(key_id: str) -> int:
    """Delete the secrets that are encrypted with a lost key, and return their number. Users enter them again.

    Raises KeyringError, and DomainError if the key is not lost.
    """
    if key_id in encryption.keyring().keys:
        raise DomainError(
            "key_is_there",
            f"The key “{key_id}” is in PEGBOARD_KEYS, so its secrets can be decrypted. Nothing is forgotten.",
        )
    forgotten = 0
    for column in encryption.columns():
        rows = column.model._default_manager.filter(**{column.key_id: key_id})
        if column.model is FingerprintKey:
            forgotten += rows.delete()[0]
            continue
        for row in rows.select_for_update(no_key=True).order_by("pk"):
            setattr(row, column.encrypted, "")
            row.save(update_fields=[column.encrypted])
            audit.record(None, "forget", row, before={"key": key_id}, after={"key": None}, why=LOST)
            forgotten += 1
    return forgotten
