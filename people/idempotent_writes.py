"""Writes that a client may repeat: the same Idempotency-Key of the same caller changes data once.

The transaction of the change also writes the row with the key, so the row exists exactly if the change does.
A client that did not receive the response sends the request again and receives the stored one. The header
follows draft-ietf-httpapi-idempotency-key-header.
"""

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from django.db import transaction
from django.utils import timezone

from core import encryption, portions
from core.encryption import Secret
from core.errors import DomainError
from people.models import ApiKey, IdempotentWrite, User

HEADER = "Idempotency-Key"
KEY = re.compile(r"[!-~]{1,255}")
STORED_FOR = timedelta(hours=24)
FIELD = "people.idempotentwrite.sealed"


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A successful response: its status, the headers that belong to it, and its body as JSON text."""

    status: int
    headers: Mapping[str, str]
    body: str


class KeyReusedError(DomainError):
    def __init__(self) -> None:
        message = "This Idempotency-Key was sent with another request. Use a new key for each new change."
        super().__init__("idempotency_key_reused", message, status=422)


def checked_key(key: str) -> str:
    """Return the key if it is valid. Raises DomainError (invalid_idempotency_key)."""
    if not KEY.fullmatch(key):
        message = f"{HEADER} takes 1 to 255 printable ASCII characters without blanks, such as a UUID."
        raise DomainError("invalid_idempotency_key", message)
    return key


def write_once(
    key: str, *, user: User, api_key: ApiKey | None, request: bytes, write: Callable[[], StoredResponse]
) -> tuple[StoredResponse, bool]:
    """Return the response of `write` and False, or the stored response for this key and caller and True.

    request: bytes that are the same for the same request. A response of status 400 or more, and an exception,
    roll the write back and store nothing. Raises KeyReusedError.
    """
    caller = f"key:{api_key.pk}" if api_key else f"user:{user.pk}"
    digest = hashlib.sha256(request).hexdigest()
    with transaction.atomic():
        # A second request with the key waits here until the first one has ended.
        row, is_new = IdempotentWrite.objects.get_or_create(
            caller=caller, key=key, defaults={"id": uuid.uuid4(), "request_digest": digest}
        )
        if not is_new:
            if row.request_digest != digest:
                raise KeyReusedError
            text = encryption.decrypt(row.sealed, row=row.pk, field=FIELD, name="stored answers").reveal()
            return msgspec.json.decode(text, type=StoredResponse), True
        response = write()
        if response.status >= 400:
            transaction.set_rollback(True)
        else:
            text = msgspec.json.encode(response).decode()
            # Encrypted, because the response may contain a new API key.
            row.sealed = encryption.encrypt(Secret(text), row=row.pk, field=FIELD)
            row.save(update_fields=["sealed"])
    return response, False


def forget_old_writes() -> bool:
    """Delete the keys that are older than STORED_FOR. Return whether some are left."""
    return portions.delete(IdempotentWrite.objects.filter(created_at__lt=timezone.now() - STORED_FOR))
