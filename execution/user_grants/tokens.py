"""Access tokens of end users at a provider, renewed as those of credentials are (token_holder.py)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.credentials.oauth import grant_requests, revocation, token_holder
from catalog.credentials.oauth.errors import NeedsSignInError, moment
from catalog.credentials.oauth.token_holder import Token, TokenHolder
from catalog.credentials.oauth.token_replies import Tokens
from catalog.models import Credential, Endpoint, EndUser, UserGrant
from catalog.models.user_grants import GrantState
from core.encryption import Secret
from execution.user_grants import authorizing, grants
from people import audit

NOT_RENEWED = "The provider does not renew the token any more."


def token_for(
    user: EndUser, endpoint: Endpoint, provider: str, credential: Credential, scopes: Sequence[str]
) -> str | None:
    """Return a valid token, or None if the user must authorize first. Raises ProtocolError, DomainError."""
    # In any state, because a user who has to grant more scopes keeps the earlier ones.
    rows = UserGrant.objects.filter(
        end_user=user, endpoint=endpoint, provider=provider, credential=credential
    ).exclude(access_token="")

    def read_holder() -> UserTokens:
        grant = rows.timed().select_related("end_user").first()
        if grant is None or not grant.covers(scopes):
            raise NeedsSignInError("The user has to authorize this first.")
        return UserTokens(grant, credential, scopes)

    try:
        return token_holder.acquire(read_holder).secret.reveal()
    except NeedsSignInError:
        return None


class UserTokens(TokenHolder[UserGrant]):
    """The tokens of an end user, received by Pegboard's client at the provider.

    scopes: those that the token is needed for.
    """

    renews_with_refresh_token = True

    def __init__(self, grant: UserGrant, credential: Credential, scopes: Sequence[str]) -> None:
        super().__init__(grant, authorizing.client_of(credential, " ".join(grant.held_scopes)))
        self.name = str(grant)
        self.scopes = scopes
        self.expires_at = grant.token_expires_at
        if not grant.refresh_token:
            grant.renew_at = None
        elif grant.token_expires_at and not grant.renew_at:
            # Earlier releases stored no time of renewal.
            grant.renew_at = grant.token_expires_at - timedelta(seconds=token_holder.EARLY_SECONDS)

    def decrypted(self, column: str) -> Secret:
        return grants.decrypt_column(self.row, column)

    def request_fields(self) -> tuple[Mapping[str, str], list[Secret]]:
        refresh_token = self.decrypted("refresh_token")
        return grant_requests.refresh_fields(self.client, refresh_token), [refresh_token]

    def renew(self) -> Token | None:
        token = super().renew()
        if token and not set(self.scopes) <= set(self.row.held_scopes):
            raise NeedsSignInError("The provider renewed the token with fewer scopes.")
        return token

    def token_columns(self, tokens: Tokens, elapsed_seconds: float) -> dict[str, Any]:
        columns = authorizing.columns_for(
            self.row, self.client, tokens, elapsed_seconds, self.row.held_scopes
        )
        return columns | {"message": tokens.note} if tokens.note else columns

    def record_renewal(self, columns: Mapping[str, Any]) -> None:
        self.row.granted_scopes = columns["granted_scopes"]

    def end(self, code: str, reason: str, since: datetime | None) -> NeedsSignInError:
        doubt = f" No reply had come to a renewal at {moment(since)}." if since else ""
        _end_grant(self.row, NOT_RENEWED + doubt)
        return NeedsSignInError(NOT_RENEWED)

    def raise_if_over(self, refused_generation: int | None) -> None:
        if not self.row.refresh_token:
            message = "The token has expired, and the provider issued no refresh token."
            _end_grant(self.row, message)
            raise NeedsSignInError(message)

    def handle_outdated(self, tokens: Tokens) -> None:
        # Only for a deleted grant: a new authorization may share its sign-in with these tokens.
        if UserGrant.objects.filter(pk=self.row.pk).exists():
            return
        received = {"access_token": tokens.access, "refresh_token": tokens.refresh}

        def decrypted(column: str) -> Secret:
            return received[column] or self.decrypted(column)

        revocation.prepare_users(self.row, self.client, decrypted).after_commit(None)


def _end_grant(grant: UserGrant, why: str) -> None:
    with transaction.atomic():
        rows = UserGrant.objects.filter(pk=grant.pk, generation=grant.generation)
        cleared_columns = grants.NO_TOKENS | {"generation": grant.generation + 1, "message": why}
        # An unanswered question keeps waiting.
        settled = rows.exclude(state=GrantState.PENDING)
        ended = settled.update(**cleared_columns, state=GrantState.EXPIRED, settled_at=Now()) or rows.update(
            **cleared_columns
        )
        if ended:
            facts = {"provider": grant.provider, "endpoint": grant.endpoint_id}
            audit.record(None, "expire", grant, after=facts, why=why, agent=grant.end_user.agent)


def note_refusal(grant: UserGrant) -> None:
    """Record that the vendor requires another authorization despite this token."""
    _end_grant(grant, "The vendor refused the token.")
