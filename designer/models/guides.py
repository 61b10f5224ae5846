from django.conf import settings
from django.db import models


class HiddenGuide(models.Model):
    """A guide of the first page that a user has hidden (designer/overviews/guides.py)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    guide = models.CharField(max_length=20)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "guide"], name="one_hidden_guide_per_user")]

    def __str__(self) -> str:
        return f"{self.guide} hidden by {self.user}"
