"""The test phrases of an agent, and the tools that evaluation models chose for them."""

import uuid

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models import Tool
from core.encryption import EncryptedField, KeyIdField
from designer.models.agents import Agent

MAX_SENTENCES, MAX_SENTENCE_LENGTH = 200, 1_000
MAX_TRIES, MAX_SECONDS = 5, 120


class Rehearsal(models.Model):
    """A sentence of a user, and the tool or the transfer that should be chosen for it.

    Both are stored by id, so that renaming has no effect. `inputs` use the names that a model sees; omitted
    ones are not checked.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="rehearsals")
    says = models.TextField(_("What a user says"), max_length=MAX_SENTENCE_LENGTH)
    tool = models.ForeignKey(Tool, null=True, on_delete=models.PROTECT, related_name="+")
    child = models.ForeignKey(Agent, null=True, on_delete=models.PROTECT, related_name="+")
    inputs = models.JSONField(default=dict)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(tool=None) ^ models.Q(child=None), name="rehearsal_of_a_tool_or_a_transfer"
            )
        ]

    def __str__(self) -> str:
        return self.says[:100]


class RehearsalJudge(models.Model):
    """An evaluation model behind OpenAI's chat protocol. `sealed`: the ciphertext of its key, bound to this
    row; empty without a key. The key is only sent to `origin`. `seconds`: the time limit of one answer. A
    removed row remains without its key.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(_("Name"), max_length=100, default="", db_default="")
    url = models.CharField(
        _("Base address"),
        max_length=2000,
        help_text=_("Such as https://api.openai.com/v1, without /chat/completions."),
    )
    model = models.CharField(_("Model"), max_length=200)
    tries = models.PositiveSmallIntegerField(
        _("Attempts for each test"),
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TRIES)],
    )
    seconds = models.PositiveSmallIntegerField(
        _("Seconds for each answer, at most"),
        default=30,
        db_default=30,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_SECONDS)],
    )
    removed_at = models.DateTimeField(null=True)
    origin = models.CharField(max_length=300, blank=True)
    sealed = EncryptedField(blank=True)
    key_id = KeyIdField("sealed")
    fingerprint = models.CharField(max_length=16, blank=True)

    def __str__(self) -> str:
        return self.name


class Gate(models.TextChoices):
    OFF = "off", _("Ignore")
    WARN = "warn", _("Warn")
    REFUSE = "refuse", _("Block publishing until accepted")


class RehearsalPlan(models.Model):
    """The rule by which tests decide about publishing an agent, and the state of its background runs.

    The gate closes below `at_least` sentences answered as expected (None: any number is enough) and, with
    `on_flips`, if one is answered worse than in the release that publishing starts from. `judge`: the judge
    that decides, as in `RehearsalRun`. `made_of`: a digest of all inputs of the newest background run.
    """

    agent = models.OneToOneField(
        Agent, on_delete=models.PROTECT, primary_key=True, related_name="rehearsal_plan"
    )
    gate = models.CharField(_("If too few tests pass"), max_length=6, choices=Gate.choices, default=Gate.WARN)
    at_least = models.PositiveIntegerField(
        _("Tests that must pass"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_SENTENCES)],
        help_text=_("Leave this empty for no minimum."),
    )
    on_flips = models.BooleanField(_("Also if a test fails that passed in the last release"), default=True)
    judge = models.CharField(_("Evaluation model"), max_length=20, default="built-in")
    asks = models.ForeignKey(
        RehearsalJudge, null=True, on_delete=models.PROTECT, related_name="plans", db_index=False
    )
    looked_at = models.DateTimeField(default=timezone.now)
    asked_at = models.DateTimeField(null=True)
    made_of = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"Rehearsals of {self.agent}"


class RehearsalStatus(models.TextChoices):
    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Done")
    FAILED = "failed", _("Failed")


class RehearsalRun(models.Model):
    """The tools that a judge chose. `digest`: of all that it saw; `release`: the number of the release whose
    texts were used, None for the draft. `results`: `results.SentenceResult`s.

    `judge` is “built-in”, or “outside” for the model in `asks`. For that one `payload` has its requests until
    all are answered; `due_at`: when a worker continues; `attempts`: how often one has.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="rehearsal_runs")
    judge = models.CharField(max_length=20)
    asks = models.ForeignKey(
        RehearsalJudge, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    model = models.CharField(max_length=200, blank=True)
    digest = models.CharField(max_length=64)
    release = models.PositiveIntegerField(null=True)
    status = models.CharField(max_length=10, choices=RehearsalStatus.choices)
    message = models.TextField(blank=True)
    results = models.JSONField(default=list)
    right = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    payload = models.JSONField(default=dict, db_default={})
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["agent", "-id"], name="rehearsal_runs_of_agent")]

    def __str__(self) -> str:
        return f"Rehearsal run of {self.agent}"
