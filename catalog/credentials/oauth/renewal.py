"""The tokens of a credential: the request, the stored columns and the audit entry of a renewal, and the
tokens that are due for one.

docs/decisions/0013-oauth.md has the reasons.
"""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from catalog.credentials.oauth import grant_requests, token_request
from catalog.credentials.oauth.errors import NeedsSignInError, moment, sign_in_again
from catalog.credentials.oauth.token_holder import NO_FAILURE, NO_LEASE, NOT_TAKEN_CODE, TokenHolder, early
from catalog.credentials.oauth.token_replies import Tokens
from catalog.models import Grant
from catalog.models.vendors import OAuthKind
from catalog.notifications import outbox
from core import encryption
from core.encryption import Secret
from core.errors import DomainError
from core.outbound.errors import ProtocolError, RefusedError
from people import audit

# An unused token is renewed on demand only.
USED_LATELY = timedelta(days=1)
MAX_AT_ONCE = 200
NO_TOKENS: dict[str, Any] = {"access_token": "", "refresh_token": "", "expires_at": None, "renew_at": None}
NO_ERROR: dict[str, Any] = NO_FAILURE | {"ended_at": None}
NOT_TAKEN = (
    "The vendor refused a new token. Check the scope, the resource and the audience of this credential, or "
    "ask the vendor."
)


class CredentialTokens(TokenHolder[Grant]):
    """The tokens of a credential. Its grant is both the row and the client."""

    def __init__(self, grant: Grant) -> None:
        super().__init__(grant, grant)
        self.name = grant.credential.name
        self.expires_at = grant.expires_at
        self.renews_with_refresh_token = grant.credential.kind == OAuthKind.CODE

    def decrypted(self, column: str) -> Secret:
        return token_request.decrypt_column(self.row, column)

    def request_fields(self) -> tuple[Mapping[str, str], list[Secret]]:
        if not self.renews_with_refresh_token:
            return grant_requests.client_fields(self.row), []
        refresh_token = self.decrypted("refresh_token")
        return grant_requests.refresh_fields(self.row, refresh_token), [refresh_token]

    def token_columns(self, tokens: Tokens, elapsed_seconds: float) -> dict[str, Any]:
        return columns_for(self.row, tokens, elapsed_seconds)

    def record_renewal(self, columns: Mapping[str, Any]) -> None:
        # A renewal that ends a failure or changes the scope. Others change no decision.
        grant = self.row
        scope = columns.get("granted_scope", grant.granted_scope)
        before = {"error": grant.error_code, "scope": grant.granted_scope}
        after = {"error": "", "scope": scope, "server": _server_of(grant)}
        was_lost = grant.started_at is not None and self.renews_with_refresh_token
        if grant.error_code or was_lost:
            reason = "Its token was renewed."
            if was_lost and grant.started_at:
                reason += (
                    f" No reply had come to a renewal at {moment(grant.started_at)}; the server took the "
                    "same refresh token again."
                )
            audit.record(None, "recover", grant.credential, before=before, after=after, why=reason)
        elif grant.generation and scope != grant.granted_scope:
            reason = "The server granted other scopes when the token was renewed."
            audit.record(None, "renew", grant.credential, before=before, after=after, why=reason)

    def record_failure(self, error: ProtocolError, columns: Mapping[str, Any]) -> None:
        facts = {"code": error.code, "server": _server_of(self.row)}
        verdict = "refuse" if "refused_at" in columns else "fail"
        audit.record(None, verdict, self.row.credential, after=facts, why=error.message)

    def end(self, code: str, reason: str, since: datetime | None) -> NeedsSignInError:
        message = sign_in_again(self.row.now, reason)
        if since:
            reason = (
                "a renewal was interrupted then, and the server does not take the old refresh token any more"
            )
            message = sign_in_again(since, reason)
        end_sign_in(self.row, self.unchanged_row(), code, message)
        return NeedsSignInError(message)

    def raise_if_over(self, refused_generation: int | None) -> None:
        grant = self.row
        if grant.ended_at:
            raise NeedsSignInError(grant.error_message)
        if grant.generation == refused_generation and grant.error_code == NOT_TAKEN_CODE:
            raise RefusedError(NOT_TAKEN_CODE, NOT_TAKEN)
        if not self.renews_with_refresh_token or grant.refresh_token:
            return
        if not grant.access_token:
            raise NeedsSignInError(f"“{grant.credential}” needs a sign-in before it can be used.")
        problem, since = "is over", grant.expires_at or grant.now
        if grant.generation == refused_generation:
            problem, since = "is not taken by the vendor any more", grant.now
        reason = f"the token {problem}, and the server gave nothing to renew it with"
        message = sign_in_again(since, reason)
        end_sign_in(grant, self.unchanged_row(), "TOKEN_OVER", message)
        raise NeedsSignInError(message)


