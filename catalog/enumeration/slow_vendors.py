"""Vendors that keep us waiting are read one at a time, so that they do not hold up the others.

An enumeration that hangs holds a worker's process until its deadline. A vendor that hangs for the first time
does so once; from then on it waits for its turn among the slow vendors until a run ends otherwise. A run that
hangs on page after page while others wait is put aside between two pages, and goes on among them.
docs/decisions/0020-slow-vendors.md says why it is done so.
"""

from datetime import timedelta

from django.db import connection
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from catalog.models import Run
from catalog.models.runs import RunStatus, Trigger

# What a run ends in whose vendor used up our patience; INCOMPLETE may say that it did so on a later page.
WAITED = ("IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE")
AT_ONCE = 1
# Seconds: what an enumeration may take, and each reply to it, before it has to let others go first.
SLOW_RUN_SECONDS, SLOW_REPLY_SECONDS = 10.0, 5.0
# Who was told to a worker so long ago found no free process.
TOLD_BEFORE = timedelta(seconds=2)
_LOCK = 7_301_204  # one number for the slow vendors, among the advisory locks of the database
IS_SLOW = Q(put_aside=True) | Q(endpoint__error_code__in=WAITED)


def is_slow(run: Run) -> bool:
    """The command line reads in a process of its own, and holds up no other run."""
    return run.trigger != Trigger.COMMAND and (run.put_aside or run.endpoint.error_code in WAITED)


def must_give_way(run: Run, seconds: float, replies: int) -> bool:
    """Whether this run has kept a process for so long, with so few replies, that others go first."""
    if run.trigger == Trigger.COMMAND or is_slow(run):
        return False
    if replies == 0 or seconds <= max(SLOW_RUN_SECONDS, replies * SLOW_REPLY_SECONDS):
        return False
    told = Run.objects.filter(status=RunStatus.QUEUED, sent_at__lt=Now() - TOLD_BEFORE)
    return told.exclude(IS_SLOW).exists()


def may_start(run: Run) -> bool:
    """Whether it is this vendor's turn. Called in the transaction that claims the run."""
    if not is_slow(run):
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    return _slow().filter(status=RunStatus.RUNNING).exclude(pk=run.pk).count() < AT_ONCE


def next_waiting() -> int | None:
    """The run that has waited longest for its turn, to be told when one has ended or has had its part."""
    waiting = _slow().filter(status=RunStatus.QUEUED)
    longest = waiting.order_by(F("started_at").asc(nulls_first=True), "pk")
    return longest.values_list("pk", flat=True).first()


def _slow() -> QuerySet[Run]:
    return Run.objects.filter(IS_SLOW).exclude(trigger=Trigger.COMMAND)
