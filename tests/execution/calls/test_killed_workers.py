"""A worker that is killed in the middle of a call: never sent twice, and never left open."""

import json
import signal
from datetime import timedelta
from urllib.parse import quote

import pytest
import redis
from celery import Celery
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from catalog import waiting_work
from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call
from catalog.models.runs import Trigger
from core import wakes
from execution.calls import invocation, queue, requesting
from execution.tasks import perform_call
from pegboard.celery import app
from people import api_keys
from people.models import KeyScope, Role
from tests import forked_python
from tests.catalog.credentials.test_credentials import broker_values, database_rows
from tests.factories import make_endpoint, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, json_reply

pytestmark = pytest.mark.django_db(transaction=True)

PERFORM = (
    "import django, sys; django.setup(); "
    "from execution.calls import invocation; invocation.perform_due_calls()"
)
CALL_NOW = (
    "import django, sys; django.setup(); "
    "from execution.calls import invocation; from catalog.models import ToolVersion; "
    "from people.models import User; "
    "invocation.call_now(ToolVersion.objects.get(pk=sys.argv[1]), actor=User.objects.get(pk=sys.argv[2]), "
    "arguments={'city': 'Oslo'})"
)
ANSWER = json_reply({"output_parameters": []})
CANARY = "kAnarY+vogel/17=geheim"


def ask_for(url: str, **fields) -> Call:
    tool = make_tool(make_signature(), endpoint=make_endpoint(url=url, **fields))
    return requesting.request_call(tool.current, actor=make_user(Role.DESIGNER), arguments={"city": "Oslo"})


def let_it_pass(call: Call) -> None:
    Call.objects.filter(pk=call.pk).update(gives_up_at=timezone.now() - timedelta(seconds=1))


@pytest.mark.faults
@pytest.mark.parametrize(("point", "requests"), [("call-claimed", 0), ("call-answered", 1)])
def test_a_worker_that_dies_leaves_a_doubt_and_sends_nothing_twice(process_environment, point, requests):
    with HostileVendor(ANSWER) as vendor:
        call = ask_for(vendor.url)
        crash = {"CRASHPOINT": point, "DEBUG_CRASH": "1"}
        worker = forked_python.run("-c", PERFORM, str(call.pk), env=process_environment | crash)
        perform_call(call.pk)
        assert Call.objects.get().status == "running"
        let_it_pass(call)
        queue.sweep()
        perform_call(call.pk)

    call.refresh_from_db()
    assert worker.returncode == -signal.SIGKILL
    assert len(vendor.requests) == requests
    assert (call.outcome, call.error_code) == ("unknown", "WORKER_LOST")


@pytest.mark.faults
@pytest.mark.parametrize(("point", "requests"), [("call-claimed", 0), ("call-answered", 1)])
def test_a_process_that_dies_at_the_call_it_was_asked_for_leaves_one_doubt(
    process_environment, point, requests
):
    with HostileVendor(ANSWER) as vendor:
        tool, user = (
            make_tool(make_signature(), endpoint=make_endpoint(url=vendor.url)),
            make_user(Role.DESIGNER),
        )
        crash = {"CRASHPOINT": point, "DEBUG_CRASH": "1"}
        command = ["-c", CALL_NOW, str(tool.current_id), str(user.pk)]
        process = forked_python.run(*command, env=process_environment | crash)
        call = Call.objects.get()
        assert (call.status, call.sent_at, messages_about(call)) == ("running", None, [])
        perform_call(call.pk)
        let_it_pass(call)
        queue.sweep()
        perform_call(call.pk)

    call.refresh_from_db()
    assert process.returncode == -signal.SIGKILL
    assert len(vendor.requests) == requests
    assert (call.outcome, call.error_code) == ("unknown", "WORKER_LOST")


def broker() -> redis.Redis:
    url = settings.REDIS_URL.replace("redis+socket", "unix").replace("virtual_host", "db")
    return redis.Redis.from_url(url)


def test_the_message_carries_the_number_alone_and_comes_again_only_when_it_is_lost():
    call = ask_for("http://127.0.0.1:9")
    for _ in range(3):
        queue.sweep()
    assert len(messages_about(call)) == 1
    assert "Oslo" not in "".join(broker_values())

    with broker() as broker_client:
        broker_client.delete("calls")
    for _ in range(3):
        queue.sweep()
    assert len(messages_about(call)) == 1


