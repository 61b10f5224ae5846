"""However long rows wait and however often sweeps look, few messages are queued; late ones cost one read."""

import json
import uuid
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Endpoint, UserGrant
from catalog.models.runs import Run, Trigger
from catalog.models.user_grants import EndUser
from catalog.notifications import dispatch, webhooks
from catalog.notifications import tasks as notification_tasks
from catalog.notifications.models import Callback, Delivery, Mail, Notice, Webhook
from catalog.tasks import enumerate_endpoint
from core import redis_client, wakes
from designer.models import RehearsalRun
from designer.rehearsals import outside
from designer.tasks import ask_judge
from execution.calls import challenges, requesting
from execution.calls import queue as call_queue
from execution.tasks import check_user_grant, perform_call
from pegboard import periodic
from pegboard.beat import InProcessScheduler
from pegboard.celery import app
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = 3
QUEUES = [queue.name for queue in settings.CELERY_TASK_QUEUES]


def messages() -> list[str]:
    """Return the task of each message that is queued."""
    texts = [text for name in QUEUES for text in redis_client.client().lrange(name, 0, -1)]
    return sorted(json.loads(text)["headers"]["task"] for text in texts)


def lose_messages() -> None:
    redis_client.client().delete(*QUEUES)


def make_calls() -> None:
    tool, user = make_tool(make_signature()), make_user(Role.DESIGNER)
    for _ in range(ROWS):
        requesting.request_call(tool.current, actor=user, arguments={"city": "Oslo"})


def make_runs() -> None:
    for code in ("", "", "IDLE"):  # the last one is slow
        endpoint = make_endpoint(error_code=code, failures=bool(code))
        enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)


def make_grants() -> None:
    agent, endpoint = make_agent(), make_endpoint()
    for number in range(ROWS):
        user = EndUser.objects.create(agent=agent.pk, digest=f"{number:064}")
        UserGrant.objects.create(
            end_user=user, endpoint=endpoint, provider="mail", next_check_at=timezone.now()
        )


def make_mails() -> None:
    for _ in range(ROWS):
        Mail.objects.create(user=make_user(), next_at=timezone.now())


def make_deliveries() -> None:
    notice = Notice.objects.create(event="test", subject="", settled_at=timezone.now())
    for number in range(ROWS):
        webhook = Webhook.objects.create(name=f"Hook {number}", events=[])
        Delivery.objects.create(webhook=webhook, notice=notice)


def make_callbacks() -> None:
    make_calls()
    Call.objects.update(status="finished", outcome="ok", finished_at=timezone.now())
    for call in Call.objects.all():
        Callback.objects.create(call=call)


def make_rehearsal_runs() -> None:
    for _ in range(ROWS):
        RehearsalRun.objects.create(
            agent=make_agent(), judge="outside", digest="", status="queued", total=0, due_at=timezone.now()
        )


KINDS = {
    call_queue.TASK: make_calls,
    enumeration_runs.TASK: make_runs,
    challenges.TASK: make_grants,
    dispatch.SEND_MAIL: make_mails,
    dispatch.SEND_DELIVERIES: make_deliveries,
    "catalog.notifications.tasks.send_callback": make_callbacks,
    outside.TASK: make_rehearsal_runs,
}
TASKS = {
    call_queue.TASK: perform_call,
    challenges.TASK: check_user_grant,
    dispatch.SEND_MAIL: notification_tasks.send_mail,
    dispatch.SEND_DELIVERIES: notification_tasks.send_deliveries,
    "catalog.notifications.tasks.send_callback": notification_tasks.send_callback,
    outside.TASK: ask_judge,
    enumeration_runs.TASK: enumerate_endpoint,
}


@pytest.mark.parametrize("task", KINDS)
def test_sweeps_send_as_many_messages_as_rows_wait_and_no_more(task, settings):
    settings.MAIL_IS_SET_UP = True
    KINDS[task]()
    for attempt in range(2):
        for _ in range(10):
            for sweep in periodic.WORK:
                periodic.perform(sweep)
        assert messages().count(task) == ROWS, attempt
        lose_messages()


@pytest.mark.parametrize("task", KINDS)
def test_many_waiting_rows_need_few_messages(task, monkeypatch, settings):
    settings.MAIL_IS_SET_UP = True
    monkeypatch.setattr(wakes, "MAX_WAKES", 2)
    KINDS[task]()
    for _ in range(10):
        for sweep in periodic.WORK:
            periodic.perform(sweep)
    queues = 2 if task == enumeration_runs.TASK else 1
    assert messages().count(task) <= 2 * queues


@pytest.mark.parametrize("task", TASKS)
def test_a_message_that_comes_late_costs_one_query(task, django_assert_num_queries):
    with django_assert_num_queries(1):
        TASKS[task]()


def test_a_message_runs_all_that_is_due_whatever_it_names(monkeypatch):
    make_deliveries()
    pks = []
    monkeypatch.setattr(webhooks, "send_waiting", lambda pk: pks.append(pk))
    notification_tasks.send_deliveries(str(uuid.uuid4()))
    assert sorted(pks) == sorted(Webhook.objects.values_list("pk", flat=True))


def test_a_worker_performs_the_runs_of_its_queue_alone(vendor):
    fast, slow = (
        make_endpoint(url=vendor.url, error_code=code, failures=bool(code)) for code in ("", "IDLE")
    )
    for endpoint in (fast, slow):
        enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    lose_messages()
    enumerate_endpoint()
    statuses = dict(Run.objects.values_list("endpoint", "status"))
    assert statuses == {fast.pk: "succeeded", slow.pk: "queued"}


def test_the_scheduler_sends_one_message_of_each_task_while_no_worker_receives_any():
    Endpoint.objects.all().delete()
    app.conf.beat_schedule = settings.CELERY_BEAT_SCHEDULE
    scheduler = InProcessScheduler(app)
    for _ in range(3):
        for entry in scheduler.schedule.values():
            entry.last_run_at = timezone.now() - timedelta(days=1)
        for _ in range(2 * len(scheduler.schedule)):
            scheduler.tick()
    assert len(messages()) == len(set(messages())) > 5
