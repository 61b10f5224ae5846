"""Vendors' tools and their frozen versions. Only enumeration writes them."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models.functions import Left, Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.runs import Run
from catalog.models.vendors import Endpoint
from catalog.token_estimate import tokens_of
from protocols import losses
from protocols.losses import Loss
from protocols.signature import CONTEXT_KINDS, Signature, read_stored


class ToolStatus(models.TextChoices):
    ACTIVE = "active", _("Active")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class ItemKind(models.TextChoices):
    """The kinds of items of vendors: a tool, or a text for the context of a model."""

    TOOL = "tool", _("Tool")
    PROMPT = "prompt", _("Prompt")
    RESOURCE = "resource", _("Resource")
    RESOURCE_TEMPLATE = "resource_template", _("Resource template")


def item_kind(signature: Signature) -> ItemKind:
    """Return the kind of item that a signature describes. An agent is a tool."""
    return ItemKind(signature.kind) if signature.kind in CONTEXT_KINDS else ItemKind.TOOL


class Tool(models.Model):
    """One item that a vendor lists: a tool, or a prompt or a resource, by its `kind`.

    Identity is (endpoint, the vendor's own id); ids of prompts and resources have a prefix that no tool has.
     Text columns and `tokens` repeat the current version's for lists, with words of ours in place of the
    vendor's where `is_tuned` (`tools.effective_texts`). `worded_at` is when those words last changed.

    `stopped` is the version that the vendor lists and that is held for review or blocked. It equals
    `current` while nothing of this tool has been let through.
    """

    endpoint = models.ForeignKey(
        Endpoint,
        on_delete=models.PROTECT,
        related_name="tools",
        db_index=False,  # tool_by_endpoint
    )
    tool_id = models.CharField(max_length=255)
    kind = models.CharField(
        max_length=20, choices=ItemKind.choices, default=ItemKind.TOOL, db_default=ItemKind.TOOL
    )
    status = models.CharField(max_length=10, choices=ToolStatus.choices, default=ToolStatus.ACTIVE)
    current = models.ForeignKey(
        "catalog.ToolVersion",
        null=True,
        on_delete=models.PROTECT,
        related_name="current_of",
        db_index=False,  # it would help to delete versions, and none is ever deleted
    )
    stopped = models.ForeignKey(
        "catalog.ToolVersion",
        null=True,
        on_delete=models.PROTECT,
        related_name="stopped_of",
        db_index=False,  # as for `current`
    )
    name = models.TextField()
    title = models.TextField(blank=True)
    description = models.TextField(blank=True)
    tags = ArrayField(models.TextField(), default=list)
    tokens = models.PositiveIntegerField(default=0)
    is_tuned = models.BooleanField(default=False, db_default=False)
    worded_at = models.DateTimeField(null=True)
    version_count = models.PositiveIntegerField(default=1)
    first_seen_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)
    versions_read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "tool_id"], name="one_tool_per_vendor_id"),
        ]
        indexes = [
            models.Index(Lower(Left("name", 100)), "id", name="tool_by_name"),
            models.Index(fields=["-changed_at", "-id"], name="tool_by_change"),
            models.Index(fields=["endpoint", "id"], include=["status"], name="tool_by_endpoint"),
            models.Index(fields=["tokens", "id"], name="tool_by_tokens"),
            models.Index(fields=["id"], condition=models.Q(status="withdrawn"), name="tool_withdrawn"),
            models.Index(
                fields=["-worded_at"],
                condition=models.Q(is_tuned=True) | models.Q(worded_at__isnull=False),
                name="tool_by_words",
            ),
            GinIndex(fields=["tags"], name="tool_by_tag"),
            # Small, so that tools alone are counted as all items less these.
            models.Index(
                fields=["endpoint", "kind"], condition=~models.Q(kind="tool"), name="tool_of_other_kind"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def picture_digest(self) -> str:
        """The digest of the tool's picture, "" without one. Select `tool_picture` with the tools."""
        row = getattr(self, "tool_picture", None)
        return (row and row.picture_id) or ""


def lock_in_order(tools: models.QuerySet[Tool]) -> None:
    """Lock tools by primary key, as every transaction that locks several, to avoid deadlocks."""
    list(tools.order_by("pk").select_for_update(no_key=True).values_list("pk"))


class ListedDocument(models.Model):
    """The document of a tool as the vendor lists it, if it differs from the version only in parts that affect
    no model and no call. `digest`: of the document."""

    tool = models.OneToOneField(Tool, primary_key=True, on_delete=models.CASCADE, related_name="listed")
    digest = models.CharField(max_length=64)
    raw = models.TextField()
    listed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"Listed document of {self.tool}"


class Fetch(models.Model):
    """The last request to a vendor for a runtime (catalog/enumeration/one_tool.py), with its result.

    Without an error code, the catalog contains the vendor's current state. The process with the `claim` may
    send the request until `claimed_until`. No process sends another one before `next_at`.
    """

    claim = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    next_at = models.DateTimeField(null=True)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        abstract = True


class ToolFetch(Fetch):
    """The request for one tool, or the fault of one tool in a list that was read for another."""

    tool = models.OneToOneField(Tool, primary_key=True, on_delete=models.CASCADE, related_name="last_fetch")

    def __str__(self) -> str:
        return f"Fetch of {self.tool}"


class ListFetch(Fetch):
    """The request for the whole list, in protocols without an address for one tool."""

    endpoint = models.OneToOneField(
        Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="last_fetch"
    )

    def __str__(self) -> str:
        return f"Fetch of the list of {self.endpoint}"


def version_name(label: str, rewrite: int, first_seen_at: datetime) -> str:
    """Return the name of a version on pages, in REST, in findings and in the audit trail.

    The name is the vendor's label. The ordinal is not a name: it counts in the order of discovery, so history
    that is read later has higher ordinals than newer versions. docs/decisions/0027-version-names.md has the
    reasons. rewrite: the number of earlier texts under this label.
    """
    # Without labels, the time identifies the text.
    first_seen_at = first_seen_at.astimezone(UTC)
    day = f"{first_seen_at.day} {first_seen_at:%B %Y}"
    if not label:
        return f"{day}, {first_seen_at:%H:%M}"
    if not rewrite:
        return label
    times = "" if rewrite == 1 else f" {rewrite} times, last"
    return f"{label}, rewritten{times} on {day}"


class ToolVersion(models.Model):
    """A frozen signature of a tool. A trigger refuses UPDATE and DELETE.

    ordinal: counts versions in the order of discovery. label: the vendor's version text. label_key: orders
    labels.
    rewrite: the number of earlier versions with the same label. signature: the normal form as JSON.
    raw: the vendor's document as canonical JSON. Both are texts, because no query reads inside.
    alarms: those that `rules.assess` raised when the version was recorded; None for a version that is
    inspected after its run, such as that of a new tool.
    """

    tool = models.ForeignKey(
        Tool,
        on_delete=models.PROTECT,
        related_name="versions",
        db_index=False,  # one_version_per_ordinal
    )
    ordinal = models.PositiveIntegerField()
    label = models.CharField(max_length=100, blank=True)
    label_key = ArrayField(models.BigIntegerField(), default=list)
    rewrite = models.PositiveSmallIntegerField(default=0, db_default=0)
    digest = models.CharField(max_length=64)
    signature = models.TextField()
    raw = models.TextField()
    alarms = models.TextField(null=True, editable=False)  # noqa: DJ001 - no alarms is not the same as not inspected
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="versions")
    first_seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-label_key", "-ordinal"]
        constraints = [
            models.UniqueConstraint(fields=["tool", "ordinal"], name="one_version_per_ordinal"),
            models.UniqueConstraint(fields=["tool", "label", "digest"], name="one_version_per_content"),
        ]
        indexes = [
            models.Index(fields=["label", "id"], condition=~models.Q(label=""), name="version_by_label"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.name}"

    @property
    def name(self) -> str:
        return version_name(self.label, self.rewrite, self.first_seen_at)

    # Decoded before, by this object or another one of the same row, which never changes.
    known: Signature | None = None
    # The findings that stop versions of its tool (catalog/review/holds.py), if they were selected with it.
    read_stopping: Sequence[tuple[int, str, int | None, str]] | None = None
    # And the id that the call gets which it was read for.
    next_call: int | None = None

    def decoded(self) -> Signature:
        if self.known is None:
            self.known = read_stored(self.signature)
        return self.known

    @property
    def tokens(self) -> int:
        """The token count, computed on access, because a stored count would keep the result of an older
        rule."""
        return tokens_of(self.decoded())

    @property
    def counted_tokens(self) -> int | None:
        """The token count if the query selected `short_signature` (catalog/tools/versions.py), else None."""
        signature: str = getattr(self, "short_signature", "")
        return tokens_of(read_stored(signature)) if signature else None

    def losses(self) -> list[Loss]:
        """Return the parts of the vendor's document that the normal form does not represent."""
        protocol = self.tool.endpoint.build_protocol()
        reconstructed = protocol.write(self.decoded(), self.tool.tool_id, self.label)
        return losses.report(msgspec.json.decode(self.raw), reconstructed)

    @property
    def listed_document(self) -> ListedDocument | None:
        """The vendor's current document that replaces this version's, or None."""
        is_listed = self.pk == (self.tool.stopped_id or self.tool.current_id)
        return getattr(self.tool, "listed", None) if is_listed else None
