"""Readings of an endpoint as another client than Pegboard, and the documents that differ."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.findings import Finding
from catalog.models.vendors import Endpoint
from protocols.signature import Signature, from_json


class OtherClient(models.TextChoices):
    """The client as which an endpoint is read a second time; the labels are for the middle of a sentence."""

    ANONYMOUS = "stranger", _("a client without our credential")
    OTHER_PROGRAM = "client", _("another client than Pegboard")


class LookResult(models.TextChoices):
    SAME = "same", _("Same for other clients")
    OTHER = "other", _("Different for other clients")
    UNSURE = "unsure", _("Not clear")
    NOTHING = "nothing", _("Nothing to compare")
    FAILED = "failed", _("Failed")


class SecondLook(models.Model):
    """The schedule of an endpoint's second looks, and the result of the last one.

    It is off until an administrator turns it on. Times are the database's.
    `attempt` is the fencing token of the worker that looks: it only grows. `tries` counts looks that
    began since the last one that ended.
    """

    endpoint = models.OneToOneField(
        Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="second_look"
    )
    is_on = models.BooleanField(default=False, db_default=False)
    # Sent as User-Agent: Pegboard's own if empty.
    other_name = models.CharField(max_length=100, blank=True, default="", db_default="")
    due_at = models.DateTimeField()
    attempt = models.PositiveIntegerField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    looked_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=10, choices=LookResult.choices, blank=True)
    says = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="second_look_due")]

    def __str__(self) -> str:
        return f"Second look at {self.endpoint}"

    @property
    def is_under_way(self) -> bool:
        """True if a look was requested and waits for a worker, or is running."""
        now = timezone.now()
        is_asked_for = self.requested_by_id is not None and self.due_at <= now + timedelta(seconds=1)
        return is_asked_for or bool(self.lease_until and self.lease_until > now)

    @property
    def planned_at(self) -> datetime | None:
        """Return the approximate time of the next second look; None while none is planned."""
        return self.due_at if self.is_on else None


class OtherAnswer(models.Model):
    """The document that another client got where we got the version of a finding `CLOAKING`.

    Evidence, as a version is: a trigger refuses UPDATE and DELETE. `signature` and `raw` are as there.
    """

    finding = models.OneToOneField(Finding, on_delete=models.PROTECT, related_name="other_answer")
    client = models.CharField(max_length=10, choices=OtherClient.choices, db_column="guise")
    digest = models.CharField(max_length=64)
    signature = models.TextField()
    raw = models.TextField()

    def __str__(self) -> str:
        return f"What {self.get_client_display()} was shown of {self.finding.tool}"

    def decoded(self) -> Signature:
        return from_json(self.signature)
