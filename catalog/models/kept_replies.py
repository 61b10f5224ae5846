from django.db import models

from catalog.models.vendors import Endpoint


class KeptReply(models.Model):
    """What a vendor replied to a run that broke off, so that the next one need not ask again.

    No part of the catalog: catalog/enumeration alone reads and writes it, and the run that ends well
    deletes it. `reader` says who asked whom and how, `request` is the SHA-256 (hexadecimal) of what was
    asked. All rows of an endpoint count from when the first run that they come from began.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="kept_replies")
    reader = models.CharField(max_length=40)
    request = models.CharField(max_length=64)
    url = models.TextField()
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField()
    body = models.BinaryField(help_text="Compressed with zlib.")
    since = models.DateTimeField()

    class Meta:
        verbose_name_plural = "kept replies"
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "request"], name="one_kept_reply_per_request")
        ]
        indexes = [models.Index(fields=["since"], name="kept_reply_since")]

    def __str__(self) -> str:
        return self.url
