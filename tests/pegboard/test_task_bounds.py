"""Each task ends itself well before its hard limit, keeps what it has done, and asks for a continuation."""

import json
import math
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog import tasks
from catalog.enumeration import older_versions
from catalog.models import Tool
from catalog.models.calls import CallId
from catalog.notifications import dispatch, webhooks
from catalog.notifications.tasks import send_deliveries
from catalog.tools import effective_texts
from core import portions, redis_client, wakes
from core.outbound.limits import DEFAULT_LIMITS
from designer.rehearsals import judges, outside
from designer.tasks import ask_judge
from execution import tasks as call_tasks
from pegboard.celery import app
from people.tasks import forget_sessions
from tests.factories import make_tool

QUEUE = settings.CELERY_TASK_DEFAULT_QUEUE
# A task that gets its soft limit rolls back one portion and records that.
MARGIN = 40


@pytest.fixture
def messages():
    """Return the names of the tasks of which messages wait."""

    def read_tasks():
        texts = redis_client.client().lrange(QUEUE, 0, -1)
        return [json.loads(text)["headers"]["task"] for text in texts]

    redis_client.client().delete(QUEUE)
    yield read_tasks
    redis_client.client().delete(QUEUE)


def make_sessions(count: int) -> None:
    ended = timezone.now() - timedelta(seconds=1)
    Session.objects.bulk_create(
        Session(session_key=f"session-{number}", session_data="", expire_date=ended)
        for number in range(count)
    )


def test_each_task_states_a_bound_of_its_own_below_the_hard_limit():
    app.loader.import_default_modules()
    app.finalize()
    limits = {
        name: task.soft_time_limit for name, task in app.tasks.items() if not name.startswith("celery.")
    }
    assert len(limits) > 15
    # A task without a bound of its own has that of the settings.
    assert max(limits.values()) < settings.CELERY_TASK_SOFT_TIME_LIMIT
    assert max(limits.values()) <= settings.CELERY_TASK_TIME_LIMIT - MARGIN


def test_the_portion_that_a_task_begins_last_fits_into_its_bound():
    longest_portion = wakes.TASK_SECONDS + outside.PORTION_SECONDS + judges.MAX_SECONDS
    assert longest_portion < ask_judge.soft_time_limit
    run = tasks.BEGIN_RUN_SECONDS + DEFAULT_LIMITS.session
    assert run < tasks.enumerate_endpoint.soft_time_limit
    assert tasks.read_versions.soft_time_limit > older_versions.SESSION_SECONDS
    webhook = wakes.TASK_SECONDS + webhooks.WORK_SECONDS
    assert webhook < send_deliveries.soft_time_limit


@pytest.mark.django_db
def test_rows_are_deleted_in_portions_until_none_is_left(monkeypatch, messages):
    monkeypatch.setattr(portions, "PORTION_ROWS", 2)
    make_sessions(5)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        forget_sessions()
    assert not Session.objects.exists()
    assert sum("DELETE" in query["sql"] for query in queries) == 3
    assert messages() == []


@pytest.mark.django_db(transaction=True)
def test_a_task_whose_time_is_over_keeps_its_work_and_asks_for_a_continuation(monkeypatch, messages):
    monkeypatch.setattr(portions, "PORTION_ROWS", 2)
    monkeypatch.setattr(portions, "SECONDS", -1.0)
    make_sessions(5)
    forget_sessions()
    assert Session.objects.count() == 3
    assert messages() == [forget_sessions.name]
    monkeypatch.undo()
    forget_sessions()
    assert not Session.objects.exists()


@pytest.mark.django_db
def test_a_task_without_rows_to_delete_asks_for_no_continuation(monkeypatch, messages):
    monkeypatch.setattr(portions, "SECONDS", -1.0)
    call_tasks.forget_call_ids()
    assert not CallId.objects.exists()
    assert messages() == []


@pytest.mark.django_db
def test_tools_left_over_at_the_end_of_a_tasks_time_follow_in_the_next(monkeypatch):
    make_tool()
    Tool.objects.update(is_tuned=True, worded_at=None)
    effective_texts.catch_up(ends=time.monotonic() - 1)
    assert Tool.objects.filter(worded_at=None).exists()
    effective_texts.catch_up(ends=math.inf)
    assert not Tool.objects.filter(worded_at=None).exists()


def test_a_tick_settles_no_other_portion_when_its_time_is_over(monkeypatch):
    settled = []
    monkeypatch.setattr(dispatch, "TICK_SECONDS", -1.0)
    monkeypatch.setattr(dispatch, "settle_due", lambda: settled.append(1) or dispatch.PER_TICK)
    monkeypatch.setattr(dispatch, "_wake_workers", lambda task, due: None)
    dispatch.tick()
    assert settled == [1]
