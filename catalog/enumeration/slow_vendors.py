"""Slow vendors are read by workers of their own, so that they do not hold up the others.

An enumeration that hangs holds a worker's process until its deadline. When that happened last time, the next
run is sent to the queue of slow runs, until one ends otherwise. A run that turns out slow gives its process
back between two requests and goes on in that queue. It is a matter of the message alone: a worker performs
every run that it is told of. docs/decisions/0020-slow-vendors.md says why it is done so.
"""

from django.db.models import Q

from catalog.models import Run

# What a run ends in that has waited for its vendor; INCOMPLETE may say that it did so on a later page.
WAITED = ("IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE")
IS_SLOW = Q(in_parts=True) | Q(endpoint__error_code__in=WAITED)
# Seconds. A long enumeration then gives its process back and goes on from what it has kept. Between that and
# the end of a task's time (CELERY_TASK_SOFT_TIME_LIMIT) lie one request with its repetitions and the record.
PART_SECONDS = 180.0
# What an enumeration may take, and each reply to it, before it counts as slow.
SLOW_RUN_SECONDS, SLOW_REPLY_SECONDS = 10.0, 5.0


def is_slow(run: Run) -> bool:
    return run.in_parts or run.endpoint.error_code in WAITED


def part_seconds(run: Run, replies: int) -> float:
    """How long the run may keep a process in which the vendor has answered it so often."""
    if is_slow(run):
        return PART_SECONDS
    return min(PART_SECONDS, max(SLOW_RUN_SECONDS, replies * SLOW_REPLY_SECONDS))
