from django.db import models

from core.encryption import FINGERPRINT_KEY, EncryptedField, KeyIdField


class FingerprintKey(models.Model):
    """What fingerprints of secrets are made with: one row, made when it is first needed."""

    id = models.UUIDField(primary_key=True, default=FINGERPRINT_KEY, editable=False)
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
