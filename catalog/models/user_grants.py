"""End users, their authorizations, and the secrets that tools need."""

import uuid
from collections.abc import Iterable

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.calls import Call
from catalog.models.oauth import TimedQuerySet, TokenColumns
from catalog.models.vendors import Credential, Endpoint
from core.encryption import EncryptedField, KeyIdField


class EndUser(models.Model):
    """A user of an agent, as its runtimes name the user. The same name in two agents means two users.

    digest: a keyed digest of agent and name, which identifies the user in calls. sealed: the encrypted name,
    which vendors receive. No foreign key to the agent, because agents belong to a higher layer.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(null=True, help_text="To the day.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "digest"], name="one_row_per_end_user")]

    def __str__(self) -> str:
        return f"User {self.short}"

    @property
    def short(self) -> str:
        """A short digest with which pages distinguish users. They never show the name."""
        return self.digest[:8]


class GrantState(models.TextChoices):
    PENDING = "pending", _("Waiting for the user")
    COMPLETED = "completed", _("Authorized")
    FAILED = "failed", _("Refused")
    EXPIRED = "expired", _("Not answered in time")


class UserGrant(TokenColumns):
    """An authorization of one end user at one provider for the tools of an endpoint.

    credential: the OAuth client of Pegboard that receives the tokens. None: the vendor stores the tokens and
    reports the state at `check_url`.
    scopes: the requested or authorized scopes. sent_scopes: those of the last redirect. granted_scopes: those
    of the stored tokens, which are used while the user is asked for more. Old rows have neither.
    asked: the number of requests to the user. call: the last call that met the challenge.
    resumes: calls of the user continue when the state is `completed` (serving/resumed_calls.py).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    end_user = models.ForeignKey(EndUser, on_delete=models.CASCADE, related_name="grants")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="user_grants")
    provider = models.CharField(max_length=500)
    scopes = models.TextField(blank=True)
    sent_scopes = models.TextField(null=True)  # noqa: DJ001 - none is not the same as not known
    granted_scopes = models.TextField(null=True)  # noqa: DJ001 - as above
    asked = models.PositiveIntegerField(default=0, db_default=0)
    state = models.CharField(max_length=10, choices=GrantState.choices, default=GrantState.PENDING)
    url = models.CharField(max_length=2048, blank=True)
    check_url = models.CharField(max_length=2048, blank=True)
    opened_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, help_text="Until when the user may answer.")
    settled_at = models.DateTimeField(null=True)
    message = models.CharField(max_length=300, blank=True, help_text="What the last look at it met.")
    next_check_at = models.DateTimeField(null=True)
    checks = models.PositiveIntegerField(default=0)
    call = models.ForeignKey(Call, null=True, on_delete=models.SET_NULL, related_name="+")
    resumes = models.BooleanField(default=False)

    credential = models.ForeignKey(Credential, null=True, on_delete=models.PROTECT, related_name="+")
    link_digest = models.CharField(max_length=64, blank=True, db_index=True)
    state_digest = models.CharField(max_length=64, blank=True)
    verifier = EncryptedField(blank=True)
    verifier_key_id = KeyIdField("verifier")
    token_expires_at = models.DateTimeField(null=True)

    objects = TimedQuerySet["UserGrant"].as_manager()

    class Meta:
        ordering = ["-opened_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["end_user", "endpoint", "provider"], name="one_grant_per_user_and_provider"
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=GrantState.values), name="user_grant_state_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_check_at"],
                condition=models.Q(state=GrantState.PENDING),
                name="user_grant_to_check",
            )
        ]

    def __str__(self) -> str:
        return f"{self.end_user} at {self.provider}"

    @property
    def held_scopes(self) -> list[str]:
        """The scopes of the stored tokens."""
        if self.granted_scopes is None and self.state == GrantState.COMPLETED:
            return self.scopes.split()
        return (self.granted_scopes or "").split() if self.access_token else []

    @property
    def refused_scopes(self) -> list[str]:
        """The last requested scopes that the tokens do not include."""
        if self.state != GrantState.COMPLETED or not self.access_token:
            return []
        return [scope for scope in self.scopes.split() if scope not in self.held_scopes]

    @property
    def is_asked_for_more(self) -> bool:
        return self.state == GrantState.PENDING and bool(self.access_token)

    def covers(self, scopes: Iterable[str]) -> bool:
        """Return whether a tool with these scopes can run without another authorization."""
        if self.credential_id is None:
            return self.state == GrantState.COMPLETED
        return bool(self.access_token) and set(scopes) <= set(self.held_scopes)


class EndpointSecret(models.Model):
    """A value that tools of an endpoint need by name. Administrators enter it, and it is never shown again.

    It is sent only to `origin`, like a credential.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(_("Name"), max_length=500, help_text=_("The name that tools use for the secret."))
    sealed = EncryptedField()
    key_id = KeyIdField("sealed")
    fingerprint = models.CharField(max_length=16)
    origin = models.CharField(max_length=300)
    set_at = models.DateTimeField(default=timezone.now)
    set_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "name"], name="one_secret_per_name"),
        ]

    def __str__(self) -> str:
        return self.name


class ProviderClient(models.Model):
    """The credential whose OAuth client users of an endpoint's tools use at a provider."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="provider_clients")
    provider = models.CharField(max_length=500)
    credential = models.ForeignKey(Credential, on_delete=models.PROTECT, related_name="provider_clients")

    class Meta:
        ordering = ["provider"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "provider"], name="one_client_per_provider"),
        ]

    def __str__(self) -> str:
        return self.provider
