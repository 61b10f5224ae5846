from django.conf import settings
from django.db import models
from django.db.models.functions import Lower, Now
from django.utils.translation import gettext_lazy as _

from catalog.models.tools import Tool, ToolVersion


class Configuration(models.Model):
    """A state of a tool's configuration with a name. It never changes.

    Other values with the same name are another row with the next `number`, so a chosen state stays unchanged.
    version: the one by which the values were validated. A removed name is not offered any more; existing uses
    stay.
    """

    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="configurations")
    version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(
        _("Name"),
        max_length=60,
        help_text=_("Saving other values under the same name adds a version."),
    )
    number = models.PositiveIntegerField()
    values = models.JSONField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name", "-number"]
        constraints = [
            models.UniqueConstraint("tool", Lower("name"), "number", name="one_configuration_per_number"),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"
