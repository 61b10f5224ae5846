"""Threads at vendors' agents: the state that one run leaves for the next."""

import uuid
from typing import TypeVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from catalog.models.tools import Tool, ToolVersion
from people import audit
from people.models import ApiKey, User

Row = TypeVar("Row", bound=models.Model)


class MadeInTeams(models.QuerySet[Row]):
    """Rows of runtimes, which have an `agent`, and rows of users who try a tool, which have none.

    trial_agent: the lookup of the agent that a trial belongs to, if the rows have one.
    """

    trial_agent = ""

    def visible_to(self, user: User) -> "MadeInTeams[Row]":
        """Return the rows of agents of the user's teams, and the trials of the user.

        Inputs and outcomes may contain anything, so a trial outside of all agents is visible to nobody else.
        Administrators see all rows.
        """
        if user.can_administer:
            return self
        visible_agents = audit.agents_seen_by(user)
        trials = Q(requested_by=user)
        if self.trial_agent:
            trials |= Q(**{f"{self.trial_agent}__in": visible_agents})
        return self.filter(Q(agent__in=visible_agents) | (Q(agent=None) & trials))


class ThreadStatus(models.TextChoices):
    """The status that the vendor reports."""

    IDLE = "idle", _("Idle")
    BUSY = "busy", _("Busy")
    INTERRUPTED = "interrupted", _("Waits for an answer")
    ERROR = "error", _("Failed")


class Thread(models.Model):
    """A thread at a vendor, and its owner.

    key: the id for callers, who may choose it, unique within the agent or within a user's trials. The vendor
    is asked to use an id that is derived from it. remote_id: the vendor's id. A thread of an ACP client
    has no `tool`, `version` and `remote_id` before its first run. agent, release, sub_agent, api_key: as
    for a call. status: as last reported; only the vendor has the contents.
    """

    key = models.UUIDField(default=uuid.uuid4, editable=False)
    tool = models.ForeignKey(Tool, null=True, on_delete=models.PROTECT, related_name="threads")
    version = models.ForeignKey(ToolVersion, null=True, on_delete=models.PROTECT, related_name="+")
    agent = models.BigIntegerField(null=True, db_index=True)
    release = models.PositiveIntegerField(null=True)
    sub_agent = models.CharField(max_length=60, blank=True)
    api_key = models.ForeignKey(ApiKey, null=True, on_delete=models.SET_NULL, related_name="+")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    requested_name = models.CharField(max_length=150)
    remote_id = models.CharField(max_length=255, blank=True)
    metadata = models.JSONField(default=dict)
    status = models.CharField(max_length=12, choices=ThreadStatus.choices, default=ThreadStatus.IDLE)
    created_at = models.DateTimeField(db_default=Now())
    used_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    objects = MadeInTeams["Thread"].as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=ThreadStatus.values), name="thread_status_known"
            ),
            models.UniqueConstraint(
                fields=["agent", "key"],
                condition=models.Q(agent__isnull=False),
                name="one_thread_per_key_in_agent",
            ),
            models.UniqueConstraint(
                fields=["requested_by", "key"],
                condition=models.Q(agent__isnull=True),
                name="one_tried_thread_per_key",
            ),
        ]

    def __str__(self) -> str:
        return f"Thread {str(self.key)[:8]}"

    def was_started_by(self, key: ApiKey | None) -> bool:
        """Return whether this key may read sensitive values of the thread. Nobody else may, as for a call."""
        return key is not None and self.api_key_id == key.pk
