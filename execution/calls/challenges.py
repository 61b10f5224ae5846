"""Authorizations that a vendor requests from a user. Stored when a call meets one, and polled until they end.

A vendor reports the state at its `check_url`, which is polled only at the endpoint's own origin or where an
administrator allows it. Claims are compare-and-set with a lease, so any process may poll at any time.
"""

import uuid
from dataclasses import replace
from datetime import timedelta

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from catalog.credentials import sessions
from catalog.models import Call, Endpoint, UserGrant
from catalog.models.user_grants import GrantState
from core import strict_json, wakes
from core.errors import DomainError
from core.outbound.errors import ProtocolError, RefusedError
from core.outbound.limits import DEFAULT_LIMITS, KIB
from core.outbound.policy import origin_of
from execution.user_grants import grants
from execution.user_grants import tokens as user_tokens
from protocols.call_outcome import Outcome

TASK = "catalog.tasks.check_user_grant"
LEASE = timedelta(seconds=60)  # longer than one request
LIMITS = replace(
    DEFAULT_LIMITS, request=10.0, session=15.0, body=64 * KIB, session_bytes=128 * KIB, backoff=()
)
PAUSE, GROWTH, MAX_PAUSE = 2.0, 1.5, 60.0  # seconds
AT_ONCE = 100
ELSEWHERE = "The vendor reports the state on another host, which no administrator allows Pegboard to request."


def note(call: Call, outcome: Outcome) -> None:
    """Store the authorizations that the outcome of a call for a user requests, and complete those that it
    proves.
    """
    # A step stores its own.
    if call.activity_id:
        return
    visits = [ask for ask in outcome.asks if ask.provider and ask.url]
    endpoint = call.version.tool.endpoint
    needs = endpoint.build_protocol().needs(call.version.decoded())
    has_run = outcome.outcome in ("ok", "tool_error") and bool(needs.providers)
    if not (visits or has_run) or (user := grants.user_of(call)) is None:
        return
    for ask in visits:
        rows = UserGrant.objects.filter(end_user=user, endpoint=endpoint)
        stored_grants = rows.filter(provider=ask.provider, credential__isnull=False).exclude(access_token="")
        if grant := stored_grants.select_related("end_user").first():
            # A refusal proves something only if the token covers the scopes of this tool.
            if grant.covers(needs.providers.get(ask.provider, ())):
                user_tokens.note_refusal(grant)
            continue
        grants.ask(
            user,
            call,
            ask.provider,
            scopes=needs.providers.get(ask.provider, ()),
            url=ask.url[: grants.MAX_URL_LENGTH],
            check_url=ask.check_url,
            why_not_checked="" if not ask.check_url or _may_ask(endpoint, ask.check_url) else ELSEWHERE,
        )
    if has_run:
        waiting = UserGrant.objects.filter(
            end_user=user,
            endpoint=endpoint,
            provider__in=needs.providers,
            state=GrantState.PENDING,
            credential=None,
        )
        for grant in waiting.select_related("end_user"):
            grants.settle(grant, GrantState.COMPLETED, "The tool ran, so the vendor has it.")


def _may_ask(endpoint: Endpoint, check_url: str) -> bool:
    try:
        is_own = origin_of(check_url, may_ask=True) == origin_of(endpoint.url, may_ask=True)
    except RefusedError:
        return False
    return is_own or endpoint.build_protocol().may_ask_at(check_url)


def tick() -> None:
    """Expire grants that no user answered in time, and wake a worker for the rest. Runs every few seconds."""
    waiting = UserGrant.objects.filter(state=GrantState.PENDING)
    for grant in waiting.filter(expires_at__lte=Now()).select_related("end_user")[:AT_ONCE]:
        grants.settle(grant, GrantState.EXPIRED, "The user did not authorize it within an hour.")
    due = due_checks().values_list("pk", flat=True)[: wakes.MAX_WAKES]
    wakes.send_missing(TASK, map(str, due))


def due_checks() -> QuerySet[UserGrant]:
    """Return the grants that are due to be checked, the oldest first."""
    waiting = UserGrant.objects.filter(state=GrantState.PENDING, next_check_at__lte=Now())
    return waiting.order_by("next_check_at")


def check(grant_id: uuid.UUID) -> None:
    """Send one request about a grant to the vendor, if it is due, and store the result in its row."""
    rows = UserGrant.objects.filter(pk=grant_id, state=GrantState.PENDING, next_check_at__lte=Now())
    if not rows.update(next_check_at=Now() + LEASE, checks=F("checks") + 1):
        return
    rows_with_call = UserGrant.objects.select_related(
        "end_user", "endpoint__vendor", "endpoint__credential", "call__version__tool", "call__api_key__user"
    )
    grant = rows_with_call.filter(pk=grant_id).first()
    if grant is None:
        return  # deleted meanwhile
    if not grant.endpoint.is_live:
        grants.settle(grant, GrantState.FAILED, "The vendor was removed.")
        return
    # An administrator may have changed the allowed hosts or the endpoint since.
    if not _may_ask(grant.endpoint, grant.check_url):
        grants.settle(grant, GrantState.FAILED, ELSEWHERE)
        return
    pause = min(PAUSE * GROWTH ** min(grant.checks, 20), MAX_PAUSE)
    try:
        with (
            sessions.open_session(grant.endpoint, limits=LIMITS) as session,
            session.at_url(grant.check_url) as session_at_url,
        ):
            document = strict_json.require_json(session_at_url.get(""))
        status = document.get("status") if isinstance(document, dict) else None
        if status not in ("pending", "completed", "failed"):
            raise RefusedError("SHAPE", "The vendor reported a state that Pegboard does not know.")
    except (ProtocolError, DomainError) as error:
        retry_after = getattr(error, "retry_after", None) or 0.0
        _schedule_check(grant, max(pause, min(retry_after, 600.0)), error.message)
        return
    if status == "pending":
        _schedule_check(grant, pause, "")
    elif status == "failed":
        grants.settle(grant, GrantState.FAILED, "The vendor reports that it was not authorized.")
    else:
        grants.settle(grant, GrantState.COMPLETED, "The vendor reports that it is authorized.")


def _schedule_check(grant: UserGrant, pause: float, message: str) -> None:
    rows = UserGrant.objects.filter(pk=grant.pk, state=GrantState.PENDING, opened_at=grant.opened_at)
    rows.update(next_check_at=Now() + timedelta(seconds=pause), message=message[:300])
