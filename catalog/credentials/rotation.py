"""Sealing everything again under the first key, while the product runs, so that an older key can go.

Each batch is one short transaction, so it may be killed at any moment and started again: what is done
stays done, and every secret opens with the old key or with the new one. A row that somebody else holds is
left for the next pass, and one that was replaced meanwhile is left as it is.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from catalog.models import FingerprintKey
from core import encryption
from core.encryption import SealedColumn, UndecryptableError
from core.errors import DomainError
from people import audit

logger = logging.getLogger(__name__)

BATCH = 200
PATIENCE = 10.0  # seconds to wait for rows that others hold
FIRST = UUID(int=0)
LOST = "The key that opens its secret is lost: manage.py rotate_keys --forget."


@dataclass(slots=True)
class Progress:
    sealed: int = 0
    unopened: int = 0


def rotate(say: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Seal every secret under the first key of the ring; `say` hears of each batch. Raises KeyringError.

    Those of keys that are not in the ring stay as they are, and those that do not open are counted.
    """
    ring = encryption.keyring()
    progress = Progress()
    deadline = time.monotonic() + PATIENCE
    while True:
        progress.unopened = 0
        before = progress.sealed
        for column in encryption.columns():
            for key_id in ring.keys.keys() - {ring.first}:
                _seal_again(column, key_id, progress, say)
        left = sum(count for key_id, count in encryption.secrets_by_key().items() if _is_old(key_id, ring))
        if left <= progress.unopened or time.monotonic() > deadline:
            return progress
        if progress.sealed == before:
            time.sleep(0.2)


def _is_old(key_id: str, ring: encryption.Keyring) -> bool:
    return key_id in ring.keys and key_id != ring.first


def _seal_again(
    column: SealedColumn, key_id: str, progress: Progress, say: Callable[[Progress], None]
) -> None:
    after = FIRST
    while last := _seal_batch(column, key_id, after, progress):
        after = last
        say(progress)


@transaction.atomic
def _seal_batch(column: SealedColumn, key_id: str, after: UUID, progress: Progress) -> UUID | None:
    """The id of the last row of the batch, or None when there was none."""
    table = column.model._default_manager
    rows = (
        table.select_for_update(skip_locked=True, no_key=True)
        .filter(**{column.key_id: key_id}, pk__gt=after)
        .order_by("pk")
        .values_list("pk", column.sealed)
    )
    last = None
    for last, sealed in rows[:BATCH]:
        try:
            secret = encryption.unseal(sealed, row=last, field=column.name, name=str(last))
        except UndecryptableError:
            progress.unopened += 1
            logger.warning("%s of row %s does not open with key %s", column.name, last, key_id)
            continue
        again = encryption.seal(secret, row=last, field=column.name)
        progress.sealed += table.filter(pk=last, **{column.sealed: sealed}).update(**{column.sealed: again})
    return last


@transaction.atomic
def forget(key_id: str) -> int:
    """Give up the secrets of a key that is lost; people enter them again. How many these were.

    Raises KeyringError, and DomainError while the key is there.
    """
    if key_id in encryption.keyring().keys:
        raise DomainError(
            "key_is_there",
            f"The key “{key_id}” is in PEGBOARD_KEYS, so its secrets open. Nothing was forgotten.",
        )
    forgotten = 0
    for column in encryption.columns():
        rows = column.model._default_manager.filter(**{column.key_id: key_id})
        if column.model is FingerprintKey:
            forgotten += rows.delete()[0]
            continue
        for row in rows.select_for_update(no_key=True).order_by("pk"):
            setattr(row, column.sealed, "")
            row.save(update_fields=[column.sealed])
            audit.record(None, "forget", row, before={"key": key_id}, after={"key": None}, why=LOST)
            forgotten += 1
    return forgotten
