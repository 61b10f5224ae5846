"""Tools run by people and by runtimes of agents: one call is one row, from the request to its outcome."""

import uuid
from typing import Any, get_args

import msgspec
from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _

from catalog.models.activities import ActivityVersion
from catalog.models.threads import MadeInTeams, Thread
from catalog.models.tools import Tool, ToolVersion
from catalog.rules.retries import RetryTerms
from people.models import ApiKey, Membership, User
from protocols.call_outcome import OutcomeKind

OUTCOMES: tuple[str, ...] = get_args(OutcomeKind)


class CallStatus(models.TextChoices):
    QUEUED = "queued", _("Waiting for a worker")
    RUNNING = "running", _("Running")
    FINISHED = "finished", _("Done")


class Mode(models.TextChoices):
    """The way in which a call runs. `wait`: in the process that received it. The others run in a worker, for
    up to a day."""

    WAIT = "wait", _("While the caller waits")
    ASYNC = "async", _("In the background")
    STREAM = "stream", _("Streamed")


ACTIVE_CALLS = [CallStatus.QUEUED, CallStatus.RUNNING]
MAX_CALLER_NAME_LENGTH = 150


def caller_name(actor: User, key: ApiKey | None) -> str:
    """Return the name of the user who sends a call, with that of the API key."""
    return (f"{actor}, key {key.name}" if key else str(actor))[:MAX_CALLER_NAME_LENGTH]


class RecordedExchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request and its reply, with limits and without the credential. `status` 0: no reply."""

    method: str
    url: str
    headers: dict[str, str] = {}
    body: str = ""
    status: int = 0
    reply_headers: dict[str, str] = {}
    reply: str = ""
    duration_ms: int = 0


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt of a call, after `waited_ms`."""

    outcome: str
    code: str = ""
    message: str = ""
    waited_ms: int = 0
    duration_ms: int = 0
    exchanges: list[RecordedExchange] = []


class StoredQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question, as in `protocols.call_outcome.Ask`. `request` is for the calling program."""

    id: str
    message: str
    schema: dict[str, Any] | None = None
    url: str = ""
    request: dict[str, Any] | None = None


class Retry(msgspec.Struct, frozen=True):
    """The conditions under which the same call may be sent again, and a hint for the model.

    is_transient: the failure is expected to pass by itself.
    """

    can_retry: bool
    after_ms: int | None
    is_transient: bool
    hint: str


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a call, with limits. `cut`: the beginning of outputs that were too long to store.

    `whole_output` and `vendor_duration_ms`: as in `Outcome`.
    """

    outputs: dict[str, Any] = {}
    parsed: dict[str, Any] = {}
    whole_output: str = ""
    cut: str = ""
    error: dict[str, Any] | None = None
    retry: Retry | None = None
    notes: list[dict[str, str]] = []
    asks: list[StoredQuestion] = []
    resume: dict[str, Any] | None = None
    attempts: list[Attempt] = []
    vendor_duration_ms: int | None = None


class CallQuerySet(MadeInTeams["Call"]):
    """Calls of tools. A call that tries the mock of an agent belongs to that agent."""

    trial_agent = "activity__activity__agent"


class ExampleQuerySet(models.QuerySet["Example"]):
    def visible_to(self, user: User) -> "ExampleQuerySet":
        """Return the examples that the user or a teammate has saved; all of them for an administrator.

        The team of all users does not count, because inputs may contain anything.
        """
        if user.can_administer:
            return self
        teams = Membership.objects.filter(user=user).values("team")
        teammates = Membership.objects.filter(user=OuterRef("created_by"), team__in=teams)
        return self.filter(Q(created_by=user) | Q(Exists(teammates)))


# Columns that a call has in common with its continuation.
_INHERITED = (
    *("tool", "version", "arguments", "reasoning", "deadline_seconds", "on_behalf_of", "retry", "site"),
    *("thread", "activity", "environment"),
)


