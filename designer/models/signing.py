"""Keys that sign releases, signatures, and receipts of releases that API keys have fetched."""

import base64
import hashlib
import uuid

from django.db import models
from django.utils import timezone

from core.encryption import EncryptedField, KeyIdField
from designer.models.releases import Release
from people.models import ApiKey


class SigningKey(models.Model):
    """An Ed25519 key pair. One key signs. Retired keys verify their earlier signatures.

    `public` is the raw public key in base64url. A key that was revoked verifies nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    public = models.CharField(max_length=43, unique=True)
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
    valid_from = models.DateTimeField(default=timezone.now)
    retired_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["valid_from"]

    def __str__(self) -> str:
        return f"signing key {self.name}"

    @property
    def name(self) -> str:
        """Return the key's name in signatures and lists: the first 16 hexadecimal digits of its SHA-256."""
        return hashlib.sha256(base64.urlsafe_b64decode(self.public + "=")).hexdigest()[:16]


class ReleaseSignature(models.Model):
    """Ed25519 over the digest of a release, in base64url: a trigger refuses UPDATE and DELETE."""

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="signatures")
    key = models.ForeignKey(SigningKey, on_delete=models.PROTECT, related_name="+")
    signature = models.CharField(max_length=86)
    signed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["release", "key"], name="one_signature_per_key")]

    def __str__(self) -> str:
        return f"{self.release} by {self.key}"


class Receipt(models.Model):
    """A record that an API key fetched a release: the form, and the channel ("" for a number or a digest)."""

    key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="receipts")
    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="receipts")
    surface = models.CharField(max_length=100)
    channel = models.CharField(max_length=30, blank=True)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        ordering = ["-last_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["key", "release", "surface", "channel"], name="one_receipt_per_way"
            )
        ]

    def __str__(self) -> str:
        return f"{self.release} by {self.key}"
