"""Access tokens of end users at a provider, renewed by one process at a time.

As for credentials (catalog/credentials/oauth/renewal.py): first a lease, then a request outside of any
transaction. The reply is stored only if the grant still has the generation of the request.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from catalog.credentials.oauth import grant_requests, revocation
from catalog.credentials.oauth.errors import BusyError
from catalog.credentials.oauth.token_replies import OAuthError, Tokens
from catalog.models import Credential, Endpoint, EndUser, Grant, UserGrant
from catalog.models.user_grants import GrantState
from core.encryption import Secret
from core.outbound.errors import ProtocolError
from core.postgresql.base import give_back
from execution.user_grants import authorizing, grants
from people import audit

EARLY = timedelta(seconds=60)
LEASE = timedelta(seconds=40)  # longer than one token request
MAX_WAIT, PAUSE = 20.0, 0.2  # seconds that one waits for another's renewal


def token_for(
    user: EndUser, endpoint: Endpoint, provider: str, credential: Credential, scopes: Sequence[str]
) -> str | None:
    """Return a valid token, or None if the user must authorize first. Raises ProtocolError, DomainError."""
    ends = time.monotonic() + MAX_WAIT
    # In any state, because a user who has to grant more scopes keeps the earlier ones.
    rows = UserGrant.objects.filter(
        end_user=user, endpoint=endpoint, provider=provider, credential=credential
    )
    while grant := rows.exclude(access_token="").select_related("end_user").first():
        if not grant.covers(scopes):
            return None
        if grant.token_expires_at is None or grant.token_expires_at > timezone.now() + EARLY:
            return grants.decrypted(grant, "access_token").reveal()
        if not grant.refresh_token:
            _end(grant, "The token is over, and the provider gave nothing to renew it with.")
            return None
        free = Q(lease_until=None) | Q(lease_until__lte=Now())
        free_grant = UserGrant.objects.filter(free, pk=grant.pk, generation=grant.generation)
        if free_grant.update(lease_until=Now() + LEASE):
            if token := _renew(grant, credential, scopes):
                return token
            continue  # it ended, or is another one now
        if time.monotonic() >= ends:
            raise BusyError(str(grant))
        give_back()
        time.sleep(PAUSE)
    return None


def _renew(grant: UserGrant, credential: Credential, scopes: Sequence[str]) -> str | None:
    client = authorizing.client_of(credential, " ".join(grant.held_scopes))
    refresh = grants.decrypted(grant, "refresh_token")
    current_grant = UserGrant.objects.filter(pk=grant.pk, generation=grant.generation)
    began = time.monotonic()
    try:
        tokens = authorizing.request_tokens(client, grant_requests.refresh_fields(client, refresh), [refresh])
    except ProtocolError as error:
        if isinstance(error, OAuthError) and error.error == "invalid_grant":
            _end(grant, "The provider does not renew the token any more.")
            return None
        current_grant.update(lease_until=None)
        raise
    elapsed = time.monotonic() - began
    columns = authorizing.columns_for(grant, client, tokens, elapsed, grant.held_scopes)
    if tokens.note:
        columns["message"] = tokens.note
    if not current_grant.update(**columns):
        _revoke_forgotten(grant, client, tokens)
        return None
    is_enough = set(scopes) <= set(columns["granted_scopes"].split())
    return tokens.access.reveal() if is_enough else None


def _revoke_forgotten(grant: UserGrant, client: Grant, tokens: Tokens) -> None:
    # Only for a deleted grant: a new authorization at the provider may share its sign-in with these tokens.
    if UserGrant.objects.filter(pk=grant.pk).exists():
        return
    new = {"access_token": tokens.access, "refresh_token": tokens.refresh}

    def opened(column: str) -> Secret:
        return new[column] or grants.decrypted(grant, column)

    revocation.prepare_users(grant, client, opened).after_commit(None)


def _end(grant: UserGrant, why: str) -> None:
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
    _end(grant, "The vendor did not take the token.")
