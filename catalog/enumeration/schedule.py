"""What happens to runs by themselves: due ones start, dead ones are taken up, lost messages are sent again.

It needs neither the broker nor the worker that died.
"""

from datetime import timedelta

from django.db import transaction
from django.db.models import DurationField, F, Q
from django.db.models.functions import Greatest, Least, Now

from catalog.credentials import circuit_breaker
from catalog.enumeration import kept_replies, lease, runs
from catalog.enumeration.store import EndpointMovedError
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, RunStatus, Trigger

# A message may be lost with the broker, so a run that no worker has begun is told of once more.
RESEND_AFTER = timedelta(seconds=20)
RESEND_AT_LEAST_EVERY = timedelta(minutes=5)
# After a standstill all are due at once. The rest has its turn at the next tick, five seconds later.
STARTS_PER_TICK = 100


def tick() -> None:
    """Starts what is due, takes up what died, sends what no worker has claimed. Safe to run at any time."""
    _start_due()
    _take_up_dead()
    kept_replies.forget_old()
    # Queued, and no worker was told lately. The longer it waits, the rarer: no queue shall fill up.
    waited = Greatest(F("sent_at") - F("queued_at"), RESEND_AFTER, output_field=DurationField())
    pause = Least(waited, RESEND_AT_LEAST_EVERY, output_field=DurationField())
    is_stale = Q(sent_at=None) | Q(sent_at__lt=Now() - pause)
    waiting = Run.objects.filter(is_stale, status=RunStatus.QUEUED).order_by("pk")
    for run_id in waiting.values_list("pk", flat=True):
        if not runs.send(run_id):
            return


def _start_due() -> None:
    with transaction.atomic():
        late = set(Endpoint.objects.late().values_list("pk", flat=True))
        due = Endpoint.objects.due().exclude(runs__status__in=ACTIVE).exclude(circuit__open_until__gt=Now())
        locked = due.select_for_update(skip_locked=True, no_key=True, of=("self",)).select_related("vendor")
        for endpoint in locked.order_by("next_due_at")[:STARTS_PER_TICK]:
            runs.queue(endpoint, Trigger.SCHEDULE, None, None, is_late=endpoint.pk in late)


def _take_up_dead() -> None:
    # A run that is being recorded holds its row's lock and is skipped, however old its lease is.
    with transaction.atomic():
        dead = Run.objects.filter(status=RunStatus.RUNNING, lease_until__lt=Now())
        locked = dead.select_for_update(skip_locked=True, of=("self",)).select_related("endpoint")
        for run in locked:
            if run.attempt < lease.MAX_ATTEMPTS:
                Run.objects.filter(pk=run.pk).update(status=RunStatus.QUEUED, sent_at=None)
            else:
                _park(run)


def _park(run: Run) -> None:
    message = (
        f"Reading this endpoint ended the worker {lease.MAX_ATTEMPTS} times, so this run is given up. "
        "Look at the worker's log, then read again by hand. It is tried again by itself in a day."
    )
    try:
        runs.fail(run, "PARKED", message, circuit_breaker.MAX_WAIT.total_seconds())
    except EndpointMovedError as moved:
        runs.start_over(run, moved)
