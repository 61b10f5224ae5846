"""Agents, their addresses and the API keys that name them."""

from django.conf import settings
from django.db import models
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models import Vendor
from core import slugs
from people.models import ApiKey, Team, User, everyone_pk, teams_of

MAX_NAME_LENGTH = 120
MAX_DESCRIPTION_LENGTH = 4_000
# The agents that are named for a key; for querysets and for queries whose text is constant.
AGENTS_OF_KEY = "SELECT agent_id FROM designer_keyagent WHERE token_id = %s"


class AgentQuerySet(models.QuerySet["Agent"]):
    def live(self) -> "AgentQuerySet":
        return self.filter(removed_at=None)

    def active(self) -> "AgentQuerySet":
        """Return the agents that designers work on: neither deleted nor archived."""
        return self.live().filter(archived_at=None)

    def visible_to(self, user: User, key: ApiKey | None = None) -> "AgentQuerySet":
        """Return the agents of the user's teams; an administrator sees all. With a limited key, only the
        agents named for it. No other rule decides who sees an agent.
        """
        rows = self if user.can_administer else self.filter(team__in=teams_of(user))
        if key is None or not key.is_narrowed:
            return rows
        return rows.filter(pk__in=RawSQL(AGENTS_OF_KEY, [key.pk]))  # noqa: S611 - constant text

    def with_counts(self) -> "AgentQuerySet":
        """Annotate each agent with `pin_count` and with `last_release`, the newest number or None."""
        # Subqueries, because grouping the rows makes the server sort them with all of their columns.
        this = Agent.objects.filter(pk=models.OuterRef("pk")).order_by()
        pinned = this.filter(pins__removed_at=None).values("pk").annotate(count=models.Count("pins"))
        newest = this.order_by("-releases__number")
        return self.annotate(  # type: ignore[no-redef] # declared by Agent
            pin_count=Coalesce(models.Subquery(pinned.values("count")), 0),
            last_release=models.Subquery(newest.values("releases__number")[:1]),
        )


class Agent(models.Model):
    """An agent that a designer builds. A sub-agent has a parent, and belongs to its parent's team."""

    slug = models.SlugField(
        _("Address"), max_length=slugs.MAX_LENGTH, help_text=_("If empty, it is created from the name.")
    )
    name = models.CharField(_("Name"), max_length=MAX_NAME_LENGTH)
    description = models.TextField(
        _("Description"),
        max_length=MAX_DESCRIPTION_LENGTH,
        blank=True,
        help_text=_("What this agent is for."),
    )
    parent = models.ForeignKey(
        "self",
        verbose_name=_("Sub-agent of"),
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="children",
    )
    team = models.ForeignKey(
        Team,
        verbose_name=_("Team"),
        on_delete=models.PROTECT,
        default=everyone_pk,
        related_name="agents",
        help_text=_("Members see and edit this agent. A sub-agent has its parent's team."),
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)
    # The same moment for all that were archived together, so that they come back together.
    archived_at = models.DateTimeField(null=True, blank=True)
    # True if it may use only the vendors in AgentVendor.
    limits_vendors = models.BooleanField(default=False, db_default=False)
    # The retry policy of its tools (catalog/rules/retries.py).
    retry = models.JSONField(default=dict, db_default={})

    # Releases up to this number may be in use although this database does not contain them: it was restored
    # from a backup (pegboard/ops/newer_facts.py). No number is given a second time.
    numbers_used = models.PositiveIntegerField(default=0, db_default=0)

    # The number of its newest release; set by `with_counts`.
    last_release: int | None

    # Set by `with_counts`.
    pin_count: int
    # True if publishing now would write something else than the newest release; set by `releases.drafts`.
    is_changed: bool
    # Slugs of vendors, None for all: those named for it, and those that it may use; set by `agent_vendors`.
    vendors: list[str] | None
    usable_vendors: list[str] | None

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


class AgentVendor(models.Model):
    """One vendor that is named for an agent which `limits_vendors`."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="named_vendors")
    vendor = models.ForeignKey(Vendor, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["agent", "vendor"], name="one_naming_per_vendor")]

    def __str__(self) -> str:
        return f"{self.vendor} for {self.agent}"


class TransferQuerySet(models.QuerySet["Transfer"]):
    def live(self) -> "TransferQuerySet":
        return self.filter(agent__removed_at=None, child__removed_at=None)


class Transfer(models.Model):
    """The transfer of an agent to one of its sub-agents: one for each (designer/agents/transfers.py).

    `alias` is the name that a designer chose, empty for the default; `name` is the one that a model is shown.
    An empty `description` means the default too.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="transfers")
    child = models.OneToOneField(Agent, on_delete=models.PROTECT, related_name="transfer")
    alias = models.CharField(_("Name for the model"), max_length=64, blank=True)
    name = models.CharField(max_length=64)
    description = models.TextField(
        _("When to transfer"),
        max_length=MAX_DESCRIPTION_LENGTH,
        blank=True,
        help_text=_(
            "The model reads this with the tools. If empty, it reads the first sentence about the sub-agent."
        ),
    )
    updated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    updated_at = models.DateTimeField(default=timezone.now)

    objects = TransferQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint("agent", Lower("name"), name="one_transfer_per_name")]

    def __str__(self) -> str:
        return f"{self.name} of {self.agent}"


class AgentAddress(models.Model):
    """An address of an agent: forever if something was published there (`is_held`), else until another agent
    uses it. `left_at`: since when it redirects to another address.
    """

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

    api_key = models.ForeignKey(ApiKey, db_column="token_id", on_delete=models.CASCADE, related_name="named")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["api_key", "agent"], name="one_naming_per_agent")]

    def __str__(self) -> str:
        return f"{self.agent} for {self.api_key}"
