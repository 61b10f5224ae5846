"""Procedures: texts that state when and how an agent uses its tools."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models import ToolVersion
from designer.models.agents import Agent
from designer.models.pins import Pin
from people.models import User

MAX_TITLE_LENGTH = 120
MAX_REASON_LENGTH = 500


class ProcedureQuerySet(models.QuerySet["Procedure"]):
    def live(self) -> "ProcedureQuerySet":
        return self.filter(removed_at=None, agent__removed_at=None)

    def visible_to(self, user: User) -> "ProcedureQuerySet":
        return self if user.can_administer else self.filter(agent__in=Agent.objects.visible_to(user))


class Procedure(models.Model):
    """An operating procedure of an agent.

    `text` is markdown with references by identity (designer/procedures/references.py): that of the newest
    version, which is number `number`. `position` orders the procedures of an agent from 1.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="procedures")
    slug = models.SlugField(max_length=60)
    title = models.CharField(
        _("Title"),
        max_length=MAX_TITLE_LENGTH,
        help_text=_("What it is for, in a few words: “Refill a prescription”."),
    )
    text = models.TextField(_("Text"), blank=True)
    number = models.PositiveIntegerField(default=1)
    position = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    updated_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = ProcedureQuerySet.as_manager()

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "slug"],
                condition=models.Q(removed_at=None),
                name="one_live_procedure_per_slug",
            )
        ]

    def __str__(self) -> str:
        return self.title


class ProcedureVersion(models.Model):
    """A text as it was saved once: a trigger refuses UPDATE and DELETE."""

    procedure = models.ForeignKey(Procedure, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=120)
    text = models.TextField(blank=True)
    why = models.CharField(_("Note for the history"), max_length=MAX_REASON_LENGTH, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["procedure", "number"], name="one_procedure_version_per_number")
        ]

    def __str__(self) -> str:
        return f"{self.procedure} version {self.number}"


class ProcedureDraft(models.Model):
    """The text of one user that is not saved yet.

    based_on: the version that the user started from.
    pins_made: the tools that the user pinned from the editor while writing this text.
    """

    procedure = models.ForeignKey(Procedure, on_delete=models.CASCADE, related_name="drafts")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    title = models.CharField(max_length=120)
    text = models.TextField(blank=True)
    based_on = models.PositiveIntegerField()
    pins_made = models.ManyToManyField(Pin, related_name="+")
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-saved_at"]
        constraints = [
            models.UniqueConstraint(fields=["procedure", "user"], name="one_draft_per_procedure_and_user")
        ]

    def __str__(self) -> str:
        return f"Draft of {self.procedure} by {self.user}"


class ProcedureReference(models.Model):
    """A reference in the text of a procedure as it is now, to be found from the tool or agent it names.

    `line` counts from 1 and `column` from 0, in the text as it is shown. `member` is the id of the input or
    output, or the name of the item. `version` is the one that the tool was pinned to when a user last saved
    the text.
    """

    procedure = models.ForeignKey(Procedure, on_delete=models.CASCADE, related_name="references")
    line = models.PositiveIntegerField()
    column = models.PositiveIntegerField()
    kind = models.CharField(max_length=10)
    pin = models.ForeignKey(Pin, null=True, on_delete=models.PROTECT, related_name="references")
    agent = models.ForeignKey(Agent, null=True, on_delete=models.PROTECT, related_name="references")
    version = models.ForeignKey(
        ToolVersion, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    member = models.TextField(blank=True)

    class Meta:
        ordering = ["procedure", "line", "column", "id"]

    def __str__(self) -> str:
        return f"{self.kind} in {self.procedure}, line {self.line}"
