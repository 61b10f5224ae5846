"""Notices, and how they reach people and programs. All times are the database's own."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from catalog.models import Call
from catalog.notifications import kinds
from core.encryption import EncryptedField, KeyIdField


class Event(models.TextChoices):
    """The catalog's own kinds of events; `kinds` knows all of them."""

    BROKEN = "endpoint.broken", "An endpoint cannot be read"
    RECOVERED = "endpoint.recovered", "An endpoint can be read again"
    HELD = "endpoint.held", "A run waits for a decision"
    REVIEW = "review.waiting", "Something waits for review"
    SIGN_IN = "credential.sign_in", "A credential needs a sign-in"
    WEBHOOK_PAUSED = "webhook.paused", "A webhook was paused after failures"
    KEY_REPORTED = "key.reported", "An API key was reported as leaked"
    KEY_ENDING = "key.ending", "An API key ends soon"
    VENDOR_REQUESTED = "vendor.requested", "A designer asks for a vendor"
    VENDOR_ANSWERED = "vendor.answered", "A vendor that was asked for is connected or declined"
    TOOLS_CHANGED = "tool.changed", "A vendor changed tools"
    TOOLS_WITHDRAWN = "tool.withdrawn", "A vendor offers tools no more"


TEST = "test"


class Notice(models.Model):
    """Something that happened to `subject` (an id; the event says of what). The outbox row.

    It waits until `due_at` and is told if it is still true then; `settled_at` without `told_at` says that
    it was not. `title`, `says`, `path` and `facts` are what was told, and never change afterwards; `readers`
    are the users who find it among their news. `agent` is the one agent that it is about, without a foreign
    key, because agents are on a floor above.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    event = models.CharField(max_length=30)
    subject = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)
    title = models.CharField(max_length=300, blank=True)
    says = models.TextField(blank=True)
    path = models.CharField(max_length=300, blank=True)
    facts = models.JSONField(default=dict)
    agent = models.BigIntegerField(null=True)
    readers = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="notices")

    class Meta:
        ordering = ["-at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["event", "subject"],
                condition=models.Q(settled_at=None),
                name="one_waiting_notice_per_subject",
            )
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(settled_at=None), name="notice_due"),
            models.Index(
                fields=["subject", "event", "-told_at"],
                condition=models.Q(told_at__isnull=False),
                name="notice_last_told",
            ),
            models.Index(fields=["settled_at"], name="notice_by_age"),
        ]

    def __str__(self) -> str:
        return self.title or f"{self.event} {self.subject}"


class Subscription(models.Model):
    """A person wants mail about an event."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="subscriptions")
    event = models.CharField(max_length=30, choices=kinds.choices)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["event", "id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "event"], name="one_subscription_per_event"),
        ]

    def __str__(self) -> str:
        return kinds.KINDS[self.event].label


class MailAddress(models.Model):
    """Where a person reads mail. Nothing but a question goes there until they have confirmed it."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_address"
    )
    address = models.EmailField(max_length=254)
    confirmed_at = models.DateTimeField(null=True)
    pause_minutes = models.PositiveIntegerField(default=5)

    class Meta:
        verbose_name = "mail address"

    def __str__(self) -> str:
        """Without the address itself: every user reads the audit trail."""
        return f"mail address of {self.user}"


class SendingState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    SENT = "sent", "Sent"
    FAILED = "failed", "Given up"


class Sending(models.Model):
    """One message to one receiver. `id` goes with every attempt, so that the receiver knows it again.

    Claimed by a conditional update that moves `next_at`: a sender that dies leaves it to be sent again.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=10, choices=SendingState.choices, default=SendingState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=1_000, blank=True)

    class Meta:
        abstract = True


class Mail(Sending):
    """Until it is first claimed, notices are added to it. `confirms` is an address to be confirmed by it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    next_at = models.DateTimeField(db_default=Now())
    notices = models.ManyToManyField(Notice, related_name="+")
    confirms = models.EmailField(max_length=254, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user"],
                condition=models.Q(state="waiting", attempts=0, confirms=""),
                name="one_open_mail_per_person",
            )
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=models.Q(state="waiting"), name="mail_due"),
            models.Index(fields=["user", "-sent_at"], name="mail_by_person"),
        ]

    def __str__(self) -> str:
        return f"Mail to {self.user}"


class Callback(Sending):
    """The address that hears of the end of one call, and the secret that signs what is sent there.

    Both are encrypted as one, and forgotten once it was sent or given up. `next_at` is when the next attempt
    may begin, and while a sender is at work. `run_of` is the id by which a client of ACP knows the agent
    whose run the call is: it is told in that protocol's words.
    """

    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="callback")
    sealed = EncryptedField(blank=True, default="")
    key_id = KeyIdField("sealed")
    next_at = models.DateTimeField(db_default=Now())
    run_of = models.CharField(max_length=36, blank=True, default="", db_default="")

    class Meta:
        indexes = [
            models.Index(fields=["next_at"], condition=models.Q(state="waiting"), name="callback_due"),
            models.Index(fields=["created_at"], name="callback_by_age"),
        ]

    def __str__(self) -> str:
        return f"Callback of call {self.call_id}"


class Webhook(models.Model):
    """An address of a program that hears of events. One delivery at a time, in order.

    Such an address is a secret: with many receivers, any caller who knows it may post there. `url` is empty
    but for rows of code from before it was encrypted, which `webhooks.encrypt_addresses` takes over.

    `next_at` is when the next attempt may begin: later after a failure, and while a sender is at work.
    Without an `owner` it is the administrators'. One that `is_narrowed` hears of the agents alone that are
    named for it, which a floor above knows.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="webhooks"
    )
    is_narrowed = models.BooleanField(default=False, db_default=False)
    name = models.CharField(max_length=100)
    url = models.CharField(max_length=2048, blank=True, default="", db_default="")
    sealed_url = EncryptedField(blank=True, default="", db_default="")
    url_key_id = KeyIdField("sealed_url")
    events = ArrayField(models.CharField(max_length=30, choices=kinds.choices))
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
    is_paused = models.BooleanField(default=False)
    paused_why = models.CharField(max_length=1_000, blank=True)
    failures = models.PositiveIntegerField(default=0, help_text="Attempts in a row that failed.")
    next_at = models.DateTimeField(db_default=Now())
    last_sent_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        if self.is_paused:
            return "paused"
        return "failing" if self.failures else "active"


class Delivery(Sending):
    """One notice for one webhook."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="+")
    status = models.PositiveSmallIntegerField(default=0, help_text="Of the last answer; 0: there was none.")

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "notice"], name="one_delivery_per_notice"),
        ]
        indexes = [
            models.Index(
                fields=["webhook", "created_at"], condition=models.Q(state="waiting"), name="delivery_waiting"
            ),
            models.Index(fields=["webhook", "-created_at"], name="delivery_by_webhook"),
        ]

    def __str__(self) -> str:
        return f"{self.notice} to {self.webhook}"
