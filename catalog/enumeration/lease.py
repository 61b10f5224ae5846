"""The lease of a run. Only the worker that has claimed the run may write for it, until its lease ends.

A run is claimed by compare-and-set. `attempt` is the fencing token: each claim increments it, and writes with
an older token change no row.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from catalog.models import Run
from catalog.models.runs import RunStatus

logger = logging.getLogger(__name__)

# A dead worker is noticed this late, and a live one must be able to miss some heartbeats.
LEASE = timedelta(seconds=30)
# Whatever kills a worker this often, such as a list that uses all memory, would kill the next one too.
MAX_ATTEMPTS = 3
# A run that is taken up again counts from the first page.
_NOTHING_READ = {"pages": 0, "seen": 0, "rejected": 0}


class LostLeaseError(Exception):
    """Another worker has taken this run up; nothing may be written for it any more."""


@transaction.atomic
def claim(run_id: int) -> Run | None:
    """Claim the run, and return it with its fencing token; None if another worker has it."""
    runs = Run.objects.filter(pk=run_id).select_related("endpoint__vendor", "endpoint__credential")
    dead = runs.filter(status=RunStatus.RUNNING, lease_until__lt=Now(), attempt__lt=MAX_ATTEMPTS)
    # The lock of a queued run is held for a moment only; that of a dead one may be held by its record.
    queued = runs.filter(status=RunStatus.QUEUED).select_for_update(of=("self",))
    run = queued.first() or dead.select_for_update(skip_locked=True, of=("self",)).first()
    if run:
        run.status, run.attempt = RunStatus.RUNNING, run.attempt + 1
        Run.objects.filter(pk=run_id).update(
            status=run.status,
            attempt=run.attempt,
            lease_until=Now() + LEASE,
            started_at=Now(),
            **_NOTHING_READ,
        )
    return run


def claimed_run(run: Run) -> QuerySet[Run]:
    """Return the row of the run; none if this attempt may not write any more."""
    return Run.objects.filter(pk=run.pk, attempt=run.attempt, status=RunStatus.RUNNING)


def lock(run: Run) -> datetime:
    """Lock the run's row, and return when this attempt began. Raises LostLeaseError.

    Call it first in a transaction that writes for the run. Until the commit no other worker can claim it.
    """
    # This lock does not block a request for a run.
    began = claimed_run(run).select_for_update(no_key=True).values_list("started_at", flat=True).first()
    if began is None:
        raise LostLeaseError
    return began


def give_back(run: Run) -> bool:
    """Queue the run again. Return False if this attempt may not write any more."""
    # Nothing more is written under the number of this attempt, so the next one may have the same number.
    is_given = claimed_run(run).update(
        status=RunStatus.QUEUED, attempt=F("attempt") - 1, lease_until=None, sent_at=None, in_parts=True
    )
    if is_given:
        logger.info("a part of run %s has been read; it continues in the queue of slow runs", run.pk)
    return bool(is_given)
