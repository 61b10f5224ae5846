"""Notices, and their delivery by mail, webhook and callback. All times are those of the database."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from catalog.models import Call
from catalog.notifications import kinds
from core.encryption import EncryptedField, KeyIdField


class Event(models.TextChoices):
    """The kinds of events of the catalog. `kinds` contains all kinds."""

    BROKEN = "endpoint.broken", _("An endpoint cannot be synced")
    RECOVERED = "endpoint.recovered", _("An endpoint can be synced again")
    HELD = "endpoint.held", _("A sync waits for a decision")
    REVIEW = "review.waiting", _("New items in review")
    SIGN_IN = "credential.sign_in", _("A credential needs a sign-in")
    WEBHOOK_PAUSED = "webhook.paused", _("A webhook was paused after failures")
    KEY_REPORTED = "key.reported", _("An API key was reported as leaked")
    KEY_ENDING = "key.ending", _("An API key expires soon")
    VENDOR_REQUESTED = "vendor.requested", _("A designer requests a vendor")
    VENDOR_ANSWERED = "vendor.answered", _("A vendor request was answered")
    TOOLS_CHANGED = "tool.changed", _("A vendor changed tools")
    TOOLS_WITHDRAWN = "tool.withdrawn", _("A vendor withdrew tools")


TEST = "test"


class Notice(models.Model):
    """An event about one subject (an id of the kind that the event defines). The rows are the outbox.

    due_at: when it is dispatched, if it is still true. settled_at without told_at: it was not true any more.
    title, says, path, facts: the content that was sent. They never change.
    readers: the users who find it in their news.
    agent: the only agent that it concerns. No foreign key, because agents belong to a higher layer.
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
    """A user's subscription to mail about an event."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="subscriptions")
    event = models.CharField(max_length=30, choices=kinds.choices)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["event", "id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "event"], name="one_subscription_per_event"),
        ]

    def __str__(self) -> str:
        return str(kinds.KINDS[self.event].label)


class MailAddress(models.Model):
    """The mail address of a user. Until the user confirms it, only the confirmation mail goes there."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_address"
    )
    address = models.EmailField(max_length=254)
    confirmed_at = models.DateTimeField(null=True)
    pause_minutes = models.PositiveIntegerField(default=5)

    class Meta:
        verbose_name = "mail address"

    def __str__(self) -> str:
        """Return a text without the address, because every user reads the audit trail."""
        return f"mail address of {self.user}"


class SendingState(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    SENT = "sent", _("Sent")
    FAILED = "failed", _("Given up")


class Sending(models.Model):
    """One message to one receiver, which recognises repeated attempts by `id`.

    A sender claims it with a conditional update that moves `next_at`. If the sender dies, another one sends
    it.
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
    """A mail. Notices are added to it until a sender claims it. `confirms`: the address that it asks to
    confirm."""

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
    """The callback of one call: its address, and the secret that signs it.

    Both are encrypted together, and deleted after the last attempt.
    next_at: when the next attempt may begin. It is in the future while a sender is working.
    run_of: the id that an ACP client uses for the agent. The body is then an ACP run.
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
    """An address of a program that receives events, one delivery at a time, in order.

    The address is a secret, because many receivers accept any request to it. `url` is empty except in rows of
    earlier releases, which `webhooks.encrypt_addresses` converts.
    next_at: when the next attempt may begin: later after a failure, and while a sender is working.
    owner: None for webhooks of administrators.
    is_narrowed: it receives events only about its agents, which a higher layer stores.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="webhooks"
    )
    is_narrowed = models.BooleanField(default=False, db_default=False)
    name = models.CharField(_("Name"), max_length=100, help_text=_("The receiver, such as “On-call chat”."))
    url = models.CharField(
        _("Address"),
        max_length=2048,
        blank=True,
        default="",
        db_default="",
        help_text=_("Requests are sent there by POST."),
    )
    sealed_url = EncryptedField(blank=True, default="", db_default="")
    url_key_id = KeyIdField("sealed_url")
    events = ArrayField(models.CharField(max_length=30, choices=kinds.choices))
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
    is_paused = models.BooleanField(_("Paused"), default=False)
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
    """The delivery of one notice to one webhook."""

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
