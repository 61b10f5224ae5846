"""Enumerations: one run is one row with its result, whatever happened."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import MD5, Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.vendors import Endpoint


class RunStatus(models.TextChoices):
    QUEUED = "queued", _("Waiting to start")
    RUNNING = "running", _("Reading")
    SUCCEEDED = "succeeded", _("Done")
    FAILED = "failed", _("Failed")


class RunState(models.TextChoices):
    """The state of a run on pages: its status, or held."""

    QUEUED = RunStatus.QUEUED.value, RunStatus.QUEUED.label
    RUNNING = RunStatus.RUNNING.value, RunStatus.RUNNING.label
    SUCCEEDED = RunStatus.SUCCEEDED.value, RunStatus.SUCCEEDED.label
    FAILED = RunStatus.FAILED.value, RunStatus.FAILED.label
    HELD = "held", _("Waiting for your decision")
    WAS_HELD = "was_held", _("Held back")


class Trigger(models.TextChoices):
    SCHEDULE = "schedule", _("On schedule")
    PERSON = "person", _("Started by a user")
    COMMAND = "command", _("Started from the command line")
    RUNTIME = "runtime", _("Requested by a runtime, one tool")


HELD_CODES = ("EMPTY_HELD", "SHRINK_HELD")  # the errors of a run that a person decides about
ACTIVE = [RunStatus.QUEUED, RunStatus.RUNNING]


WITH_CHANGES = (
    models.Q(added__gt=0) | models.Q(changed__gt=0) | models.Q(withdrawn__gt=0) | models.Q(returned__gt=0)
)


class RunQuerySet(models.QuerySet["Run"]):
    def with_changes(self) -> "RunQuerySet":
        return self.filter(WITH_CHANGES)

    def of_lists(self) -> "RunQuerySet":
        """Exclude runs of a single tool, which have no result for the other tools."""
        return self.exclude(trigger=Trigger.RUNTIME)


class Run(models.Model):
    """An enumeration run, or the read of a single changed tool (catalog/enumeration/one_tool.py).

    attempt: the fencing token. A worker may write only while it matches.
    would_withdraw: the number of missing tools in a held run. sent_at: when a worker was last woken.
    All times are those of the database.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(max_length=10, choices=RunStatus.choices, default=RunStatus.QUEUED)
    trigger = models.CharField(max_length=10, choices=Trigger.choices, default=Trigger.SCHEDULE)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    may_withdraw = models.PositiveIntegerField(
        null=True, help_text="A person has confirmed that up to this many tools may go."
    )
    attempt = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    queued_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)
    in_parts = models.BooleanField(
        default=False,
        db_default=False,
        db_column="put_aside",
        help_text="A part of it has been read, and it goes on among the slow runs.",
    )
    passes = models.JSONField(
        db_column="readings",
        default=list,
        db_default=models.Value([], output_field=models.JSONField()),
        help_text="A digest of what each whole pass over a list saw that seems to have changed meanwhile.",
    )
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    pages = models.PositiveIntegerField(default=0)
    seen = models.PositiveIntegerField(default=0)
    added = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    withdrawn = models.PositiveIntegerField(default=0)
    would_withdraw = models.PositiveIntegerField(default=0)
    returned = models.PositiveIntegerField(default=0)
    rejected = models.PositiveIntegerField(default=0)
    notes = models.JSONField(default=list)
    reached = models.JSONField(
        default=dict,
        db_default=models.Value({}, output_field=models.JSONField()),
        help_text="Private addresses that were dialled, and the deployment's entry that opens each.",
    )
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.TextField(blank=True)
    # The detected protocol of the address, if it differs from the endpoint's.
    spoken_protocol = models.CharField(max_length=20, blank=True, default="", db_default="")
    inspected = models.PositiveSmallIntegerField(
        default=0, help_text="The revision of the rules that its versions were inspected with."
    )
    inspecting = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="The revision of the inspection that has begun and has not ended."
    )
    inspected_through = models.BigIntegerField(
        default=0, db_default=0, help_text="The last version that this inspection has covered."
    )

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint"], condition=models.Q(status__in=ACTIVE), name="one_active_run_per_endpoint"
            ),
            models.CheckConstraint(condition=models.Q(status__in=RunStatus.values), name="run_status_known"),
        ]
        indexes = [
            models.Index(fields=["endpoint", "-id"], name="run_by_endpoint"),
            models.Index(fields=["endpoint", "-id"], condition=WITH_CHANGES, name="run_with_changes"),
            models.Index(fields=["-id"], condition=WITH_CHANGES, name="run_newest_with_changes"),
            models.Index(
                fields=["inspected", "id"],
                condition=models.Q(status="succeeded") & (models.Q(added__gt=0) | models.Q(changed__gt=0)),
                name="run_to_inspect",
            ),
        ]

    def __str__(self) -> str:
        return f"Run {self.pk}"

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def state(self) -> RunState:
        """The state that all pages and REST show. Reads the endpoint."""
        if self.status != RunStatus.FAILED:
            return RunState(self.status)
        if self.endpoint.held_run_id == self.pk:
            return RunState.HELD
        return RunState.WAS_HELD if self.error_code in HELD_CODES else RunState.FAILED

    @property
    def error(self) -> dict[str, str] | None:
        return {"code": self.error_code, "message": self.error_message} if self.error_code else None


class Rejection(models.Model):
    """An item of a run that could not be recorded, with the reason."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rejections")
    tool = models.CharField(max_length=300)
    code = models.CharField(max_length=40)
    reason = models.TextField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.tool}: {self.reason}"


class LastReply(models.Model):
    """The last exchange of a failed run, without secrets. `status`: 0 without a reply.

    The body has the first 64 KB as text. `catalog.enumeration` writes it and deletes older ones.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="last_reply")
    method = models.CharField(max_length=10)
    url = models.TextField()
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "last replies"

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


class Withdrawal(models.Model):
    """A tool that a complete run no longer found, until another run found it again."""

    tool = models.ForeignKey("catalog.Tool", on_delete=models.PROTECT, related_name="withdrawals")
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="withdrawals")
    returned_run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="returns")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["tool"], condition=models.Q(returned_run=None), name="one_open_withdrawal_per_tool"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool} withdrawn"


class KnownPage(models.Model):
    """A page as the last complete run read it, so that the same bytes are not parsed again.

    Only the transaction that records a run replaces it, so it always matches the catalog. reader: identifies
    endpoint, settings and credential. A reply to another request is not stored.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="known_pages")
    reader = models.CharField(max_length=40)
    cursor = models.TextField()
    next_cursor = models.TextField(null=True)  # noqa: DJ001 - "" is a cursor in some protocols, NULL is the end
    etag = models.TextField(blank=True)
    body_digest = models.CharField(max_length=64)
    tool_ids = ArrayField(models.TextField())

    class Meta:
        constraints = [
            # A cursor may be too long for an index.
            models.UniqueConstraint("endpoint", MD5("cursor"), name="one_known_page_per_cursor")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint} page {self.cursor or 'first'}"
