"""Where an agent runs, and what answers for its tools there."""

from typing import NamedTuple

from django.db import models
from django.utils import timezone

from catalog.models import Activity, Tool
from designer.models.agents import Agent


class Environment(models.Model):
    """A place that an agent runs in, such as `production` or `test`, with what runs for its tools there.

    It holds for all that is published of the agent, its sub-agents included. The default one is that of
    callers who name none.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="environments")
    name = models.CharField(max_length=30)
    is_default = models.BooleanField(default=False)
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


class Place(NamedTuple):
    """An environment as a call needs it."""

    pk: int
    name: str
    is_default: bool

    @classmethod
    def read(cls, text: str) -> "Place":
        """As a statement writes it that has other things to read."""
        pk, is_default, name = text.split(" ")
        return cls(int(pk), name, is_default == "true")


class Binding(models.Model):
    """What runs for a tool in an environment, whatever else would. Without an `activity` it is latent: the
    model answers itself."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="bindings")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="+")
    activity = models.ForeignKey(Activity, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["environment", "tool"], name="one_binding_per_tool")]

    def __str__(self) -> str:
        return f"{self.tool} in {self.environment}"
