"""The content of an agent: pins of tool versions, and their tuned texts."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models import Configuration, Tool, ToolVersion
from catalog.models.tools import ItemKind
from designer.models.agents import Agent
from people.models import User


class PinQuerySet(models.QuerySet["Pin"]):
    def live(self) -> "PinQuerySet":
        return self.filter(removed_at=None, agent__removed_at=None)

    def of_tools(self) -> "PinQuerySet":
        """Return the pins of tools, without those of prompts and resources."""
        return self.filter(tool__kind=ItemKind.TOOL)

    def active(self) -> "PinQuerySet":
        return self.live().filter(agent__archived_at=None)

    def visible_to(self, user: User) -> "PinQuerySet":
        return self if user.can_administer else self.filter(agent__in=Agent.objects.visible_to(user))


class PinMode(models.TextChoices):
    """The signature that a runtime sees: the pinned one, or the current one."""

    CACHED = "cached", _("The signature of the release")
    FRESH = "fresh", _("The vendor's, while it only adds to that of the release")


class Pin(models.Model):
    """An agent's choice of one version of one tool, prompt or resource. Only a user moves it.

    alias: the name that the designer chose, "" for none.
    name: the name for models: the alias, or a legal name derived from the vendor's, unique within the agent
    in any case.
    retry: the retry policy of this tool alone (catalog/rules/retries.py).
    mode: whether runtimes may see inputs and outputs that the vendor has added since.
    configuration: if set, every call uses its values, and a model does not see that input.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="pins")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="pins")
    version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="pins")
    alias = models.CharField(_("Name for the model"), max_length=64, blank=True)
    name = models.CharField(max_length=64)
    retry = models.JSONField(default=dict, db_default={})
    mode = models.CharField(
        _("When the vendor changes the tool"),
        max_length=6,
        choices=PinMode.choices,
        default=PinMode.CACHED,
        db_default=PinMode.CACHED,
    )
    configuration = models.ForeignKey(
        Configuration, null=True, on_delete=models.PROTECT, related_name="pins", db_index=False
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    # How many newer versions the tool has; set by `pending_work.with_newer`.
    newer: int

    objects = PinQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "tool"], condition=models.Q(removed_at=None), name="one_pin_per_tool"
            ),
            models.UniqueConstraint(
                "agent", Lower("name"), condition=models.Q(removed_at=None), name="one_pin_per_name"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} in {self.agent}"


class Tuning(models.Model):
    """Tuned texts that replace the vendor's: for one pin, or for a tool wherever it is pinned.

    None keeps the vendor's text. `parameters`, `outputs` and `effects` are members of `Words`
    (designer/signatures/words.py). `replaced` has the same form and stores the vendor's texts when each tuned
    text was written; `against` is the version that was tuned last. Enumeration does not write tunings.
    """

    pin = models.OneToOneField(Pin, null=True, on_delete=models.PROTECT, related_name="tuning")
    tool = models.OneToOneField(Tool, null=True, on_delete=models.PROTECT, related_name="tuning")
    description = models.TextField(null=True)  # noqa: DJ001 - "" is a text of its own, NULL is the vendor's
    title = models.TextField(null=True)  # noqa: DJ001 - as above
    parameters = models.JSONField(default=dict)
    outputs = models.JSONField(default=dict, db_default={})
    effects = models.JSONField(default=dict, db_default={})
    replaced = models.JSONField(default=dict, db_default={})
    against = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="+")
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(pin=None) ^ models.Q(tool=None), name="tuning_of_a_pin_or_of_a_tool"
            )
        ]

    def __str__(self) -> str:
        return f"Tuning of {self.pin or self.tool}"
