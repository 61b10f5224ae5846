from django.db import models

from catalog.models.vendors import Endpoint


class KeptReply(models.Model):
    """A vendor's reply to a run that failed, for the next run.

    Only catalog/enumeration reads and writes it, and the next successful run deletes it. reader: identifies
    endpoint, settings and credential. request: the SHA-256 of the request (hexadecimal). All rows of an
    endpoint have the age of the first run that they come from.
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
