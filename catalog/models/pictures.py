"""Pictures of tools: the vendor's address, and the thumbnail of the picture at that address."""

from django.db import models
from django.utils import timezone

from catalog.models.tools import Tool


class Picture(models.Model):
    """A small square WebP that Pegboard made of a vendor's image. `digest` is SHA-256 over `content`."""

    digest = models.CharField(max_length=64, primary_key=True)
    content = models.BinaryField()
    made_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"Picture {self.digest[:12]}"


class ToolPicture(models.Model):
    """The address of a tool's image as the vendor lists it, and the picture.

    Enumeration writes the address (catalog/enumeration/listed_images.py), a worker the rest
    (catalog/pictures/fetching.py).
    Tools without an image have no row. picture: None before the first request and after an error, which
    `error_code` and `error_message` describe. No worker requests the address before `next_at`.
    """

    tool = models.OneToOneField(Tool, primary_key=True, on_delete=models.CASCADE, related_name="tool_picture")
    address = models.TextField()
    picture = models.ForeignKey(Picture, null=True, on_delete=models.PROTECT, related_name="tool_pictures")
    next_at = models.DateTimeField(default=timezone.now, db_default=models.functions.Now())
    failures = models.PositiveSmallIntegerField(default=0, db_default=0)
    error_code = models.CharField(max_length=40, blank=True, db_default="")
    error_message = models.TextField(blank=True, db_default="")

    class Meta:
        indexes = [models.Index(fields=["next_at"], name="tool_picture_by_time")]

    def __str__(self) -> str:
        return f"Picture of {self.tool}"
