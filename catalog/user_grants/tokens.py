"""The access token of a user at a provider, renewed by one process at a time.

As for credentials (catalog/credentials/oauth/renewal.py): a lease first, then the server is asked outside of
any transaction, and its reply is kept only if the grant is still of the generation it was asked for.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from catalog.credentials.oauth import grant_requests
from catalog.credentials.oauth.errors import BusyError
from catalog.credentials.oauth.token_replies import OAuthError
from catalog.models import Credential, Endpoint, EndUser, UserGrant
from catalog.models.user_grants import GrantState
from catalog.user_grants import authorizing, grants
from core.outbound.errors import ProtocolError
from core.postgresql.base import give_back
from people import audit

EARLY = timedelta(seconds=60)
LEASE = timedelta(seconds=40)  # longer than one token request
MAX_WAIT, PAUSE = 20.0, 0.2  # seconds that one waits for another's renewal


def token_for(
    user: EndUser, endpoint: Endpoint, provider: str, credential: Credential, scopes: Sequence[str]
) -> str | None:
    """None where the user has to authorize it first. Raises ProtocolError, DomainError."""
    ends = time.monotonic() + MAX_WAIT
    rows = UserGrant.objects.filter(
        end_user=user,
        endpoint=endpoint,
        provider=provider,
        credential=credential,
        state=GrantState.COMPLETED,
    )
    while grant := rows.exclude(access_token="").select_related("end_user").first():
        if not set(scopes) <= set(grant.scopes.split()):
            return None
        if grant.token_expires_at is None or grant.token_expires_at > timezone.now() + EARLY:
            return authorizing.decrypted(grant, "access_token").reveal()
        if not grant.refresh_token:
            _end(grant, "The token is over, and the provider gave nothing to renew it with.")
            return None
        free = Q(lease_until=None) | Q(lease_until__lte=Now())
        mine = UserGrant.objects.filter(free, pk=grant.pk, generation=grant.generation)
        if mine.update(lease_until=Now() + LEASE):
            return _renewed(grant, credential)
        if time.monotonic() >= ends:
            raise BusyError(str(grant))
        give_back()
        time.sleep(PAUSE)
    return None


def _renewed(grant: UserGrant, credential: Credential) -> str | None:
    client = authorizing.client_of(credential, grant.scopes)
    refresh = authorizing.decrypted(grant, "refresh_token")
    held = UserGrant.objects.filter(pk=grant.pk, generation=grant.generation)
    began = time.monotonic()
    try:
        tokens = authorizing.asked(client, grant_requests.refresh_fields(client, refresh), [refresh])
    except ProtocolError as error:
        if isinstance(error, OAuthError) and error.error == "invalid_grant":
            _end(grant, "The provider does not renew the token any more.")
            return None
        held.update(lease_until=None)
        raise
    held.update(**authorizing.columns_for(grant, tokens, time.monotonic() - began))
    return tokens.access.reveal()


def _end(grant: UserGrant, why: str) -> None:
    # The next call asks the user again.
    with transaction.atomic():
        rows = UserGrant.objects.filter(pk=grant.pk, generation=grant.generation)
        ended = rows.update(
            **grants.NO_TOKENS,
            state=GrantState.EXPIRED,
            settled_at=Now(),
            message=why,
            generation=grant.generation + 1,
        )
        if ended:
            facts = {"provider": grant.provider, "endpoint": grant.endpoint_id}
            audit.record(None, "expire", grant, after=facts, why=why, agent=grant.end_user.agent)


def note_refusal(grant: UserGrant) -> None:
    """The vendor asks for another authorization although it was given this one's token."""
    _end(grant, "The vendor did not take the token.")
