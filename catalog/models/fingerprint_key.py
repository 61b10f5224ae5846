from django.db import models

from core.encryption import FINGERPRINT_KEY, EncryptedField, KeyIdField


class FingerprintKey(models.Model):
    """The key for fingerprints of secrets: one row, created on first use."""

    id = models.UUIDField(primary_key=True, default=FINGERPRINT_KEY, editable=False)
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
