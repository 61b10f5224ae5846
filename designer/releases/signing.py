"""Signatures of releases: Ed25519 over the 32 bytes of the digest, with a key of this installation.

Who receives a release can see without asking us that it was published here: docs/releases.md has the script.
The key is encrypted like every secret. Another takes its place when an operator says so; what the old one
signed is verified by it for ever, unless the key was revoked.
"""

import base64
from datetime import datetime

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from core import encryption
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from designer.exports import document as release_document
from designer.models import Release, ReleaseSignature, SigningKey
from people import audit

FIELD = "designer.signingkey.sealed"
NAME = "signing of releases"


def public_keys() -> QuerySet[SigningKey]:
    """All that were not revoked, the oldest first: those that verify something."""
    return SigningKey.objects.filter(revoked_at=None)


def signature_of(release: Release) -> ReleaseSignature:
    """By a key that was not revoked; a release without one is signed now.

    Raises DomainError (release_damaged) where the document is not the one that the digest names.
    """
    rows = ReleaseSignature.objects.filter(release=release, key__revoked_at=None).select_related("key")
    if found := rows.first():
        return found
    if release_document.digest(release.document.encode()) != release.digest:
        message = f"Release {release.number} does not match its digest, so it is not signed."
        raise DomainError("release_damaged", message, status=409)
    return sign(release)


@transaction.atomic
def sign(release: Release) -> ReleaseSignature:
    """Raises DomainError (signing_locked) where the signing key cannot be decrypted."""
    _lock()
    key = public_keys().filter(retired_at=None).exclude(sealed="").first() or _make()
    try:
        opened = encryption.decrypt(key.sealed, row=key.pk, field=FIELD, name=NAME).reveal()
    except UndecryptableError as exc:
        message = f"The release cannot be signed. {exc.remedy}"
        raise DomainError("signing_locked", message, status=409) from exc
    made = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(opened)).sign(bytes.fromhex(release.digest))
    # Two who ask at once get the one that was first.
    row, _ = ReleaseSignature.objects.get_or_create(
        release=release, key=key, defaults={"signature": _text(made)}
    )
    return row


@transaction.atomic
def rotate(*, revoke: bool = False, now: datetime | None = None) -> SigningKey:
    """A new key signs from now on. With `revoke` the old ones verify nothing any more, as after a leak."""
    _lock()
    at = now or timezone.now()
    for key in public_keys().filter(retired_at=None) if not revoke else public_keys():
        before = {"retired_at": _written(key.retired_at), "revoked_at": None}
        key.retired_at = key.retired_at or at
        key.revoked_at = at if revoke else None
        key.save(update_fields=["retired_at", "revoked_at"])
        after = {"retired_at": _written(key.retired_at), "revoked_at": _written(key.revoked_at)}
        why = "It was revoked on the command line." if revoke else "Another key signs from now on."
        audit.record(None, "revoke" if revoke else "retire", key, before=before, after=after, why=why)
    return _make()


def _make() -> SigningKey:
    made = Ed25519PrivateKey.generate()
    public = made.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    raw = made.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )
    key = SigningKey(public=_text(public))
    key.sealed = encryption.encrypt(Secret(raw.hex()), row=key.pk, field=FIELD)
    key.save(force_insert=True)
    audit.record(None, "make", key, after={"public": key.public}, why="Releases are signed with it.")
    return key


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _written(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _lock() -> None:
    # One at a time makes a key, so that there is one that signs.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('designer.signing'))")