def _server_of(grant: Grant) -> str:
    return urlsplit(grant.token_url).netloc


def columns_for(
    grant: Grant, tokens: Tokens, elapsed_seconds: float, *, is_sign_in: bool = False
) -> dict[str, Any]:
    """Return the columns of a token reply. `elapsed_seconds`: the seconds since its request."""
    # A reply without a refresh token keeps the old one. A reply without a scope means the requested one or
    # the previous one (RFC 6749 sections 5.1 and 6).
    is_code = grant.credential.kind == OAuthKind.CODE
    changes: dict[str, Any] = {
        **NO_ERROR,
        **NO_LEASE,
        "started_at": None,
        "access_token": encryption.encrypt(
            tokens.access, row=grant.pk, field=token_request.field_of("access_token")
        ),
        "obtained_at": Now(),
        "expires_at": None,
        "renew_at": None,
        "token_note": tokens.note,
    }
    if is_code and tokens.refresh:
        changes["refresh_token"] = encryption.encrypt(
            tokens.refresh, row=grant.pk, field=token_request.field_of("refresh_token")
        )
    elif is_sign_in:
        changes["refresh_token"] = ""
    if tokens.scope is not None:
        changes["granted_scope"] = tokens.scope
    elif is_sign_in or not is_code:
        changes["granted_scope"] = grant.scope
    if tokens.seconds is not None:
        remaining_seconds = tokens.seconds - elapsed_seconds
        changes["expires_at"] = Now() + timedelta(seconds=remaining_seconds)
        if not is_code or tokens.refresh or not is_sign_in:
            changes["renew_at"] = Now() + timedelta(seconds=remaining_seconds - early(tokens.seconds))
    return changes


def end_sign_in(grant: Grant, rows: QuerySet[Grant], code: str, message: str) -> None:
    """End the sign-in, if `rows` still contains it unchanged."""
    with transaction.atomic(durable=True):
        ended = rows.update(
            **NO_TOKENS,
            **NO_LEASE,
            generation=F("generation") + 1,
            started_at=None,
            retry_at=None,
            ended_at=Now(),
            failed_at=Now(),
            error_code=code,
            error_message=message[:1000],
        )
        if ended:
            outbox.report_needed_sign_in(grant.credential_id)
            facts = {"code": code, "server": _server_of(grant)}
            audit.record(None, "end sign-in", grant.credential, after=facts, why=message)


def due() -> list[uuid.UUID]:
    """Return the credentials whose used tokens should be renewed now, before a caller must wait."""
    free = Q(lease_until=None) | Q(lease_until__lte=Now())
    ready = Q(retry_at=None) | Q(retry_at__lte=Now())
    rows = Grant.objects.filter(
        free,
        ready,
        renew_at__lte=Now(),
        used_at__gt=Now() - USED_LATELY,
        ended_at=None,
        refused_at=None,
        credential__removed_at=None,
    )
    return list(rows.order_by("renew_at").values_list("credential_id", flat=True)[:MAX_AT_ONCE])


def renew_early(credential_id: uuid.UUID) -> None:
    """Renew a due token. Errors are stored in its row."""
    rows = Grant.objects.filter(credential_id=credential_id, renew_at__lte=Now())
    grant = rows.select_related("credential").timed().first()
    if grant is None or not grant.access_token:
        return
    holder = CredentialTokens(grant)
    if holder.may_renew():
        with suppress(ProtocolError, DomainError):
            holder.renew()
