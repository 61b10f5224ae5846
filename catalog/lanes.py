"""Vendors that kept us waiting last time are read one at a time, so that they hold up nobody else.

A reading that hangs holds a worker's process until its deadline. Who hangs for the first time does so
once; from then on it waits for its turn in the slow lane until a reading ends otherwise.
docs/decisions/0022-slow-vendors.md says why it is done so.
"""

from django.db import connection
from django.db.models import QuerySet

from catalog.models import Run
from catalog.models.runs import RunStatus, Trigger

# What a run ends in whose vendor used up our patience; INCOMPLETE may say that it did so on a later page.
WAITED = ("IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE")
AT_ONCE = 1
_LOCK = 7_301_204  # one number for this lane, among the advisory locks of the database


def is_slow(run: Run) -> bool:
    """The command line reads in a process of its own, and holds up nobody."""
    return run.trigger != Trigger.COMMAND and run.endpoint.error_code in WAITED


def may_start(run: Run) -> bool:
    """Whether its lane is free. Called in the transaction that claims the run, so nobody else looks too."""
    if not is_slow(run):
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    return _slow().filter(status=RunStatus.RUNNING).exclude(pk=run.pk).count() < AT_ONCE


def next_waiting() -> int | None:
    """The run that has waited longest for its turn, to be told when one has ended."""
    return _slow().filter(status=RunStatus.QUEUED).order_by("pk").values_list("pk", flat=True).first()


def _slow() -> QuerySet[Run]:
    return Run.objects.filter(endpoint__error_code__in=WAITED).exclude(trigger=Trigger.COMMAND)
