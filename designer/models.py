"""What our people decided (agents, pins, tunings) and what was published (releases)."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models.expressions import RawSQL
from django.db.models.functions import Lower
from django.utils import timezone

from catalog.models import Tool, ToolVersion
from core.encryption import EncryptedField, KeyIdField
from people.models import ApiToken, Team, User, everyone_pk, teams_of

# The agents that are named for a key; for querysets and for queries whose text is constant.
AGENTS_OF_KEY = "SELECT agent_id FROM designer_keyagent WHERE token_id = %s"

# The one row of its table.
PUBLISHING_KEY = UUID("5ea1ed00-0000-4000-8000-000000000002")


class AgentQuerySet(models.QuerySet["Agent"]):
    def live(self) -> "AgentQuerySet":
        return self.filter(removed_at=None)

    def visible_to(self, user: User, key: ApiToken | None = None) -> "AgentQuerySet":
        """Those of the user's teams; an administrator sees all. With a key that is narrowed, only the agents
        named for it. Nothing else decides who sees an agent.
        """
        rows = self if user.can_administer else self.filter(team__in=teams_of(user))
        if key is None or not key.is_narrowed:
            return rows
        return rows.filter(pk__in=RawSQL(AGENTS_OF_KEY, [key.pk]))  # noqa: S611 - constant text

    def with_counts(self) -> "AgentQuerySet":
        """Each with `pin_count`, and `last_release`: the number of its newest one, None before the first."""
        newest = Release.objects.filter(agent=models.OuterRef("pk")).order_by("-number")
        return self.annotate(
            pin_count=models.Count("pins", filter=models.Q(pins__removed_at=None)),
            last_release=models.Subquery(newest.values("number")[:1]),
        )


class Agent(models.Model):
    """What a designer builds. A sub-agent is an agent with a parent, and of its parent's team."""

    slug = models.SlugField(max_length=60)
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    team = models.ForeignKey(Team, on_delete=models.PROTECT, default=everyone_pk, related_name="agents")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    # Whether publishing now would write something else than the newest release; set by `releases.drafts`.
    is_changed: bool

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug"], condition=models.Q(removed_at=None), name="one_live_agent_per_slug"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Draft(models.Model):
    """Whether an agent differs from its newest release, as found for what `made_of` is the digest of."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="+")
    made_of = models.CharField(max_length=32)
    is_changed = models.BooleanField()

    def __str__(self) -> str:
        return f"Draft of {self.agent}"


class AgentAddress(models.Model):
    """An address of an agent's: for ever if something was published at it (`is_held`), else until another
    agent takes it. `left_at` says since when it leads to another address."""

    slug = models.SlugField(max_length=60, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="addresses")
    left_at = models.DateTimeField(null=True)
    is_held = models.BooleanField(default=True, db_default=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.slug} of {self.agent}"


class KeyAgent(models.Model):
    """One agent that is named for a narrowed key. It follows the agent, whatever its address becomes."""

    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, related_name="named")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["token", "agent"], name="one_naming_per_agent")]

    def __str__(self) -> str:
        return f"{self.agent} for {self.token}"


class PinQuerySet(models.QuerySet["Pin"]):
    def live(self) -> "PinQuerySet":
        return self.filter(removed_at=None, agent__removed_at=None)

    def visible_to(self, user: User) -> "PinQuerySet":
        return self if user.can_administer else self.filter(agent__in=Agent.objects.visible_to(user))


class Pin(models.Model):
    """An agent's choice of one version of one tool. Nothing but a person moves it.

    `alias` is the name the designer chose ("" = none); `name` is the one a model is shown: the
    alias, or a legal name derived from the vendor's, unique within the agent whatever its case.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="pins")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="pins")
    version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="pins")
    alias = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=64)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

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
    """Our words in place of the vendor's: for one pin, or for a tool wherever it is pinned.

    `description` None keeps the vendor's. `parameters` maps the vendor's parameter name to
    {"description"?, "hidden"?, "preset"?}. `against` is the version whose text was being replaced.
    """

    pin = models.OneToOneField(Pin, null=True, on_delete=models.PROTECT, related_name="tuning")
    tool = models.OneToOneField(Tool, null=True, on_delete=models.PROTECT, related_name="tuning")
    description = models.TextField(null=True)  # noqa: DJ001 - "" is a text of its own, NULL is the vendor's
    parameters = models.JSONField(default=dict)
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


class Release(models.Model):
    """A published snapshot of an agent: a trigger refuses UPDATE and DELETE.

    `document` is the whole release as canonical JSON, `digest` its SHA-256 in hex. `proof` says that it was
    published (designer/releases/proofs.py); it is empty in releases that are older than that.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="releases")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    document = models.TextField()
    tool_count = models.PositiveIntegerField()
    proof = models.CharField(max_length=64, blank=True, default="", db_default="")
    note = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    written: list[str]  # put there by designer.releases.publishing.find

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="one_release_per_number")]

    def __str__(self) -> str:
        return f"{self.agent} release {self.number}"


class Export(models.Model):
    """One release in one format, as it was first written; the same bytes ever after (trigger as above)."""

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="exports")
    format = models.CharField(max_length=30)
    body = models.BinaryField()
    proof = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["release", "format"], name="one_export_per_format")]

    def __str__(self) -> str:
        return f"{self.release} as {self.format}"

    def as_bytes(self) -> bytes:
        body: Any = self.body
        return bytes(body)


class PublishingKey(models.Model):
    """What publishing proves its rows with: one row, made when it is first needed. See `releases.proofs`."""

    id = models.UUIDField(primary_key=True, default=PUBLISHING_KEY, editable=False)
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")

    def __str__(self) -> str:
        return "the publishing key"
