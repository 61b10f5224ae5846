"""Continue calls that stopped for an authorization of their user, once the user has granted it.

Each call continues once, as if its runtime had requested it now: with the same user and key, if they still
may, and through the release that it was sent through. Settling a grant does not continue calls; this module
checks afterwards, any number of times, so that no crash and no concurrent grant leaves a call behind.
"""

import uuid

from django.db.models import Q
from django.db.models.functions import Now
from django.http import Http404
from django.utils import timezone

from catalog.models import Call, UserGrant
from catalog.models.calls import ACTIVE_CALLS, CallStatus
from catalog.models.user_grants import GrantState
from core.errors import DomainError
from core.outbound.errors import printable
from designer.models import Agent
from execution.calls import call_keys
from execution.user_grants import grants
from people.models import Role
from people.permissions import allows, reason_against
from serving import calls, stored_calls

MAX_GRANTS_PER_TICK = 100
RETRIED_STATUSES = (429, 503)  # too many calls, or no room: a later pass continues the call
FORBIDDEN = "its key or its user may not make it any more."


class _Resuming:
    """The attributes of a view that `allows` reads."""

    invokes = True


def tick() -> None:
    """Continue the calls of settled grants. Called every few seconds."""
    settled_grants = UserGrant.objects.filter(
        state=GrantState.COMPLETED, resumes=True, settled_at__gt=Now() - grants.LIFE
    )
    for pk in settled_grants.order_by("settled_at").values_list("pk", flat=True)[:MAX_GRANTS_PER_TICK]:
        continue_calls(pk)


def continue_calls(grant_id: uuid.UUID) -> None:
    """Continue all calls that wait only for this grant. The reason why one cannot continue is stored with the
    grant.
    """
    rows = UserGrant.objects.filter(pk=grant_id, state=GrantState.COMPLETED, resumes=True)
    grant = rows.select_related("end_user").first()
    if grant is None:
        return
    needs_retry, message = False, grant.message
    pending = UserGrant.objects.filter(
        end_user=grant.end_user, endpoint=grant.endpoint_id, state=GrantState.PENDING
    )
    pending_names = {printable(name, 300) for name in pending.values_list("provider", flat=True)}
    # A user may take an hour; to continue an older call would be a surprise.
    user = grant.end_user
    active = Q(status__in=ACTIVE_CALLS, queued_at__lte=grant.settled_at)
    stopped = Q(
        status=CallStatus.FINISHED, outcome="needs_authorization", finished_at__gt=Now() - grants.LIFE
    )
    waiting_calls = Call.objects.filter(active | stopped, resumes_when_granted=True, agent=user.agent)
    waiting_calls = waiting_calls.filter(on_behalf_of=user.digest, tool__endpoint=grant.endpoint_id)
    joined = ("version__tool__endpoint__vendor", "api_key__user", "requested_by")
    for call in waiting_calls.order_by("pk").select_related(*joined):
        requested_names = {printable(ask.id, 300) for ask in call.decoded().asks}
        if call.is_active:
            needs_retry = True  # the user was faster than the process that runs the call
        elif printable(grant.provider, 300) in requested_names and not requested_names & pending_names:
            try:
                needs_retry |= not _continue_call(call)
            except DomainError as error:
                needs_retry |= error.status in RETRIED_STATUSES
                message = f"The call did not go on: {error.message}"
    rows.filter(opened_at=grant.opened_at).update(resumes=needs_retry, message=message[:300])


def _continue_call(call: Call) -> bool:
    """Continue the call. Return False while its runtime continues it, which may fail. Raises DomainError."""
    # A step of an activity continues in the call that its runtime requested.
    while call.parent:
        call = call.parent
    if call.is_active:
        return False
    key, actor = call.api_key, call.requested_by
    is_allowed = actor and actor.is_active and not reason_against(actor, Role.DESIGNER)
    if key:
        is_allowed = is_allowed and key.user.is_active and key.is_usable(timezone.now())
        is_allowed = is_allowed and allows(key, _Resuming, "POST", Role.DESIGNER)
    visible_agents = (
        Agent.objects.live().visible_to(actor, key).filter(pk=call.agent or 0)
        if actor and is_allowed
        else None
    )
    if actor is None or visible_agents is None or not visible_agents.exists():
        raise DomainError("forbidden", FORBIDDEN, status=403)
    try:
        release, tool = stored_calls.find_release_and_tool(call)
    except Http404:
        raise DomainError("not_found", "its release shows the tool no more.", status=404) from None
    key_of_following = call_keys.key_of_step(call.pk, "granted")
    following = calls.resume_in_background(
        call, release, tool, actor=actor, key=key, call_key=key_of_following
    )
    return following.key == key_of_following or not following.is_active
