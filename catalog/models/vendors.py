"""Vendors, their endpoints, and the credentials for them."""

import hashlib
import uuid
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

import protocols
from core.charts import Chart
from core.encryption import EncryptedField, KeyIdField
from core.outbound.sockets import MAX_AUTHORITIES_BYTES
from protocols.base import Protocol
from protocols.signature import CONTEXT_KINDS


class VendorQuerySet(models.QuerySet["Vendor"]):
    def live(self) -> "VendorQuerySet":
        """Return the connected vendors, without the one of tools that are defined in Pegboard."""
        return self.offering().filter(is_own=False)

    def offering(self) -> "VendorQuerySet":
        """Return all vendors with tools, including definitions."""
        return self.filter(removed_at=None)


class Vendor(models.Model):
    """An organisation that offers tools. Removal hides it. Pins and releases stay.

    One row is no organisation: the row with `is_own` has the tools that are defined in Pegboard
    (catalog/tools/definitions.py). It is made when the first tool is defined.
    """

    slug = models.SlugField(_("Address"), max_length=60)
    name = models.CharField(_("Name"), max_length=120)
    homepage = models.URLField(
        _("Homepage"), max_length=500, blank=True, help_text=_("Where a person can read about them.")
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)
    renamed_at = models.DateTimeField(null=True, editable=False, help_text="What the search index compares.")
    is_own = models.BooleanField(default=False, db_default=False, editable=False)

    objects = VendorQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["slug"], condition=models.Q(removed_at=None), name="one_live_vendor_per_slug"
            ),
            models.UniqueConstraint(
                fields=["is_own"], condition=models.Q(is_own=True), name="one_home_of_definitions"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class OAuthKind(models.TextChoices):
    """The kinds of credential with a grant. catalog/credentials/kinds has the others."""

    CLIENT = "oauth_client", _("OAuth 2, as ourselves (client credentials)")
    CODE = "oauth_code", _("OAuth 2, after a sign-in (authorization code)")
    USERS = "oauth_users", _("OAuth 2, for each user of an agent (authorization code)")


class Credential(models.Model):
    """A credential. `sealed`: the ciphertext, bound to this row, which is never shown.

    details: the values that its kind requires besides the secret, by name: see catalog/credentials/kinds.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(_("Name"), max_length=100, help_text=_("So that others recognise it."))
    kind = models.CharField(max_length=20)
    details = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    origin = models.CharField(max_length=300, help_text="The only origin this may be sent to.")
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
    fingerprint = models.CharField(max_length=16)
    set_at = models.DateTimeField(default=timezone.now)
    set_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    used_at = models.DateTimeField(null=True, help_text="About when it was last sent.")
    refused_at = models.DateTimeField(null=True, help_text="Since when the vendor answers 401 to it.")
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    @property
    def awaits_sign_in(self) -> bool:
        """Return whether it needs a sign-in: there was none, or the last one has ended. Reads its grant."""
        return self.kind == OAuthKind.CODE and not self.grant.access_token


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def live(self) -> "EndpointQuerySet":
        """Return the connected endpoints; see `VendorQuerySet`."""
        return self.offering().filter(vendor__is_own=False)

    def offering(self) -> "EndpointQuerySet":
        return self.filter(removed_at=None, vendor__removed_at=None)

    def needing_action(self) -> "EndpointQuerySet":
        """Return the endpoints that need a user: the last run failed or is held, or they need a sign-in."""
        awaits_sign_in = models.Q(credential__kind=OAuthKind.CODE, credential__grant__access_token="")
        return self.live().filter(
            models.Q(failures__gt=0) | models.Q(held_run__isnull=False) | awaits_sign_in
        )

    def with_status(self) -> "EndpointQuerySet":
        """Select the rows that `status` reads."""
        return self.select_related("credential__grant")

    def with_item_counts(self) -> "EndpointQuerySet":
        """Annotate each endpoint with `tool_count` and `context_count`: the tools, and the prompts and
        resources, that its vendor lists now.
        """
        # One index counts all items, and a small second one counts prompts and resources.
        this = Endpoint.objects.filter(pk=models.OuterRef("pk")).order_by()
        is_listed = models.Q(tools__status="active")
        beside_tools = this.filter(is_listed, tools__kind__in=CONTEXT_KINDS).values("pk")
        count = models.Count("tools")
        context_count = Coalesce(models.Subquery(beside_tools.annotate(n=count).values("n")), 0)
        return self.annotate(
            context_count=context_count,
            tool_count=models.Count("tools", filter=is_listed) - context_count,
        )

    def due(self) -> "EndpointQuerySet":
        """Return the endpoints whose interval has passed, by the database's clock."""
        return self.live().filter(is_paused=False, next_due_at__lte=Now())

    def late(self) -> "EndpointQuerySet":
        """Return the endpoints that were due for a while and not started."""
        return self.due().filter(next_due_at__lt=Now() - timedelta(minutes=1))


class EndpointStatus(models.TextChoices):
    NEW = "new", _("Not synced yet")
    OK = "ok", _("Synced")
    FAILING = "failing", _("Failing")
    HELD = "held", _("Waiting for your decision")
    NEEDS_SIGN_IN = "needs_sign_in", _("Waiting for a sign-in")
    PAUSED = "paused", _("Paused")
    REMOVED = "removed", _("Removed")


class Endpoint(models.Model):
    """An address of a vendor, with one protocol and one credential.

    memory: facts that its protocol has learned; see `protocols.base.Session`. authorities: certificates (PEM)
    of the only trusted authorities, "" for the well-known ones. max_tools and the following: limits of a
    run. retry: its part of the retry policy of its tools (catalog/rules/retries.py). history_lease_until:
    the lease of the worker that reads older versions of its tools.
    """

    vendor = models.ForeignKey(Vendor, on_delete=models.PROTECT, related_name="endpoints")
    protocol = models.CharField(_("Protocol"), max_length=20, choices=protocols.choices)
    url = models.CharField(_("Address"), max_length=2048)
    name = models.CharField(
        _("Name"), max_length=120, blank=True, help_text=_("To tell it apart when a vendor has several.")
    )
    credential = models.ForeignKey(
        Credential, null=True, blank=True, on_delete=models.PROTECT, related_name="endpoints"
    )
    settings = models.JSONField(default=dict, blank=True)
    memory = models.JSONField(default=dict, blank=True, editable=False)
    read_revision = models.PositiveSmallIntegerField(
        default=1, db_default=1, editable=False, help_text="Of the reader of the last complete run."
    )
    interval_minutes = models.PositiveIntegerField(
        _("Sync interval"),
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(10_080)],
        help_text=_("How often Pegboard looks for new and changed tools."),
    )
    policy = models.JSONField(default=dict, blank=True)
    retry = models.JSONField(default=dict, blank=True, db_default={})
    requests_per_second = models.PositiveSmallIntegerField(
        _("Requests per second, at most"),
        default=300,
        db_default=300,
        validators=[MinValueValidator(1), MaxValueValidator(1_000)],
        help_text=_("For all workers together. Enter the limit of the vendor, if there is one."),
    )
    requests_at_once = models.PositiveSmallIntegerField(
        _("Requests at once, at most"),
        default=100,
        db_default=100,
        validators=[MinValueValidator(1), MaxValueValidator(1_000)],
    )
    authorities = models.TextField(
        _("Certificates of your own authority"),
        max_length=MAX_AUTHORITIES_BYTES,
        blank=True,
        default="",
        db_default="",
        help_text=_(
            "For a vendor whose certificate a private authority issued, in PEM format. The endpoint then "
            "trusts no other authority. If empty, it trusts the public authorities."
        ),
    )
    max_tools = models.PositiveIntegerField(
        _("Tools in the list, at most"),
        default=100_000,
        db_default=100_000,
        validators=[MinValueValidator(1), MaxValueValidator(1_000_000)],
    )
    max_minutes = models.PositiveIntegerField(
        _("Minutes for a sync, at most"),
        default=60,
        db_default=60,
        validators=[MinValueValidator(1), MaxValueValidator(1_440)],
        help_text=_("Pegboard syncs a long list in parts."),
    )
    max_megabytes = models.PositiveIntegerField(
        _("Megabytes of all replies of one sync"),
        default=256,
        db_default=256,
        validators=[MinValueValidator(1), MaxValueValidator(4_096)],
    )
    max_reply_megabytes = models.PositiveIntegerField(
        _("Megabytes of one reply"),
        default=32,
        db_default=32,
        validators=[MinValueValidator(1), MaxValueValidator(256)],
        help_text=_("One page of the list, or the whole document."),
    )
    is_paused = models.BooleanField(default=False)
    next_due_at = models.DateTimeField(default=timezone.now)
    failures = models.PositiveIntegerField(default=0)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.TextField(blank=True)
    last_success_at = models.DateTimeField(null=True, blank=True)
    held_run = models.ForeignKey(
        "catalog.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)
    history_lease_until = models.DateTimeField(null=True, blank=True, editable=False)

    objects = EndpointQuerySet.as_manager()
    unsaved_documents: Mapping[str, str] = MappingProxyType({})
    # Its last syncs, set by the list of vendors.
    sync_strip: Chart | None = None

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["next_due_at"],
                condition=models.Q(removed_at=None, is_paused=False),
                name="endpoint_due",
            )
        ]

    def __str__(self) -> str:
        return self.name or self.url

    @property
    def status(self) -> EndpointStatus:
        """The status that all pages and REST show. Lists select `with_status`."""
        if self.removed_at:
            return EndpointStatus.REMOVED
        if self.held_run_id:
            return EndpointStatus.HELD
        if self.credential and self.credential.awaits_sign_in:
            return EndpointStatus.NEEDS_SIGN_IN
        if self.failures:
            return EndpointStatus.FAILING
        if self.is_paused:
            return EndpointStatus.PAUSED
        return EndpointStatus.OK if self.last_success_at else EndpointStatus.NEW

    @property
    def is_live(self) -> bool:
        return self.removed_at is None and self.vendor.removed_at is None

    @property
    def credential_url(self) -> str:
        """The address whose origin its credential belongs to."""
        return protocols.get(self.protocol).credential_url(self.url, self.settings)

    def take_settings(self, values: dict[str, Any]) -> None:
        """Set the settings that a protocol accepts. Documents are set aside until the row is saved."""
        self.unsaved_documents = {
            name: text
            for name, text in values.items()
            if name in self._document_names() and isinstance(text, str)
        }
        documents = {name: text.encode() for name, text in self.unsaved_documents.items()}
        self.settings = values | {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in documents.items()
        }

    def documents(self) -> dict[str, str]:
        """Return the documents among its settings, by name. The settings contain only size and digest."""
        names = self._document_names() & self.settings.keys()
        missing = names - self.unsaved_documents.keys()
        stored_rows = self.stored_documents.filter(name__in=missing) if missing and self.pk else ()
        return {document.name: document.text for document in stored_rows} | dict(self.unsaved_documents)

    def _document_names(self) -> set[str]:
        return {s.name for s in protocols.get(self.protocol).settings if s.kind == "document"}

    def build_protocol(self) -> Protocol:
        """Return the protocol of this endpoint, with its settings."""
        document_texts = {
            name: _StoredText(self, name)
            for name in self._document_names() & self.settings.keys()
            if not isinstance(self.settings[name], str)
        }
        return protocols.get(self.protocol)(self.settings | document_texts | dict(self.unsaved_documents))


class _StoredText:
    """The text of a setting, loaded on access: a call only checks that it exists, and some have 10 MB."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self._endpoint, self._name = endpoint, name

    def __bool__(self) -> bool:
        return bool(self._endpoint.settings[self._name])

    def __str__(self) -> str:
        return self._endpoint.documents()[self._name]


class EndpointDocument(models.Model):
    """The text of one setting, in a table of its own, because endpoints are read often and the texts
    rarely."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="stored_documents")
    name = models.CharField(max_length=40)
    text = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "name"], name="one_document_per_setting"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.endpoint}"
