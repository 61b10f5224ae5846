"""What tools need beside their inputs: whom they act for, what that user has authorized, and secrets."""

import uuid
from collections.abc import Iterable

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models.calls import Call
from catalog.models.vendors import Credential, Endpoint
from core.encryption import EncryptedField, KeyIdField


class EndUser(models.Model):
    """A user of an agent, as its runtimes name them. Two agents that give the same name mean two users.

    `digest` is a keyed digest of agent and name, by which calls know the user; `sealed` is the name, which
    vendors are told. No foreign key to the agent, because agents lie above the catalog.
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
        """By which people tell users apart; the name itself is shown nowhere."""
        return self.digest[:8]


class GrantState(models.TextChoices):
    PENDING = "pending", "Waiting for the user"
    COMPLETED = "completed", "Authorized"
    FAILED = "failed", "Refused"
    EXPIRED = "expired", "Not answered in time"


class UserGrant(models.Model):
    """What one end user has authorized, or is asked to, at one provider that the tools of an endpoint name.

    With a `credential` the authorization is ours: an OAuth client of that credential gets the tokens. Without
    one it is the vendor's, who keeps the tokens and says at `check_url` how far it is. `generation` goes up
    with each change of the tokens, and what a process found out under an older one is not written.

    `scopes` are those that the user is asked for, or has authorized; `sent_scopes` those that a browser went
    away with, and `granted_scopes` those of the tokens that are held. Tokens that are held are used while the
    user is asked for more. Rows from before that was kept have neither. `asked` counts the questions.

    `call` is the last one that met the challenge. With `resumes` there are calls of the user that go on once
    the state is `completed` (executor/resumed_calls.py).
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
    access_token = EncryptedField(blank=True)
    access_key_id = KeyIdField("access_token")
    refresh_token = EncryptedField(blank=True)
    refresh_key_id = KeyIdField("refresh_token")
    token_expires_at = models.DateTimeField(null=True)
    generation = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)

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
        """What the tokens that are held are good for."""
        if self.granted_scopes is None and self.state == GrantState.COMPLETED:
            return self.scopes.split()
        return (self.granted_scopes or "").split() if self.access_token else []

    @property
    def refused_scopes(self) -> list[str]:
        """Those that the user was asked for last, and that the tokens are not good for."""
        if self.state != GrantState.COMPLETED or not self.access_token:
            return []
        return [scope for scope in self.scopes.split() if scope not in self.held_scopes]

    @property
    def is_asked_for_more(self) -> bool:
        return self.state == GrantState.PENDING and bool(self.access_token)

    def covers(self, scopes: Iterable[str]) -> bool:
        """Whether a tool that needs these can run without another answer of the user."""
        if self.credential_id is None:
            return self.state == GrantState.COMPLETED
        return bool(self.access_token) and set(scopes) <= set(self.held_scopes)


class EndpointSecret(models.Model):
    """A value that tools of an endpoint ask for by name; entered by an administrator and never shown again.

    It goes to `origin` alone, as a credential does.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=500)
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
    """As which OAuth client users of an endpoint's tools authorize at a provider: that of a credential."""

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