def ask_often(url: str, count: int) -> list[Call]:
    tool, user = make_tool(make_signature(), endpoint=make_endpoint(url=url)), make_user(Role.DESIGNER)
    key, _ = api_keys.issue(user, actor=user, name="Many", scopes=[KeyScope.READ])
    return [
        requesting.request_call(tool.current, actor=user, api_key=key, arguments={"city": "Oslo"})
        for _ in range(count)
    ]


def test_no_more_wakes_are_queued_than_workers_can_use(monkeypatch):
    monkeypatch.setattr(wakes, "MAX_WAKES", 5)
    ask_often("http://127.0.0.1:9", 20)
    for _ in range(10):
        queue.sweep()

    assert wakes.count_wakes(queue.TASK, "calls") == 5


def test_one_wake_runs_all_calls_whose_messages_were_lost():
    with HostileVendor(ANSWER) as vendor:
        calls = ask_often(vendor.url, 30)
        with broker() as broker_client:
            broker_client.delete("calls")
        perform_call()
        perform_call(calls[0].pk)

    assert not Call.objects.exclude(status="finished").exists()
    assert len(vendor.requests) == 30


def test_workers_claim_first_for_the_key_with_the_fewest_running_calls():
    many = ask_often("http://127.0.0.1:9", 3)
    one = ask_for("http://127.0.0.1:9")

    claimed = [queue.claim_next() for _ in range(4)]

    assert [call.pk for call in claimed if call] == [many[0].pk, one.pk, many[1].pk, many[2].pk]
    assert queue.claim_next() is None


def test_a_call_that_would_start_late_is_refused():
    call = ask_for("http://127.0.0.1:9")
    Call.objects.update(queued_at=timezone.now() - timedelta(seconds=20))
    with pytest.raises(queue.CallsWaitError) as refused:
        requesting.request_call(call.version, actor=call.requested_by, arguments={"city": "Oslo"})

    assert (refused.value.status, refused.value.code) == (429, "calls_wait")
    assert waiting_work.oldest_seconds()["calls"] >= 20
    assert Call.objects.count() == 1


def messages_about(call: Call) -> list[str]:
    return [text for text in broker_values() if queue.TASK in text and f"[{call.pk}]" in text]


def test_calls_have_a_queue_of_their_own():
    call = ask_for("http://127.0.0.1:9")
    enumeration_runs.request_run(call.tool.endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
    url = settings.REDIS_URL.replace("redis+socket", "unix").replace("virtual_host", "db")
    with redis.Redis.from_url(url) as broker:
        calls, others = (b"".join(broker.lrange(name, 0, -1)).decode() for name in ("calls", "enumeration"))
    assert queue.TASK in calls
    assert "catalog.tasks.enumerate_endpoint" not in calls
    assert queue.TASK not in others
    assert "catalog.tasks.enumerate_endpoint" in others


def test_nothing_is_said_to_a_worker_before_the_row_is_there():
    with transaction.atomic():
        call = ask_for("http://127.0.0.1:9")
        assert messages_about(call) == []

    assert len(messages_about(call)) == 1


@pytest.fixture
def broker_away():
    away = Celery(broker="redis+socket:///nowhere/at/all.sock", set_as_current=False)
    away.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    away.conf.task_publish_retry = settings.CELERY_TASK_PUBLISH_RETRY
    away.set_current()
    yield
    app.set_current()


def test_a_broker_that_is_away_loses_no_call(broker_away):
    call = ask_for("http://127.0.0.1:9")

    assert Call.objects.get() == call
    assert (call.status, call.sent_at) == ("queued", None)


@pytest.mark.parametrize("kind", ["query", "jwt", "bearer"])
def test_secrets_of_a_call_are_found_nowhere(kind, caplog, capfd):
    def parrot(line, request):
        """Returns the address and the headers that it received."""
        echoed = {"path": request.target, "auth": request.headers.get("authorization", "")}
        return json_reply({"message": json.dumps(echoed)}, status=400)(line, request)

    tokens = []
    with HostileVendor(parrot) as vendor:
        details = {"kind": kind, "parameter": "key"}
        credential = credential_operations.create_credential(
            actor=make_user(Role.ADMIN), name="Key", url=vendor.url, secret=CANARY, **details
        )
        ask_for(vendor.url, credential=credential)
        invocation.perform_due_calls()
        tokens += [request.headers.get("authorization", "").split()[-1:] for request in vendor.requests]

    secrets = {CANARY, quote(CANARY, safe=""), *(token for token_name in tokens for token in token_name)}
    assert Call.objects.get().error_code == "ECHO"
    places = [
        *database_rows(),
        *broker_values(),
        *(r.getMessage() for r in caplog.records),
        *capfd.readouterr(),
    ]
    for secret in secrets:
        assert secret not in "\n".join(places)
