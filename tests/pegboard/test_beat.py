from itertools import pairwise

from pegboard import periodic
from pegboard.beat import SPREAD, InProcessScheduler
from pegboard.celery import app


def test_no_two_messages_are_due_at_the_same_tick_of_a_new_scheduler():
    entries = InProcessScheduler(app).schedule.values()
    starts = sorted(entry.last_run_at for entry in entries if entry.task not in periodic.WORK)
    assert len(starts) > 5
    assert all(later - earlier >= SPREAD for earlier, later in pairwise(starts))
