"""Authorizations of end users: opened by a challenge, settled once, forgotten by a person.

Each change is one transaction with its audit row. Who asks whether a user has answered:
catalog/calls/challenges.py.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.models import Call, Credential, EndUser, UserGrant
from catalog.models.user_grants import GrantState
from people import audit
from people.models import User

# How long a user may take; then nothing is asked any more, and the next call opens the grant anew.
LIFE = timedelta(hours=1)
FIRST_CHECK_AFTER = timedelta(seconds=2)
MAX_URL_LENGTH, MAX_PROVIDER_LENGTH, MAX_SCOPES_LENGTH = 2048, 500, 2000
VERBS = {
    GrantState.COMPLETED: "authorize",
    GrantState.FAILED: "refuse",
    GrantState.EXPIRED: "expire",
}
NO_TOKENS = {"access_token": "", "refresh_token": "", "token_expires_at": None, "lease_until": None}


def user_of(call: Call) -> EndUser | None:
    return EndUser.objects.filter(agent=call.agent or 0, digest=call.on_behalf_of).first()


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
    """The grant of this user at this provider, waiting from now on. `check_url` is asked unless it is said
    why not."""
    asked: dict[str, Any] = {
        "state": GrantState.PENDING,
        "scopes": " ".join(scopes)[:MAX_SCOPES_LENGTH],
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
    named: dict[str, Any] = {
        "end_user": user,
        "endpoint": endpoint,
        "provider": provider[:MAX_PROVIDER_LENGTH],
    }
    before = UserGrant.objects.select_for_update().filter(**named).first()
    # Another call that meets the same provider takes nothing away from those that wait for it.
    asked["resumes"] = call.resumes_when_granted or bool(before and before.resumes)
    if before and before.credential_id != (credential and credential.pk):
        # Tokens, and an authorization on its way, are of the other server alone.
        asked |= {**NO_TOKENS, "generation": before.generation + 1, "state_digest": "", "verifier": ""}
    grant, _ = UserGrant.objects.update_or_create(**named, defaults=asked)
    facts = {"provider": grant.provider, "endpoint": endpoint.pk, "call": call.pk}
    # A user who is asked again, because the model tried again, is the same question.
    if before is None or before.state != GrantState.PENDING:
        audit.record(None, "ask", grant, after=facts, why="A tool needs it.", agent=user.agent)
    return grant


def settle(grant: UserGrant, state: GrantState, message: str, **columns: Any) -> bool:
    """The one end of a wait: False when it has ended otherwise meanwhile."""
    with transaction.atomic():
        rows = UserGrant.objects.filter(pk=grant.pk, state=GrantState.PENDING, opened_at=grant.opened_at)
        settled = rows.update(
            state=state, settled_at=Now(), message=message[:300], next_check_at=None, **columns
        )
        if settled:
            facts = {"provider": grant.provider, "endpoint": grant.endpoint_id}
            audit.record(None, VERBS[state], grant, after=facts, why=message, agent=grant.end_user.agent)
    return bool(settled)


def visible_to(user: User) -> QuerySet[UserGrant]:
    """Those of users of the agents that `user` may see."""
    rows = UserGrant.objects.select_related("end_user", "endpoint__vendor")
    if user.can_administer:
        return rows
    return rows.filter(end_user__agent__in=audit.agents_seen_by(user))


@transaction.atomic
def forget(grant: UserGrant, *, actor: User) -> None:
    """The grant goes with its tokens. A user without any grant is forgotten, too."""
    facts = {"provider": grant.provider, "endpoint": grant.endpoint_id, "state": grant.state}
    audit.record(actor, "forget", grant, before=facts, agent=grant.end_user.agent)
    user = grant.end_user
    grant.delete()
    if not user.grants.exists():
        user.delete()
