"""Authorizations of end users: opened by a challenge, settled once, deleted by a user.

Each change is a transaction with its audit entry. execution/calls/challenges.py polls for the users' answers.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from catalog.credentials.oauth import revocation
from catalog.credentials.oauth.revocation import Revocation
from catalog.credentials.oauth.token_holder import NO_FAILURE, NO_LEASE
from catalog.models import Call, Credential, Endpoint, EndUser, Grant, UserGrant
from catalog.models.user_grants import GrantState
from core import encryption
from core.encryption import Secret
from core.errors import DomainError
from people import audit
from people.models import User

# The time for an answer. Afterwards polling ends, and the next call opens the grant again.
LIFE = timedelta(hours=1)
FIRST_CHECK_AFTER = timedelta(seconds=2)
MAX_URL_LENGTH, MAX_PROVIDER_LENGTH = 2048, 500
VERBS = {
    GrantState.COMPLETED: "authorize",
    GrantState.FAILED: "refuse",
    GrantState.EXPIRED: "expire",
}
NO_TOKENS: dict[str, Any] = {
    **NO_FAILURE,
    **NO_LEASE,
    "started_at": None,
    "access_token": "",
    "refresh_token": "",
    "token_expires_at": None,
    "renew_at": None,
    "granted_scopes": None,
}


def user_of(call: Call) -> EndUser | None:
    return EndUser.objects.filter(agent=call.agent or 0, digest=call.on_behalf_of).first()


def refused_scopes(user: EndUser, endpoint: Endpoint, provider: str, scopes: Sequence[str]) -> list[str]:
    """Return the scopes among `scopes` that the user did not grant when asked last."""
    row = UserGrant.objects.filter(end_user=user, endpoint=endpoint, provider=provider).first()
    lacking = row.refused_scopes if row else []
    return [scope for scope in scopes if scope in lacking]


@transaction.atomic
def ask(
    user: EndUser,
    call: Call,
    provider: str,
    *,
    scopes: Sequence[str] = (),
    url: str = "",
    check_url: str = "",
    why_not_checked: str = "",
    credential: Credential | None = None,
) -> UserGrant:
    """Open the grant of this user at this provider. `check_url` is polled unless `why_not_checked` has a
    reason."""
    request_columns: dict[str, Any] = {
        "state": GrantState.PENDING,
        "scopes": " ".join(scopes),
        "url": url,
        "check_url": check_url,
        "opened_at": Now(),
        "expires_at": Now() + LIFE,
        "settled_at": None,
        "message": why_not_checked[:300],
        "next_check_at": Now() + FIRST_CHECK_AFTER if check_url and not why_not_checked else None,
        "checks": 0,
        "call": call,
        "credential": credential,
    }
    endpoint = call.version.tool.endpoint
    # A deleted user is not asked.
    if not EndUser.objects.select_for_update(no_key=True).filter(pk=user.pk).exists():
        raise DomainError("USER_FORGOTTEN", "The user of this call was deleted meanwhile. Call again.")
    names_of_user: dict[str, Any] = {
        "end_user": user,
        "endpoint": endpoint,
        "provider": provider[:MAX_PROVIDER_LENGTH],
    }
    before = UserGrant.objects.select_for_update().filter(**names_of_user).first()
    # Another call at the same provider does not remove the scopes that earlier calls wait for.
    request_columns["resumes"] = call.resumes_when_granted or bool(before and before.resumes)
    is_of_another = before and before.credential_id != (credential and credential.pk)
    if before is None or before.state != GrantState.PENDING or is_of_another:
        request_columns["asked"] = (before.asked if before else 0) + 1
    if before and before.granted_scopes is None and before.access_token:
        # For rows of earlier releases. While such a row waits, its `scopes` are more exact than its tokens.
        request_columns["granted_scopes"] = " ".join(before.held_scopes)
    if before and is_of_another:
        # Tokens, and an authorization on its way, are of the other server alone.
        request_columns |= {
            **NO_TOKENS,
            "generation": before.generation + 1,
            "state_digest": "",
            "verifier": "",
        }
    grant, _ = UserGrant.objects.update_or_create(**names_of_user, defaults=request_columns)
    facts = {"provider": grant.provider, "endpoint": endpoint.pk, "call": call.pk}
    # A repeated call asks the same question.
    if before is None or before.state != GrantState.PENDING:
        audit.record(None, "ask", grant, after=facts, why="A tool needs it.", agent=user.agent)
    return grant


def settle(grant: UserGrant, state: GrantState, message: str, **columns: Any) -> bool:
    """End the wait for a grant. Return False if it has ended already.

    A user who refused additional scopes keeps the earlier ones.
    """
    with transaction.atomic():
        rows = UserGrant.objects.filter(pk=grant.pk, state=GrantState.PENDING, opened_at=grant.opened_at)
        ended = {"settled_at": Now(), "message": message[:300], "next_check_at": None, **columns}
        settled = 0
        if state != GrantState.COMPLETED:
            granted = rows.exclude(access_token="").exclude(granted_scopes=None)
            # The calls that wait do so for more than that.
            as_before = {"state": GrantState.COMPLETED, "scopes": F("granted_scopes"), "resumes": False}
            settled = granted.update(**ended, **as_before)
        settled = settled or rows.update(**ended, state=state)
        if settled:
            facts = {"provider": grant.provider, "endpoint": grant.endpoint_id}
            audit.record(None, VERBS[state], grant, after=facts, why=message, agent=grant.end_user.agent)
    return bool(settled)


def visible_to(user: User) -> QuerySet[UserGrant]:
    """Return the grants of users of the agents that `user` may see."""
    rows = UserGrant.objects.select_related("end_user", "endpoint__vendor")
    if user.can_administer:
        return rows
    return rows.filter(end_user__agent__in=audit.agents_seen_by(user))


@transaction.atomic
def forget(grant: UserGrant, *, actor: User) -> Revocation | None:
    """Delete the grant and its tokens, and the user if no other grant is left.

    The provider is requested to revoke the tokens after the commit. The `message` of the result reports the
    revocation; None if Pegboard had no tokens.
    """
    # A renewal may have changed the tokens since the row was read.
    rows = UserGrant.objects.select_related("end_user").select_for_update(of=("self",))
    current = rows.filter(pk=grant.pk).first()
    if current is None:
        raise DomainError("not_found", "This was deleted meanwhile.", status=404)
    grant = current
    if not grant.access_token:
        revoked = None
    else:
        client = Grant.objects.filter(credential=grant.credential_id).select_related("credential").first()
        if client is None:
            why_not = "Pegboard's client there was removed before."
            revoked = Revocation(grant, "", grant.provider, agent=grant.end_user.agent, why_not=why_not)
        else:
            revoked = revocation.prepare_users(grant, client, partial(decrypt_column, grant))
    facts = {"provider": grant.provider, "endpoint": grant.endpoint_id, "state": grant.state}
    audit.record(actor, "forget", grant, before=facts, agent=grant.end_user.agent)
    UserGrant.objects.filter(pk=grant.pk).delete()
    if not grant.end_user.grants.exists():
        grant.end_user.delete()
    return revoked.after_commit(actor) if revoked else None


def decrypt_column(grant: UserGrant, column: str) -> Secret:
    return encryption.decrypt(getattr(grant, column), row=grant.pk, field=field_of(column), name=str(grant))


def field_of(column: str) -> str:
    """Return the encryption context of a column."""
    return f"catalog.usergrant.{column}"
