"""Activities, which run for a tool instead of its vendor, or for a tool without a vendor."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from catalog.models.tools import Tool, ToolVersion


class ActivityQuerySet(models.QuerySet["Activity"]):
    def live(self) -> "ActivityQuerySet":
        return self.filter(removed_at=None)

    def shared(self) -> "ActivityQuerySet":
        """Return the activities that any agent may use."""
        return self.live().filter(agent=None)


class Activity(models.Model):
    """An implementation of a tool: of a definition, or a mock.

    `current` is the newest version. `agent` and `tool` are set for the mock of one tool in one agent
    alone; no foreign key, because agents lie above the catalog.
    """

    name = models.CharField(
        _("Name"),
        max_length=150,
        help_text=_("Shown in lists and environments, such as “Send mail with Larkspur”."),
    )
    current = models.ForeignKey(
        "catalog.ActivityVersion", null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    agent = models.BigIntegerField(null=True)
    tool = models.ForeignKey(Tool, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    objects = ActivityQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(removed_at=None, agent=None),
                name="one_live_activity_per_name",
            ),
            models.UniqueConstraint(
                fields=["agent", "tool"],
                condition=models.Q(removed_at=None, agent__isnull=False),
                name="one_live_activity_per_tool_in_agent",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ActivityVersion(models.Model):
    """A saved state of an activity. A trigger refuses UPDATE and DELETE.

    kind: the name of a kind in execution/activities/kinds.py. config: validated by that kind.
    interface: the tool version whose inputs it accepts and whose outputs it returns. None: those of any tool.
    is_by_administrator: the user who saved it was an administrator, so it may reach private networks for
    vendors.
    """

    activity = models.ForeignKey(Activity, on_delete=models.PROTECT, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20)
    config = models.JSONField(default=dict)
    interface = models.ForeignKey(ToolVersion, null=True, on_delete=models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(db_default=Now())
    is_by_administrator = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["activity", "number"], name="one_activity_version_per_number")
        ]

    def __str__(self) -> str:
        return f"{self.activity} version {self.number}"


class ActivityCallee(models.Model):
    """The version of another activity that a version of an activity runs: the one that was current when the
    caller was saved. A trigger refuses UPDATE and DELETE.
    """

    caller = models.ForeignKey(
        ActivityVersion, on_delete=models.PROTECT, related_name="callees", db_index=False
    )
    callee = models.ForeignKey(ActivityVersion, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "callee"], name="one_activity_callee_per_caller")
        ]

    def __str__(self) -> str:
        return f"{self.caller} runs {self.callee}"
