"""Calls that stopped for an authorization of their user go on by themselves once it is there.

Each goes on once, as if its runtime had asked for that now: by the same user and key, if they still may, and
through the release that it was made through. Whatever settles a grant only settles it; this looks afterwards,
at any time and twice, so that no process that dies and no other one that settles at the same moment leaves a
call behind.
"""

import uuid

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import Http404
from django.utils import timezone

from catalog.calls import call_keys
from catalog.models import Call, UserGrant
from catalog.models.calls import ACTIVE_CALLS, CallStatus
from catalog.models.user_grants import GrantState
from catalog.user_grants import grants
from core.errors import DomainError
from core.outbound.errors import printable
from designer.models import Agent
from executor import calls
from people.models import Role
from people.permissions import allows, reason_against

AT_ONCE = 100
PASSES = (429, 503)  # as many calls as may be, no room: a later look finds place
NOT_ANY_MORE = "its key or its user may not make it any more."


class _Resuming:
    """What `allows` asks of a view."""

    invokes = True


def tick() -> None:
    """Every few seconds: what waits for grants that are there now."""
    there = UserGrant.objects.filter(
        state=GrantState.COMPLETED, resumes=True, settled_at__gt=Now() - grants.LIFE
    )
    for pk in there.order_by("settled_at").values_list("pk", flat=True)[:AT_ONCE]:
        go_on(pk)


def go_on(grant_id: uuid.UUID) -> None:
    """All calls that waited for this grant and for no other one. What stands against it is noted with the
    grant."""
    rows = UserGrant.objects.filter(pk=grant_id, state=GrantState.COMPLETED, resumes=True)
    grant = rows.select_related("end_user").first()
    if grant is None:
        return
    looks_again, message = False, grant.message
    pending = UserGrant.objects.filter(
        end_user=grant.end_user, endpoint=grant.endpoint_id, state=GrantState.PENDING
    )
    still_asked = {printable(name, 300) for name in pending.values_list("provider", flat=True)}
    for call in _waiting(grant):
        asked = {printable(ask.id, 300) for ask in call.decoded().asks}
        if call.is_active:
            looks_again = True  # the user was faster than the process that makes it
        elif printable(grant.provider, 300) in asked and not asked & still_asked:
            try:
                looks_again |= not _has_gone_on(call)
            except DomainError as error:
                looks_again |= error.status in PASSES
                message = f"The call did not go on: {error.message}"
    rows.filter(opened_at=grant.opened_at).update(resumes=looks_again, message=message[:300])


def _waiting(grant: UserGrant) -> QuerySet[Call]:
    # A user may take an hour; a call from before that would surprise.
    user = grant.end_user
    active = Q(status__in=ACTIVE_CALLS, queued_at__lte=grant.settled_at)
    stopped = Q(
        status=CallStatus.FINISHED, outcome="needs_authorization", finished_at__gt=Now() - grants.LIFE
    )
    rows = Call.objects.filter(active | stopped, resumes_when_granted=True, agent=user.agent)
    rows = rows.filter(on_behalf_of=user.digest, tool__endpoint=grant.endpoint_id).order_by("pk")
    return rows.select_related("version__tool__endpoint__vendor", "api_key__user", "requested_by")


def _has_gone_on(call: Call) -> bool:
    """False while its runtime goes on with it, which may come to nothing. Raises DomainError."""
    # The step of an activity goes on in the call that its runtime has asked for.
    while call.parent:
        call = call.parent
    if call.is_active:
        return False
    key, actor = call.api_key, call.requested_by
    may = actor and actor.is_active and not reason_against(actor, Role.DESIGNER)
    if key:
        may = may and key.user.is_active and key.is_usable(timezone.now())
        may = may and allows(key, _Resuming, "POST", Role.DESIGNER)
    seen = Agent.objects.live().visible_to(actor, key).filter(pk=call.agent or 0) if actor and may else None
    if actor is None or seen is None or not seen.exists():
        raise DomainError("forbidden", NOT_ANY_MORE, status=403)
    try:
        release, tool = calls.made_through(call)
    except Http404:
        raise DomainError("not_found", "its release shows the tool no more.", status=404) from None
    key_of_following = call_keys.key_of_step(call.pk, "granted")
    following = calls.resume_in_background(
        call, release, tool, actor=actor, key=key, call_key=key_of_following
    )
    return following.key == key_of_following or not following.is_active
