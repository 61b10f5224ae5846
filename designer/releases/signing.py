"""Signatures of releases: Ed25519 over the 32 bytes of the digest, with a key of this installation."""

import base64
from datetime import datetime

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from core import encryption
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from designer.exports import document as release_document
from designer.models import Release, ReleaseSignature, SigningKey
from people import audit

FIELD = "designer.signingkey.sealed"
NAME = "signing of releases"


def public_keys() -> QuerySet[SigningKey]:
    """Return all keys that were not revoked, the oldest first: those that verify signatures."""
    return SigningKey.objects.filter(revoked_at=None)


def signature_of(release: Release) -> ReleaseSignature:
    """Return the signature by a key that is not revoked; sign the release now if there is none.

    Raises DomainError (release_damaged) if the document does not match its digest.
    """
    rows = ReleaseSignature.objects.filter(release=release, key__revoked_at=None).select_related("key")
    if signature := rows.first():
        return signature
    if release_document.digest(release.document.encode()) != release.digest:
        message = _("Release {number} does not match its digest, so it is not signed.").format(
            number=release.number
        )
        raise DomainError("release_damaged", message, status=409)
    return sign(release)


@transaction.atomic
def sign(release: Release) -> ReleaseSignature:
    """Sign the release. Raises DomainError (signing_locked) if the key cannot be decrypted."""
    _lock_keys()
    key = public_keys().filter(retired_at=None).exclude(sealed="").first() or _create_key()
    try:
        private_key = encryption.decrypt(key.sealed, row=key.pk, field=FIELD, name=NAME).reveal()
    except UndecryptableError as exc:
        message = _("The release cannot be signed. {remedy}").format(remedy=exc.remedy)
        raise DomainError("signing_locked", message, status=409) from exc
    signature = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private_key)).sign(
        bytes.fromhex(release.digest)
    )
    # Two concurrent callers get the signature that was stored first.
    return ReleaseSignature.objects.get_or_create(
        release=release, key=key, defaults={"signature": _encode_base64(signature)}
    )[0]


@transaction.atomic
def rotate(*, revoke: bool = False, now: datetime | None = None) -> SigningKey:
    """Create a new signing key. With `revoke` the old ones verify nothing any more, as after a leak."""
    _lock_keys()
    rotated_at = now or timezone.now()
    for key in public_keys().filter(retired_at=None) if not revoke else public_keys():
        before = {"retired_at": _format_time(key.retired_at), "revoked_at": None}
        key.retired_at = key.retired_at or rotated_at
        key.revoked_at = rotated_at if revoke else None
        key.save(update_fields=["retired_at", "revoked_at"])
        after = {"retired_at": _format_time(key.retired_at), "revoked_at": _format_time(key.revoked_at)}
        reason = "It was revoked on the command line." if revoke else "Another key signs from now on."
        audit.record(None, "revoke" if revoke else "retire", key, before=before, after=after, why=reason)
    return _create_key()


def _create_key() -> SigningKey:
    private_key = Ed25519PrivateKey.generate()
    public = private_key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    raw = private_key.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )
    key = SigningKey(public=_encode_base64(public))
    key.sealed = encryption.encrypt(Secret(raw.hex()), row=key.pk, field=FIELD)
    key.save(force_insert=True)
    audit.record(None, "make", key, after={"public": key.public}, why="Releases are signed with it.")
    return key


def _encode_base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _format_time(time: datetime | None) -> str | None:
    return time.isoformat() if time else None


def _lock_keys() -> None:
    # One process at a time creates a key, so that only one signs.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('designer.signing'))")
