"""Cancel or remove a call in the name of its caller."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.credentials import sessions
from catalog.models import Call
from catalog.models.calls import ACTIVE_CALLS, CallStatus
from catalog.notifications import callbacks
from core.errors import DomainError
from core.outbound.errors import ProtocolError
from core.postgresql.base import give_back
from execution.calls import events, lease, remote_runs, results
from people import audit
from people.models import User
from protocols.call_outcome import Outcome
from protocols.calls import outcomes

logger = logging.getLogger(__name__)

CODE = "CANCELLED"
UNSENT = "The call was cancelled before anything was sent."
SENT = "The call was cancelled while the vendor was working. The tool may have done all or part of its work."
NOTIFYING = "The vendor is being notified."
NOTIFIED = "The vendor was notified."
NOT_NOTIFIED = "The vendor could not be notified."
# Also cancels the steps of the activity.
PERFORMED = (
    "The call was cancelled while its implementation was running. It may have done all or part of its work."
)


def cancel(call: Call, *, actor: User, why: str = "") -> Call:
    """Cancel a call and return it. A call that is cancelled already stays so. Raises DomainError for any
    other end.

    The row is updated first, so that a later reply of the vendor is dropped.
    """
    if call.outcome == "cancelled":
        return call
    with transaction.atomic():
        if call.activity_id:
            message = PERFORMED
        else:
            is_notified = call.version.tool.endpoint.build_protocol().tells_of_cancel
            message = f"{SENT} {NOTIFYING if is_notified else NOT_NOTIFIED}"
        was_running = _end_call(call, CallStatus.RUNNING, message)
        if not was_running and not _end_call(call, CallStatus.QUEUED, UNSENT):
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
        ended.update(**results.result_columns(_cancelled_outcome(f"{SENT} {NOTIFIED}"), []))
    call.refresh_from_db()
    return call


def remove(call: Call, *, actor: User, why: str = "") -> None:
    """Remove a call with all calls that it continues or that continue it.

    Calls that are running are cancelled. Vendors that wait for an answer are notified that none will come.
    """
    while call.continues:
        call = call.continues
    call_ids = newer_ids = [call.pk]
    while newer_ids:
        newer_ids = list(Call.objects.filter(continues__in=newer_ids).values_list("pk", flat=True))
        call_ids = call_ids + newer_ids
    chain = Call.objects.filter(pk__in=call_ids)
    for member in chain.filter(status__in=ACTIVE_CALLS).select_related("version__tool__endpoint"):
        with suppress(DomainError):  # it ended meanwhile
            cancel(member, actor=actor, why=why)
    for member in chain.filter(outcome="needs_input", continued_by=None, removed_at=None):
        abandon_question(member, member.decoded().resume)
    with transaction.atomic():
        # A removed call is not continued by itself.
        if chain.filter(removed_at=None).update(removed_at=Now(), resumes_when_granted=False):
            audit.record(actor, "remove run", call.tool, after={"call": call.pk}, why=why, agent=call.agent)


def abandon_question(call: Call, state: Mapping[str, Any] | None) -> None:
    """Notify the vendor of a call that stopped to ask that no answer will come. Raises no error of a session.

    state: the state with which the call would have been continued.
    """
    endpoint = call.version.tool.endpoint
    if call.activity_id or state is None or not endpoint.is_live:
        return
    try:
        with sessions.open_session(endpoint, None, remote_runs.STOP_LIMITS, mark=str(call.key)) as session:
            give_back()
            endpoint.build_protocol().give_up(session, state)
    except (ProtocolError, DomainError) as exc:
        logger.info("the vendor was not notified that no answer comes to call %s: %s", call.pk, exc.code)


def _end_call(call: Call, status: CallStatus, message: str) -> bool:
    row = Call.objects.filter(pk=call.pk, status=status)
    return bool(row.update(**results.ending(_cancelled_outcome(message))))


def _cancelled_outcome(message: str) -> Outcome:
    return outcomes.failed("cancelled", CODE, message)
