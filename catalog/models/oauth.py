"""OAuth grants: requests to authorization servers, and their results."""

import uuid
from datetime import datetime
from typing import Any, Self, TypeVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.vendors import Credential
from core.encryption import EncryptedField, KeyIdField
from core.oauth.client import ClientAuthentication

Row = TypeVar("Row", bound=models.Model)


class TimedQuerySet(models.QuerySet[Row]):
    def timed(self) -> Self:
        """Add `now`, the time of the database at the read."""
        time: dict[str, Any] = {"now": Now()}
        return self.annotate(**time)


class TokenColumns(models.Model):
    """The tokens of one sign-in, and the state of their renewal (catalog/credentials/oauth/token_holder.py).

    Both change only by conditional updates on `generation`, which each change increments, so a late process
    changes nothing. `lease` and `started_at` are committed before a token request. `started_at` stays while
    the result of the first such request is unknown. All times are those of the database.
    """

    now: datetime

    generation = models.PositiveIntegerField(default=0)
    access_token = EncryptedField(blank=True)
    access_key_id = KeyIdField("access_token")
    refresh_token = EncryptedField(blank=True)
    refresh_key_id = KeyIdField("refresh_token")
    renew_at = models.DateTimeField(null=True)

    lease = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)

    failures = models.PositiveIntegerField(default=0, db_default=0)
    retry_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error_code = models.CharField(max_length=40, blank=True, default="", db_default="")
    error_message = models.CharField(max_length=1000, blank=True, default="", db_default="")
    refused_at = models.DateTimeField(null=True, help_text="Since when a person has to look at this.")

    class Meta:
        abstract = True


class Grant(TokenColumns):
    """The OAuth 2 settings and tokens of a credential. The credential contains the client secret."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    credential = models.OneToOneField(Credential, on_delete=models.CASCADE, related_name="grant")

    token_url = models.CharField(
        _("Token address"),
        max_length=2048,
        help_text=_("The token endpoint. The client secret is sent only to this address."),
    )
    authorization_url = models.CharField(
        _("Sign-in address"),
        max_length=2048,
        blank=True,
        help_text=_("Where your browser goes to sign in (the authorization endpoint)."),
    )
    revocation_url = models.CharField(
        _("Revocation address"),
        max_length=2048,
        blank=True,
        default="",
        db_default="",
        help_text=_(
            "Notified when Pegboard deletes tokens (RFC 7009). At the same host as the token address, or "
            "empty."
        ),
    )
    issuer = models.CharField(
        _("Issuer"),
        max_length=500,
        blank=True,
        help_text=_("The identifier of the authorization server. Pegboard compares it exactly."),
    )
    states_issuer = models.BooleanField(
        _("Refuse a reply that does not name the issuer"),
        default=False,
        help_text=_("The server promises to name itself in the reply to a sign-in (RFC 9207)."),
    )
    client_id = models.CharField(_("Client id"), max_length=500)
    client_authentication = models.CharField(
        _("How the client proves who it is"),
        max_length=10,
        choices=ClientAuthentication.choices,
        default=ClientAuthentication.BASIC,
    )
    public_key = models.JSONField(
        null=True, help_text="What the server knows us by that signs what we say (RFC 7517)."
    )
    scope = models.CharField(
        _("Scopes"), max_length=2000, blank=True, help_text=_("With spaces between them.")
    )
    wanted_scope = models.CharField(
        max_length=2000,
        blank=True,
        default="",
        db_default="",
        help_text="What the vendor wants a token to have beyond that (RFC 6750, insufficient_scope).",
    )
    resource = models.CharField(
        _("Resource"),
        max_length=2048,
        blank=True,
        help_text=_("What the tokens are for (RFC 8707), usually the vendor's address."),
    )
    audience = models.CharField(
        _("Audience"), max_length=500, blank=True, help_text=_("If the vendor requires it.")
    )
    parameters = models.JSONField(
        _("More parameters"),
        default=dict,
        blank=True,
        help_text=_("One name=value on each line, as the vendor documents them."),
    )
    registered_at = models.DateTimeField(
        null=True, help_text="When the server made this client because we asked it to (RFC 7591)."
    )
    secret_expires_at = models.DateTimeField(null=True, help_text="Of a client that we registered.")

    obtained_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(
        null=True, help_text="Empty with a token: it lives until it is refused."
    )
    used_at = models.DateTimeField(null=True)
    granted_scope = models.CharField(max_length=4000, blank=True)
    token_note = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        help_text="What was odd in the reply that brought the token.",
    )
    signed_in_at = models.DateTimeField(null=True)
    signed_in_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    ended_at = models.DateTimeField(null=True, help_text="Since when a person has to sign in again.")

    objects = TimedQuerySet["Grant"].as_manager()

    class Meta:
        indexes = [
            models.Index(
                fields=["renew_at"], condition=models.Q(ended_at=None, refused_at=None), name="grant_to_renew"
            )
        ]

    def __str__(self) -> str:
        return f"Grant for {self.credential}"


class SignIn(models.Model):
    """An open sign-in of one user in one session, from the redirect to the return.

    Secrets are stored as SHA-256 (hexadecimal). The first use deletes the row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    credential = models.ForeignKey(Credential, on_delete=models.CASCADE, related_name="sign_ins")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    session_digest = models.CharField(max_length=64)
    state_digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(
        max_length=2000, blank=True, default="", db_default="", help_text="What is asked for this time."
    )
    verifier = EncryptedField()
    verifier_key_id = KeyIdField("verifier")
    redirect_uri = models.CharField(max_length=2048)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="sign_in_created")]

    def __str__(self) -> str:
        return f"Sign-in for {self.credential}"