class Call(models.Model):
    """A call of one version. `queued` becomes `running` once, so it is sent at most once.

    The row of a call that a program waits for is `running` at once, and the process that created it executes
    it.
    In that process:
    is_ours: it executes the call. has_id: the caller gave the call an id.
    steps_made: the number of steps so far, at all depths.
    calls_back: the recipient of the callback, until it is stored. runtime: in whose name the program calls.
    extends_with_progress: each sign of progress restarts the deadline.

    Columns:
    site: Pegboard's address as the caller knows it, for links.
    key: identifies repeated requests. It is unique across teams, so Pegboard derives it from the owner of the
    call (execution/calls/call_keys.py). idempotency_key: the id that the client has chosen, or null.
    gives_up_at: when its current state must have ended. A worker renews it as a short lease while it executes
    a call.
    continues: the call whose questions this one answers.
    agent, release: the agent and the release number for a runtime, with `api_key`. No foreign keys, because
    agents belong to a higher layer. sub_agent: the slug of the sub-agent that offers the tool, "" for the
    agent.
    first_key: the id of the key that started the call which this one continues or is a step of, where that is
    not `api_key`; 0 if a user started it. Null for all other calls.
    on_behalf_of: the digest of an end user (catalog/models/user_grants.py). resumes_when_granted: the call
    continues by itself when the user has authorized it.
    reasoning: the model's reason for the call. mark: identifies the run for an ACP client
    (`metadata.call_id`), and the call for an MCP client that cancels it.
    retry: the `Terms` of the call, empty for old calls.
    remote_run: the id of the run at a vendor that keeps runs. If its worker dies, the next one continues the
    run. The outcome of any other call of a dead worker is unknown. thread: its calls run one after the other.
    activity: runs instead of the vendor of `tool`, chosen by the agent's `environment`.
    parent: the call whose activity has this call as a step.
    removed_at: its caller has deleted it, so served protocols do not show it any more.
    """

    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="calls", db_index=False)
    version = models.ForeignKey(ToolVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    idempotency_key = models.CharField(max_length=255, null=True)  # noqa: DJ001 - most calls have none
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    requested_name = models.CharField(max_length=MAX_CALLER_NAME_LENGTH)
    api_key = models.ForeignKey(
        ApiKey, db_column="token_id", null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    first_key = models.BigIntegerField(null=True)
    agent = models.BigIntegerField(null=True)
    release = models.PositiveIntegerField(null=True)
    sub_agent = models.CharField(max_length=60, blank=True, default="", db_default="")
    arguments = models.JSONField(default=dict)
    reasoning = models.TextField(blank=True, default="", db_default="")
    mark = models.CharField(max_length=255, blank=True, default="", db_default="")
    continues = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="continued_by")
    answers = models.JSONField(default=dict)
    on_behalf_of = models.CharField(max_length=64, blank=True, default="", db_default="")
    resumes_when_granted = models.BooleanField(default=False, db_default=False)
    mode = models.CharField(max_length=10, choices=Mode.choices, default=Mode.WAIT, db_default=Mode.WAIT)
    remote_run = models.CharField(max_length=255, blank=True, default="", db_default="")
    thread = models.ForeignKey(
        Thread, null=True, on_delete=models.PROTECT, related_name="calls", db_index=False
    )
    activity = models.ForeignKey(
        ActivityVersion, null=True, on_delete=models.PROTECT, related_name="calls", db_index=False
    )
    environment = models.CharField(max_length=60, blank=True, default="", db_default="")
    parent = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="steps", db_index=False
    )
    deadline_seconds = models.PositiveIntegerField(default=30)
    retry = models.JSONField(default=dict, db_default={})
    status = models.CharField(max_length=10, choices=CallStatus.choices, default=CallStatus.QUEUED)
    queued_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    gives_up_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=24, blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    duration_ms = models.PositiveIntegerField(null=True)
    result = models.TextField(blank=True)
    site = models.TextField(blank=True, default="", db_default="")
    removed_at = models.DateTimeField(null=True)

    is_ours = False
    is_taken_up = False
    extends_with_progress = False
    has_id = False
    steps_made = 0
    calls_back: Any = None
    runtime: Any = None

    objects = CallQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=CallStatus.values), name="call_status_known"
            ),
            models.CheckConstraint(
                condition=models.Q(outcome__in=["", *OUTCOMES]), name="call_outcome_known"
            ),
            models.UniqueConstraint(
                fields=["continues"],
                condition=models.Q(status__in=ACTIVE_CALLS),
                name="one_active_continuation_per_call",
            ),
        ]
        indexes = [
            models.Index(fields=["tool", "-id"], name="call_by_tool"),
            models.Index(
                fields=["gives_up_at"], condition=models.Q(status__in=ACTIVE_CALLS), name="call_active"
            ),
            # For claims of an owner's oldest call (execution/calls/queue.py).
            models.Index(
                Coalesce("api_key", models.F("requested_by") * models.Value(-1), models.Value(0)),
                "queued_at",
                "id",
                condition=models.Q(status=CallStatus.QUEUED),
                name="call_by_owner",
            ),
            models.Index(
                fields=["gives_up_at"],
                condition=models.Q(status=CallStatus.RUNNING, sent_at__isnull=False),
                name="call_at_worker",
            ),
            # Counted before each call, of which there may have been many.
            models.Index(
                fields=["requested_by"],
                condition=models.Q(status__in=ACTIVE_CALLS, parent__isnull=True),
                name="call_under_way",
            ),
            models.Index(
                fields=["agent", "on_behalf_of"],
                condition=models.Q(resumes_when_granted=True),
                name="call_resumes",
            ),
            models.Index(
                fields=["thread", "-id"], condition=models.Q(thread__isnull=False), name="call_by_thread"
            ),
            models.Index(
                fields=["activity", "-id"],
                condition=models.Q(activity__isnull=False),
                name="call_by_activity",
            ),
            models.Index(
                fields=["idempotency_key", "-id"],
                condition=models.Q(idempotency_key__isnull=False),
                name="call_by_idempotency_key",
            ),
            # For the chart of a release.
            models.Index(
                fields=["agent", "release", "-id"],
                condition=models.Q(agent__isnull=False),
                name="call_by_release",
            ),
            models.Index(fields=["parent"], condition=models.Q(parent__isnull=False), name="call_by_parent"),
        ]

    def __str__(self) -> str:
        return f"Call {self.pk}"

    @property
    def starter(self) -> int:
        """The id of the key that started this call, or the one that it continues or is a step of; 0 for a
        user."""
        return (self.api_key_id or 0) if self.first_key is None else self.first_key

    def continuation(self, **columns: Any) -> "Call":
        """Return an unsaved call that continues this one, with its tool, inputs and settings."""
        return Call(continues=self, **{name: getattr(self, name) for name in _INHERITED}, **columns)

    def inherit_starter(self) -> None:
        origin = self.continues or self.parent
        if origin and origin.starter != self.starter:
            self.first_key = origin.starter

    def was_started_by(self, key: ApiKey | None) -> bool:
        """Return whether this key may read sensitive values of the call.

        A continuation and a step repeat values of the call before them, so the key that sent them may be
        another one. Users get masks, whatever their team; one who may see the call reads the values on
        request, which is audited.
        """
        return key is not None and self.starter == key.pk

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE_CALLS

    @property
    def may_have_been_sent(self) -> bool:
        """Return whether a part of a call that has ended may have reached its vendor."""
        is_known = self.outcome in ("refused", "needs_authorization") or self.error_code == "NO_WORKER"
        if not is_known or self.decoded().attempts:
            return True
        return self.activity_id is not None and any(step.may_have_been_sent for step in self.steps.all())

    @property
    def has_used_its_answers(self) -> bool:
        """Return whether a call that has ended used its answers, which then must not be sent again."""
        if self.outcome in ("refused", "needs_authorization", "invalid_arguments"):
            return False
        retry = self.decoded().retry
        return not (retry and retry.can_retry)

    @property
    def terms(self) -> RetryTerms:
        return msgspec.convert(self.retry, RetryTerms)

    @property
    def is_followed(self) -> bool:
        """Return whether another process may wait for its end."""
        return self.mode != Mode.WAIT or self.has_id

    def decoded(self) -> Result:
        return msgspec.json.decode(self.result, type=Result) if self.result else Result()


class CallId(models.Model):
    """An id under which a call was made, stored as long as the id must not run again.

    Calls are trimmed to the newest of each tool, which may cover only minutes. `digest` is that of the
    request and its user, and distinguishes a repeated call from another one after the call was deleted.
    """

    key = models.UUIDField(primary_key=True)
    digest = models.CharField(max_length=64)
    made_at = models.DateTimeField(db_default=Now(), db_index=True)

    def __str__(self) -> str:
        return str(self.key)


class Example(models.Model):
    """Arguments worth keeping under a name; they fill the form, or run as they are."""

    tool = models.ForeignKey(Tool, on_delete=models.PROTECT, related_name="examples", db_index=False)
    name = models.CharField(max_length=100)
    arguments = models.JSONField(default=dict)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())

    objects = ExampleQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        # A name is unique among the examples that a user sees (execution/calls/examples.py).
        indexes = [models.Index(fields=["tool", "name"], name="example_by_name")]

    def __str__(self) -> str:
        return self.name
