"""A queue with its own workers for slow vendors, so that they do not delay others.

An enumeration that hangs occupies a worker until its deadline. The next run of such an endpoint goes to the
queue of slow runs, until a run ends differently. A run that becomes slow releases its process between two
requests and continues in that queue. Only the message differs: any worker can execute any run.
docs/decisions/0022-resumed-enumeration.md has the reasons.
"""

from django.db.models import Q

from catalog.models import Run

# The error codes of runs that waited for their vendor. INCOMPLETE may mean a wait on a later page.
WAITED = ("IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE")
IS_SLOW = Q(in_parts=True) | Q(endpoint__error_code__in=WAITED)
# Seconds. A long enumeration then releases its process and resumes from its stored replies. The time until
# the task limit (CELERY_TASK_SOFT_TIME_LIMIT) is for one request with its retries and for recording.
PART_SECONDS = 180.0
# The limits of an enumeration, and of each reply, before it counts as slow.
SLOW_RUN_SECONDS, SLOW_REPLY_SECONDS = 10.0, 5.0


def is_slow(run: Run) -> bool:
    return run.in_parts or run.endpoint.error_code in WAITED


def part_seconds(run: Run, replies: int) -> float:
    """Return how long the run may use a process after this number of replies."""
    if is_slow(run):
        return PART_SECONDS
    return min(PART_SECONDS, max(SLOW_RUN_SECONDS, replies * SLOW_REPLY_SECONDS))
