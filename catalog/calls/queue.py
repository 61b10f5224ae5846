"""Calls of tools that are written down: sent to a worker, held, waited for, given up.

What no worker takes up and what a dead process leaves behind is ended by `sweep`. How the row comes about:
catalog/calls/requesting.py. How a call is made: catalog/calls/invocation.py.
"""

import time
from dataclasses import replace
from datetime import timedelta
from functools import partial

from celery import current_app
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Q, QuerySet, Value
from django.db.models.functions import Now

from catalog import protocols
from catalog.calls import events, results
from catalog.credentials.oauth import clients
from catalog.models import Call
from catalog.models.calls import ACTIVE_CALLS, CallStatus, Mode
from catalog.protocols.calls import outcomes
from core import task_dispatch
from core.postgresql.base import give_back

TASK = "catalog.tasks.perform_call"
# The message may be lost with the broker; a call that was begun does not match.
RESEND_AFTER = timedelta(seconds=10)
# So long a worker holds a call that is not waited for, unless it moves that on (catalog/calls/lease.py).
HELD = timedelta(seconds=40)
# A run that is over its time is looked at once more, and then told to stop.
TAKEN_UP_WITHIN = timedelta(minutes=3)
LOOK_EVERY = 5.0  # seconds
# What comes after the deadline: the answer is read, judged and stored. Then the process counts as dead.
GRACE = timedelta(seconds=15)
TOKEN_GRACE = timedelta(seconds=45)  # a slow authorization server comes before the tool


def lease(call: Call) -> timedelta:
    """How long its process has, from now on, to end it or to move the lease on."""
    if call.mode != Mode.WAIT:
        return HELD
    ends = timedelta(seconds=call.deadline_seconds) + GRACE
    if call.activity_id:
        # Any of its steps may have to wait for a token.
        return ends + TOKEN_GRACE
    credential = call.version.tool.endpoint.credential
    return ends + TOKEN_GRACE if credential and clients.uses_oauth(credential) else ends


def held_on(call: Call) -> bool:
    """Move its lease on. False: it has ended meanwhile, and nothing may be sent for it any more."""
    mine = Call.objects.filter(pk=call.pk, status=CallStatus.RUNNING)
    return bool(mine.update(gives_up_at=Now() + lease(call)))


def send(call_id: int) -> None:
    """Tell a worker. If the broker is away the row stays as it is, and `sweep` sends again."""
    active = Call.objects.filter(pk=call_id, status__in=ACTIVE_CALLS)
    active.update(sent_at=Now())
    if not task_dispatch.give(partial(current_app.send_task, TASK, args=[call_id]), f"call {call_id}"):
        active.update(sent_at=None)


def kept_by_vendors(calls: QuerySet[Call]) -> QuerySet[Call]:
    """Of these, the runs at vendors that keep them, while their time is not over."""
    keep = [protocol.name for protocol in protocols.PROTOCOLS if protocol.keeps_runs]
    lasts = ExpressionWrapper(
        F("deadline_seconds") * Value(timedelta(seconds=1)), output_field=DurationField()
    )
    ends = ExpressionWrapper(F("started_at") + lasts, output_field=DateTimeField())
    kept = calls.filter(status=CallStatus.RUNNING, continues=None, tool__endpoint__protocol__in=keep)
    kept = kept.filter(activity=None, parent=None)
    return kept.exclude(mode=Mode.WAIT).alias(ends=ends).filter(ends__gt=Now() - TAKEN_UP_WITHIN)


def sweep(calls: QuerySet[Call] | None = None) -> None:
    """End calls that no worker took up or whose worker died; send again what no worker has heard of, and what
    goes on at its vendor without a worker that looks."""
    calls = Call.objects.all() if calls is None else calls
    late = calls.filter(gives_up_at__lt=Now())
    kept = kept_by_vendors(late)
    for ended, code, message, can_retry in (
        (late.filter(status=CallStatus.QUEUED), "NO_WORKER", results.NO_WORKER, True),
        (
            late.filter(status=CallStatus.RUNNING).exclude(pk__in=kept.values("pk")),
            "WORKER_LOST",
            results.WORKER_LOST,
            None,
        ),
    ):
        outcome = replace(outcomes.failed("unavailable", code, message), can_retry=can_retry)
        ended.update(**results.ending(outcome))
    waiting = calls.filter(status=CallStatus.QUEUED) | calls.filter(pk__in=kept.values("pk"))
    unheard = waiting.filter(Q(sent_at=None) | Q(sent_at__lt=Now() - RESEND_AFTER))
    for call_id in unheard.values_list("pk", flat=True)[:100]:
        send(call_id)


def settled(call: Call) -> Call:
    """The call as it is now; one that is past its time is ended on the way, without waiting for `sweep`."""
    if call.is_active:
        sweep(Call.objects.filter(pk=call.pk))
        call.refresh_from_db()
    return call


def wait_for(call: Call, seconds: float) -> Call:
    """The finished call, or as far as it is after so many seconds. Its end is told; should that get lost, the
    row is looked at from time to time."""
    ends = time.monotonic() + seconds
    newest = events.last(call.key)
    call.refresh_from_db(fields=["status"])
    seen = newest.id if newest else events.FIRST
    while call.is_active and (left := ends - time.monotonic()) > 0:
        give_back()
        heard = events.after(call.key, seen, min(left, LOOK_EVERY))
        seen = heard[-1].id if heard else seen
        if not heard or any(event.kind == events.ENDED for event in heard):
            call.refresh_from_db(fields=["status"])
    call.refresh_from_db()
    return settled(call)
