"""The followers of agents and tools, and the agents of webhooks."""

from django.db import models
from django.utils import timezone

from catalog.models import Tool
from catalog.notifications.models import Webhook
from designer.models.agents import Agent
from people.models import User


class Follow(models.Model):
    """A user follows an agent or a tool. Designers follow the agents that they edit without such a row; a row
    with `is_following` false ends that.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="follows")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.PROTECT, related_name="+")
    tool = models.ForeignKey(Tool, null=True, on_delete=models.PROTECT, related_name="+")
    is_following = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "agent"], name="one_follow_per_agent"),
            models.UniqueConstraint(fields=["user", "tool"], name="one_follow_per_tool"),
            models.CheckConstraint(
                condition=models.Q(agent=None) ^ models.Q(tool=None), name="follow_of_an_agent_or_of_a_tool"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent or self.tool} followed by {self.user}"


class WebhookAgent(models.Model):
    """One agent that is named for a webhook that is narrowed."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="named")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "agent"], name="one_naming_per_webhook"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} for {self.webhook}"
