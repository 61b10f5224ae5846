from django.conf import settings
from django.db import models
from django.db.models.functions import Lower, Now

from catalog.models.tools import Tool, ToolVersion


class Configuration(models.Model):
    """One state of how a tool is set up for its runs, under a name. It never changes.

    Other values under the same name are another row with the next `number`, so that what was chosen stays
    what it was. `version` is the one that the values were judged by. A removed name is offered no more; what
    has chosen it goes on with it.
    """

    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="configurations")
    version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=60)
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
