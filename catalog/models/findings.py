"""Things a person should look at."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.runs import Run
from catalog.models.tools import Tool, ToolVersion
from catalog.models.vendors import Endpoint
from catalog.rules import causes


class Severity(models.TextChoices):
    LOW = "low", _("Low")
    MEDIUM = "medium", _("Medium")
    HIGH = "high", _("High")


class FindingState(models.TextChoices):
    """A noted finding waits for no decision: it is not severe, or its endpoint was removed."""

    OPEN = "open", _("Waiting for review")
    ACCEPTED = "accepted", _("Accepted")
    BLOCKED = "blocked", _("Blocked")
    NOTED = "noted", _("No decision needed")


# Means that the policy or a user has held or blocked a version; see `review.holds`.
HELD = "HELD"


# The order of lists: by severity, and the reason before the hold that it caused.
WEIGHT = models.Case(
    models.When(severity=Severity.HIGH.value, code=HELD, then=5),
    models.When(severity=Severity.HIGH.value, then=6),
    models.When(severity=Severity.MEDIUM.value, code=HELD, then=3),
    models.When(severity=Severity.MEDIUM.value, then=4),
    models.When(code=HELD, then=1),
    default=2,
    output_field=models.SmallIntegerField(),
)


class FindingQuerySet(models.QuerySet["Finding"]):
    def stopping(self) -> "FindingQuerySet":
        """Return the findings that hold or block their version."""
        is_held = models.Q(code=HELD) & ~models.Q(state=FindingState.ACCEPTED)
        return self.filter(is_held | models.Q(state=FindingState.BLOCKED))

    def waiting(self) -> "FindingQuerySet":
        """Return the findings that need a decision. Findings of low severity are notes."""
        return self.filter(state=FindingState.OPEN).exclude(severity=Severity.LOW)

    def refusing_pins(self) -> "FindingQuerySet":
        """Return the findings that forbid pinning their version: it is blocked, held, or has a waiting
        decision, whatever the policy of its endpoint accepts."""
        return self.stopping() | self.waiting()

    def weighed(self) -> "FindingQuerySet":
        """Annotate each row with its `weight`, and order them by weight and then by age, the newest first."""
        return self.annotate(weight=WEIGHT).order_by("-weight", "-pk")

    def of_cause(self, cause: str) -> "FindingQuerySet":
        if cause == causes.OTHER:
            return self.exclude(code__in=causes.KNOWN_CODES)
        return self.filter(code__in=causes.codes_of(cause))

    def together(self) -> "FindingQuerySet":
        """Return the findings in the same state about the same bytes as the finding of the outer query."""
        outer = {name: models.OuterRef(name) for name in ("tool", "subject", "state")}
        return self.filter(**outer)

    def decisions(self) -> "FindingQuerySet":
        """Return one finding for each decision: the most severe of those that belong together.

        Its decision covers the others, because they are not more severe.
        """
        heavier = models.Q(weight__gt=models.OuterRef("weight")) | models.Q(
            weight=models.OuterRef("weight"), pk__gt=models.OuterRef("pk")
        )
        others = Finding.objects.together().alias(weight=WEIGHT).filter(heavier)
        return self.alias(weight=WEIGHT).filter(~models.Exists(others))


class Finding(models.Model):
    """It is raised once for its subject, even if the same run is recorded twice.

    `subject` identifies it: the digest of the bytes, or the reused label. `against` is the version with which
    `version` was compared when it was raised.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="findings")
    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="findings")
    version = models.ForeignKey(ToolVersion, null=True, on_delete=models.PROTECT, related_name="findings")
    against = models.ForeignKey(
        ToolVersion,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,  # it would help to delete versions, and none is ever deleted
    )
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="findings")
    code = models.CharField(max_length=40)
    severity = models.CharField(max_length=10, choices=Severity.choices)
    subject = models.CharField(max_length=100)
    message = models.TextField()
    state = models.CharField(max_length=10, choices=FindingState.choices, default=FindingState.OPEN)
    note = models.TextField(blank=True)
    raised_at = models.DateTimeField(default=timezone.now)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = FindingQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["tool", "code", "subject"], name="one_finding_per_subject")
        ]
        indexes = [
            models.Index(fields=["-id"], condition=models.Q(state="open"), name="finding_open"),
            models.Index(WEIGHT.desc(), models.F("id").desc(), name="finding_by_weight"),
        ]

    def __str__(self) -> str:
        return self.message


class WaitingDecision(models.Model):
    """A decision that waits in the review: the heaviest open finding about the same bytes of a tool.

    Triggers on findings write these rows (migration 0078), so that counts and pages of the review read one
    small index. `FindingQuerySet.decisions` finds the same rows among all findings.
    """

    finding = models.OneToOneField(Finding, on_delete=models.CASCADE, related_name="waiting_decision")
    tool = models.ForeignKey(
        Tool, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    subject = models.CharField(max_length=100)
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False
    )
    severity = models.CharField(max_length=10, choices=Severity.choices)
    code = models.CharField(max_length=40)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tool", "subject"], name="one_waiting_decision_per_subject")
        ]
        indexes = [
            models.Index(fields=["endpoint", "severity", "code", "finding"], name="waiting_decision_groups")
        ]

    def __str__(self) -> str:
        return str(self.finding)


class Likeness(models.Model):
    """Hashes of a tool's name. `spelling`: of the name without its style. `skeleton`: of its appearance."""

    tool = models.OneToOneField(Tool, on_delete=models.CASCADE, primary_key=True, related_name="likeness")
    spelling = models.BigIntegerField()
    skeleton = models.BigIntegerField(db_index=True)

    def __str__(self) -> str:
        return str(self.tool)
