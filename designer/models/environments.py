"""The environments in which an agent runs, and the implementations of its tools there."""

from typing import NamedTuple

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models import Activity, ActivityVersion, Tool
from designer.models.agents import Agent


class Environment(models.Model):
    """A named place that an agent runs in, such as `production` or `test`, with the activities that run for
    its tools there.

    It holds for all that is published of the agent, its sub-agents included. The default one is that of
    callers who name none.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="environments")
    name = models.CharField(
        _("Name"),
        max_length=30,
        help_text=_("Such as “prototype”, “test” or “production”."),
    )
    is_default = models.BooleanField(_("Use it when no environment is selected"), default=False)
    # Only an administrator, or a second person, changes what runs there.
    is_protected = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "name"], name="one_environment_per_name"),
            models.UniqueConstraint(
                fields=["agent"], condition=models.Q(is_default=True), name="one_default_environment"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.agent}"


class CallEnvironment(NamedTuple):
    """An environment as a call needs it."""

    pk: int
    name: str
    is_default: bool

    @classmethod
    def parse(cls, text: str) -> "CallEnvironment":
        """Parse the text that a SQL statement with other columns returns."""
        pk, is_default, name = text.split(" ")
        return cls(int(pk), name, is_default == "true")


class Binding(models.Model):
    """The binding of an activity to a tool in an environment. Without an `activity` the tool is latent: the
    model answers itself.

    `activity_version` is the version that runs. A process of an older release writes only `activity`; then
    the newest version runs.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="bindings")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="+")
    activity = models.ForeignKey(Activity, null=True, on_delete=models.PROTECT, related_name="+")
    activity_version = models.ForeignKey(
        ActivityVersion, null=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["environment", "tool"], name="one_binding_per_tool")]

    def __str__(self) -> str:
        return f"{self.tool} in {self.environment}"

    @property
    def bound_version(self) -> ActivityVersion | None:
        """Return the activity version that runs; None for a simulated tool."""
        version = self.activity_version
        if version and version.activity_id == self.activity_id:
            return version
        return self.activity.current if self.activity else None


class NamedActivity(models.Model):
    """The version of an activity that runs by its name, where nothing is bound to a tool of an agent.

    It holds for all environments of the agent, and for all that is published of it, its sub-agents included.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", db_index=False)
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=150)
    activity_version = models.ForeignKey(ActivityVersion, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "tool", "name"], name="one_named_activity_per_tool")
        ]

    def __str__(self) -> str:
        return f"{self.name} for {self.tool} of {self.agent}"
