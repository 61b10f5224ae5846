"""Published releases and their exports. Neither is ever changed."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from core.encryption import EncryptedField, KeyIdField
from designer.models.agents import Agent
from designer.models.environments import CallEnvironment

MAX_NOTE_LENGTH = 2_000
# The one row of its table.
PUBLISHING_KEY = UUID("5ea1ed00-0000-4000-8000-000000000002")


class Release(models.Model):
    """A published snapshot of an agent: a trigger refuses UPDATE and DELETE.

    `document` is the whole release as canonical JSON, `digest` its SHA-256 in hex. `proof` shows that it was
    published (designer/releases/proofs.py); it is empty in older releases.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="releases")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    document = models.TextField()
    tool_count = models.PositiveIntegerField()
    # What its tools and procedures take of each request, as the token limit counts. Older releases have none.
    tokens = models.PositiveIntegerField(null=True)
    proof = models.CharField(max_length=64, blank=True, default="", db_default="")
    note = models.TextField(
        _("Note"),
        max_length=MAX_NOTE_LENGTH,
        blank=True,
        help_text=_("What changed, for the people who roll this out."),
    )
    # The checks that failed and were accepted, each with `code` and `message`, and why.
    accepted = models.JSONField(default=list, db_default=[])
    reason = models.TextField(
        _("Reason for publishing anyway"), max_length=MAX_NOTE_LENGTH, blank=True, default="", db_default=""
    )
    # The bindings of the default environment when it was published (designer/releases/recorded_bindings.py).
    bindings = models.JSONField(default=dict, db_default={})
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    # Put there by designer.releases.publishing.find: of the exports, and of the agent's environments.
    written: list[str]
    places: list[CallEnvironment]

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="one_release_per_number")]

    def __str__(self) -> str:
        return f"{self.agent} release {self.number}"


class Retirement(models.Model):
    """The retirement of a release: runtimes are notified with every response. Deleting the row ends it.

    From `sunset_at` on API keys do not get the release; None: they always do.
    """

    release = models.OneToOneField(Release, on_delete=models.PROTECT, related_name="retirement")
    reason = models.TextField(
        _("Reason"),
        max_length=MAX_NOTE_LENGTH,
        help_text=_("Shown on the release, in the audit trail, and in checks of builds."),
    )
    sunset_at = models.DateTimeField(
        _("Available to API keys until (UTC)"),
        null=True,
        blank=True,
        help_text=_("If empty, it stays available, and each reply states that it is retired."),
    )
    retired_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    retired_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"Retirement of {self.release}"

    @property
    def is_over(self) -> bool:
        """Return whether API keys no longer get the release."""
        return self.sunset_at is not None and self.sunset_at <= timezone.now()


class Draft(models.Model):
    """The stored result of comparing an agent with its newest release, for the inputs with the digest
    `made_of`."""

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="+")
    made_of = models.CharField(max_length=32)
    is_changed = models.BooleanField()

    def __str__(self) -> str:
        return f"Draft of {self.agent}"


class Export(models.Model):
    """One release in one format. The bytes never change (a trigger prevents it).

    `format` is also the name it is kept under: `mcp`, `mcp.partial`, and `refills/mcp` of a sub-agent.
    """

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="exports")
    format = models.CharField(max_length=100)
    body = models.BinaryField()
    proof = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["release", "format"], name="one_export_per_format")]

    def __str__(self) -> str:
        return f"{self.release} as {self.format}"

    def as_bytes(self) -> bytes:
        body: Any = self.body
        return bytes(body)


class EffectiveVersion(models.Model):
    """An effective signature of a tool in an agent, as served protocols number it. Rows never change (a
    trigger prevents it).

    `agent` published it first in `release`; `node` is the primary key of the agent of its tree that shows the
    tool. `tool` is the catalog's, or 0 for a transfer to `child`. Where ids are UUIDs and versions count up,
    it is version `number` of `uuid`; where an id is two names, version `semver` of `dotted_name`. `digest` is
    the digest of the signature (`releases.numbering.digest_of`).
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="+")
    node = models.BigIntegerField()
    tool = models.BigIntegerField()
    child = models.BigIntegerField()
    uuid = models.UUIDField()
    number = models.PositiveIntegerField()
    dotted_name = models.CharField(max_length=400)
    semver = models.CharField(max_length=40)
    digest = models.CharField(max_length=64)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "node", "uuid", "number"], name="one_effective_version_per_number"
            ),
            models.UniqueConstraint(
                fields=["agent", "node", "dotted_name", "semver"], name="one_effective_version_per_semver"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dotted_name} {self.semver}"


class PublishingKey(models.Model):
    """The key that proves published rows: one row, created when it is first needed. See `releases.proofs`."""

    id = models.UUIDField(primary_key=True, default=PUBLISHING_KEY, editable=False)
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")

    def __str__(self) -> str:
        return "the publishing key"
