"""Ending a call that is under way, and removing one, in the caller's name."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.calls import events, lease, remote_runs, results
from catalog.credentials import sessions
from catalog.models import Call
from catalog.models.calls import ACTIVE_CALLS, CallStatus
from catalog.notifications import callbacks
from core.errors import DomainError
from core.outbound.errors import ProtocolError
from core.postgresql.base import give_back
from people import audit
from people.models import User
from protocols.base import Outcome
from protocols.calls import outcomes

logger = logging.getLogger(__name__)

CODE = "CANCELLED"
UNSENT = "The call was cancelled before anything was sent."
SENT = "The call was cancelled while the vendor was at it. The tool may have done all or part of its work."
TELLING = "The vendor is told to stop."
TOLD = "The vendor was told to stop."
NOT_TOLD = "The vendor could not be told to stop."
# Of an activity, whose steps are cancelled along with it.
PERFORMED = (
    "The call was cancelled while its activity was at it, which may have done all or part of its work."
)


def cancel(call: Call, *, actor: User, why: str = "") -> Call:
    """The call as it ended. One that was cancelled before stays so; raises DomainError for any other end.

    The row is ended first, so that whatever comes back from the vendor afterwards is dropped.
    """
    if call.outcome == "cancelled":
        return call
    with transaction.atomic():
        if call.activity_id:
            message = PERFORMED
        else:
            is_told = call.version.tool.endpoint.speak().tells_of_cancel
            message = f"{SENT} {TELLING if is_told else NOT_TOLD}"
        was_running = _end(call, CallStatus.RUNNING, message)
        if not was_running and not _end(call, CallStatus.QUEUED, UNSENT):
            raise DomainError("call_ended", "The call has ended, so there is nothing to cancel.", status=409)
        audit.record(actor, "cancel", call.tool, after={"call": call.pk}, why=why, agent=call.agent)
    lease.interrupt(call.pk)
    events.publish(call.key, events.ENDED)
    callbacks.wake(call)
    if call.activity_id:
        for step in call.steps.filter(status=CallStatus.RUNNING).select_related("version__tool__endpoint"):
            with suppress(DomainError):  # it ended meanwhile
                cancel(step, actor=actor, why=f"A step of call {call.pk}.")
    elif was_running and remote_runs.stop(call):
        ended = Call.objects.filter(pk=call.pk, outcome="cancelled")
        ended.update(**results.told(_outcome(f"{SENT} {TOLD}"), []))
    call.refresh_from_db()
    return call


def remove(call: Call, *, actor: User, why: str = "") -> None:
    """With all calls that it goes on from and that go on from it: they are told no more to the program that
    asked for them. Those under way are cancelled, and vendors that wait for an answer are told that none
    comes."""
    while call.continues:
        call = call.continues
    steps = newer = [call.pk]
    while newer:
        newer = list(Call.objects.filter(continues__in=newer).values_list("pk", flat=True))
        steps = steps + newer
    whole = Call.objects.filter(pk__in=steps)
    for step in whole.filter(status__in=ACTIVE_CALLS).select_related("version__tool__endpoint"):
        with suppress(DomainError):  # it ended meanwhile
            cancel(step, actor=actor, why=why)
    for step in whole.filter(outcome="needs_input", continued_by=None, removed_at=None):
        tell_of_no_answer(step, step.decoded().resume)
    with transaction.atomic():
        # Nothing goes on by itself that no one hears of.
        if whole.filter(removed_at=None).update(removed_at=Now(), resumes_when_granted=False):
            audit.record(actor, "remove run", call.tool, after={"call": call.pk}, why=why, agent=call.agent)


def tell_of_no_answer(call: Call, state: Mapping[str, Any] | None) -> None:
    """To the vendor of a call that stopped to ask, with this `state` to go on from, when no one wants that
    any more. Never raises what a session does."""
    endpoint = call.version.tool.endpoint
    if call.activity_id or state is None or not endpoint.is_live:
        return
    try:
        with sessions.open_session(endpoint, None, remote_runs.STOP_LIMITS, mark=str(call.key)) as session:
            give_back()
            endpoint.speak().give_up(session, state)
    except (ProtocolError, DomainError) as exc:
        logger.info("the vendor was not told that no answer comes to call %s: %s", call.pk, exc.code)


def _end(call: Call, status: CallStatus, message: str) -> bool:
    row = Call.objects.filter(pk=call.pk, status=status)
    return bool(row.update(**results.ending(_outcome(message))))


def _outcome(message: str) -> Outcome:
    return outcomes.failed("cancelled", CODE, message)
