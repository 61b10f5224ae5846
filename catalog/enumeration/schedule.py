"""The schedule of runs: start due runs, resume those of dead workers, and send lost messages again.

It needs neither the broker nor the dead worker.
"""

from django.db import transaction
from django.db.models.functions import Now

from catalog.credentials import circuit_breaker
from catalog.enumeration import kept_replies, lease, runs
from catalog.enumeration.store import EndpointMovedError
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, RunStatus, Trigger
from core import wakes

# After a standstill all are due at once. The rest has its turn at the next tick, five seconds later.
STARTS_PER_TICK = 100


def tick() -> None:
    """Start due runs, resume dead ones and wake workers for waiting runs. Safe to call at any time."""
    with transaction.atomic():
        late = set(Endpoint.objects.late().values_list("pk", flat=True))
        endpoints = Endpoint.objects.due().exclude(runs__status__in=ACTIVE)
        endpoints = endpoints.exclude(circuit__open_until__gt=Now()).select_related("vendor")
        endpoints = endpoints.select_for_update(skip_locked=True, no_key=True, of=("self",))
        for endpoint in endpoints.order_by("next_due_at")[:STARTS_PER_TICK]:
            runs.queue(endpoint, Trigger.SCHEDULE, None, None, is_late=endpoint.pk in late)
    # A run that is being recorded has locked its row and is skipped, however old its lease is.
    with transaction.atomic():
        dead = Run.objects.filter(status=RunStatus.RUNNING, lease_until__lt=Now())
        locked = dead.select_for_update(skip_locked=True, of=("self",)).select_related("endpoint")
        for run in locked:
            if run.attempt < lease.MAX_ATTEMPTS:
                Run.objects.filter(pk=run.pk).update(status=RunStatus.QUEUED, sent_at=None)
            else:
                message = (
                    f"The worker stopped {lease.MAX_ATTEMPTS} times during this sync, so it was given up. "
                    "Check the worker's log, then sync again. Pegboard tries again automatically in a day."
                )
                try:
                    runs.fail(run, "PARKED", message, circuit_breaker.MAX_WAIT.total_seconds())
                except EndpointMovedError as moved:
                    runs.start_over(run, moved)
    kept_replies.forget_old()
    for is_slow in (False, True):
        queue = runs.queue_of_runs(is_slow=is_slow)
        due = runs.due_runs(queue).values_list("pk", flat=True)[: wakes.MAX_WAKES]
        wakes.send_missing(runs.TASK, due, queue=queue)
