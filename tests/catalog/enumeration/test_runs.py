import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest
import time_machine
from celery import Celery, current_app
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from catalog.credentials import circuit_breaker
from catalog.enumeration import heartbeat, schedule
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Circuit, Endpoint, Run, Tool
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from pegboard.beat import InProcessScheduler
from pegboard.periodic import TICK
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_tool, make_user
from tests.vendor import Vendor, serving, tool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def endpoint(vendor: Vendor) -> Endpoint:
    return make_endpoint(url=vendor.url)


@pytest.fixture(autouse=True)
def sent_pks(monkeypatch) -> list[int]:
    messages: list[int] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **options: messages.append(*args))
    return messages


def test_the_row_comes_first_and_the_message_carries_only_its_number(endpoint, sent_pks):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
    assert sent_pks == [run.pk]
    assert run.status == "queued"
    assert AuditEntry.objects.get().action == "enumerate"


def test_the_sender_is_done_with_the_row_before_a_worker_hears_of_it(endpoint, monkeypatch):
    """A worker skips a locked row, so a write after the message may cost the run half a minute."""
    last_words = []

    def send_task(name, args, **options):
        last_words.append(Run.objects.get(pk=args[0]).sent_at)

    monkeypatch.setattr(current_app, "send_task", send_task)
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    run.refresh_from_db()
    assert last_words == [run.sent_at]
    assert run.sent_at is not None


def test_a_worker_waits_for_a_queued_run_that_somebody_is_changing(endpoint):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Run.objects.update(may_withdraw=3)
            performed = pool.submit(on_a_connection_of_its_own, enumeration_runs.perform, run.pk)
            time.sleep(0.3)
        assert performed.result(timeout=5).status == "succeeded"


def test_a_second_wish_gets_the_run_that_is_active(endpoint, sent_pks):
    first = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    second = enumeration_runs.request_run(endpoint, trigger=Trigger.SCHEDULE)
    assert first == second
    assert sent_pks == [first.pk]


def test_eight_at_once_start_one_run(endpoint):
    def ask():
        try:
            enumeration_runs.request_run(endpoint, trigger=Trigger.SCHEDULE)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Run.objects.count() == 1


def test_a_message_delivered_twice_reads_once(endpoint, vendor):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    enumeration_runs.perform(run.pk)
    requests = len(vendor.requests)
    enumeration_runs.perform(run.pk)
    assert len(vendor.requests) == requests


def test_tick_starts_what_is_due_at_its_own_interval(endpoint, sent_pks):
    later = make_endpoint(next_due_at=timezone.now() + timedelta(minutes=5))
    make_endpoint(is_paused=True)
    make_endpoint(removed_at=timezone.now())
    schedule.tick()
    assert [run.endpoint for run in Run.objects.all()] == [endpoint]
    endpoint.refresh_from_db()
    minutes = (endpoint.next_due_at - timezone.now()).total_seconds() / 60
    assert 53 < minutes < 67
    schedule.tick()
    assert Run.objects.count() == 1
    assert later.runs.count() == 0


def test_a_run_whose_worker_died_is_taken_up_again(endpoint, sent_pks):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=1, lease_until=timezone.now() - timedelta(seconds=1))
    schedule.tick()
    assert sent_pks == [run.pk, run.pk]
    assert enumeration_runs.perform(run.pk).status == "succeeded"
    assert Run.objects.get().attempt == 2


def test_a_run_with_a_live_lease_is_left_alone(endpoint, sent_pks):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=1, lease_until=timezone.now() + timedelta(seconds=20))
    schedule.tick()
    assert sent_pks == [run.pk]
    assert enumeration_runs.perform(run.pk).status == "running"


def test_a_run_that_killed_its_worker_three_times_is_parked(endpoint):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=3, lease_until=timezone.now() - timedelta(seconds=1))
    schedule.tick()
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "PARKED")
    endpoint.refresh_from_db()
    assert endpoint.next_due_at - timezone.now() > timedelta(hours=23)


def test_a_message_that_comes_late_does_not_claim_a_run_that_is_given_up(endpoint, vendor):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=3, lease_until=timezone.now() - timedelta(seconds=1))
    enumeration_runs.perform(run.pk)
    assert not vendor.requests


def test_a_worker_leaves_the_run_of_a_command_to_it_for_a_while(endpoint, sent_pks):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    schedule.tick()
    assert sent_pks == []
    Run.objects.update(sent_at=timezone.now() - timedelta(seconds=30))
    schedule.tick()
    assert sent_pks == [run.pk]


def test_a_run_waits_for_a_broker_that_is_away_and_goes_out_first_thing(endpoint, sent_pks, monkeypatch):
    make_endpoint(next_due_at=timezone.now())
    tries = []

    def send_task(name, args, **options):
        tries.append(args)
        raise BrokerError("away")

    with monkeypatch.context() as patch:
        patch.setattr(current_app, "send_task", send_task)
        schedule.tick()
    assert len(tries) == 1, "the second one would have waited for nothing as well"
    schedule.tick()
    assert sorted(sent_pks) == sorted(Run.objects.values_list("pk", flat=True))


def test_a_broker_that_is_away_holds_nobody_up():
    app = Celery(broker="redis+socket:///nowhere/at/all.sock", set_as_current=False)
    app.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    app.conf.task_publish_retry = settings.CELERY_TASK_PUBLISH_RETRY
    with app.connection_for_write() as broker:
        began = time.monotonic()
        with pytest.raises(BrokerError):
            broker.default_channel  # noqa: B018
        assert time.monotonic() - began < 1


def test_the_scheduler_works_while_the_broker_is_away(endpoint):
    app = Celery(broker="redis+socket:///nowhere/at/all.sock", set_as_current=False)
    app.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    app.conf.beat_schedule = {"tick": {"task": TICK, "schedule": 0.0}}
    InProcessScheduler(app).tick()
    assert Run.objects.get().endpoint == endpoint


def on_a_connection_of_its_own(function, *args):
    try:
        return function(*args)
    finally:
        connection.close()


def in_a_thread(function, *args):
    """Run in a thread, as another process would; wait at most two seconds."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(on_a_connection_of_its_own, function, *args).result(timeout=2)


def test_nobody_waits_for_a_run_that_is_being_recorded(endpoint, monkeypatch):
    """Neither those who ask for a run nor those who edit the endpoint nor a tick that thinks it dead."""
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    actor = make_user(Role.ADMIN)

    def meanwhile(point):
        if point == "record-versions":
            request = partial(enumeration_runs.request_run, endpoint, trigger=Trigger.PERSON)
            assert in_a_thread(request) == run
            in_a_thread(partial(vendor_operations.update_endpoint, endpoint, actor=actor, name="New name"))
            Run.objects.update(lease_until=timezone.now() - timedelta(minutes=1))
            in_a_thread(schedule.tick)
            assert in_a_thread(enumeration_runs.perform, run.pk).status == "running"

    monkeypatch.setattr(enumeration_runs.store, "failpoint", meanwhile)
    assert enumeration_runs.perform(run.pk).status == "succeeded"
    run.refresh_from_db()
    endpoint.refresh_from_db()
    assert (run.attempt, endpoint.name, bool(endpoint.last_success_at)) == (1, "New name", True)


def test_an_edit_that_began_before_a_run_ended_does_not_undo_its_result(endpoint):
    stale = Endpoint.objects.select_related("vendor").get(pk=endpoint.pk)
    enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    vendor_operations.update_endpoint(stale, actor=make_user(Role.ADMIN), name="New name")
    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.status) == ("New name", "ok")


def disconnect(queries_like: str = "%") -> None:
    """Terminate the other connections, as a restart of PostgreSQL does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND query LIKE %s",
            [queries_like],
        )


def test_the_heart_beats_on_after_a_moment_without_the_database(endpoint, vendor, monkeypatch):
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.1)
    leases = []

    def script(number, document):
        if number == 2:
            time.sleep(0.4)
            in_a_thread(disconnect, "%lease_until%")
            for _ in range(2):
                time.sleep(0.4)
                leases.append(in_a_thread(lambda: Run.objects.get().lease_until))

    vendor.script = script
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert run.status == "succeeded"
    assert leases[0] < leases[1]


def test_a_run_whose_database_went_away_is_taken_up_again(endpoint, vendor):
    def script(number, document):
        if number == 2:
            vendor.script = None
            in_a_thread(disconnect)

    vendor.script = script
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    with pytest.raises(DatabaseError):
        enumeration_runs.perform(run.pk)
    connection.close()
    Run.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    schedule.tick()
    assert (enumeration_runs.perform(run.pk).status, Run.objects.get().attempt) == ("succeeded", 2)


def test_an_endpoint_that_was_removed_while_its_run_waited_is_not_read(endpoint, vendor):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    Endpoint.objects.update(removed_at=timezone.now())
    assert enumeration_runs.perform(run.pk).error_code == "ENDPOINT_REMOVED"
    assert not vendor.requests


def test_an_endpoint_that_is_removed_while_its_run_is_recorded_gets_no_tools(endpoint, monkeypatch):
    def meanwhile(point):
        if point == "record-versions":
            in_a_thread(partial(Endpoint.objects.update, removed_at=timezone.now()))

    monkeypatch.setattr(enumeration_runs.store, "failpoint", meanwhile)
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error_code, Tool.objects.count()) == ("failed", "ENDPOINT_REMOVED", 0)


ELSEWHERE = "http://127.0.0.1:9/elsewhere"


@pytest.fixture
def move(endpoint):
    """Change the endpoint as an administrator does during the run."""
    ada = make_user(Role.ADMIN)

    def move_it(url=ELSEWHERE):
        in_a_thread(partial(vendor_operations.update_endpoint, endpoint, actor=ada, url=url))

    return move_it


def ended_as_moved(run, sent_pks):
    """The run reports it, the endpoint's state is unchanged, and another run is queued."""
    assert (run.status, run.error_code) == ("failed", "ENDPOINT_MOVED")
    assert "A new sync uses the current ones." in run.error_message
    endpoint = Endpoint.objects.get()
    assert (endpoint.url, endpoint.failures, endpoint.error_code) == (ELSEWHERE, 0, "")
    assert (endpoint.last_success_at, endpoint.held_run) == (None, None)
    assert not Circuit.objects.exclude(open_until=None).exists()
    queued = Run.objects.get(status="queued")
    assert (queued.pk, queued.trigger) == (sent_pks[-1], "schedule")
    return queued


def test_a_list_of_an_address_that_the_endpoint_has_left_is_not_recorded(endpoint, vendor, sent_pks, move):
    vendor.script = lambda number, document: move() if number == 2 else None
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON).pk)
    queued = ended_as_moved(run, sent_pks)
    assert not Tool.objects.exists()
    with serving(Vendor([tool(90)])) as other:
        Endpoint.objects.update(url=other.url)
        assert enumeration_runs.perform(queued.pk).status == "succeeded"
    assert [row.name for row in Tool.objects.all()] == ["tool_90"]


def test_nor_when_it_leaves_while_the_run_is_recorded(endpoint, sent_pks, move, monkeypatch):
    monkeypatch.setattr(
        enumeration_runs.store, "failpoint", lambda point: move() if point == "record-versions" else None
    )
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    ended_as_moved(run, sent_pks)
    assert not Tool.objects.exists()


@pytest.mark.parametrize("answer", [(503, b"{}"), (200, b'{"items": [], "paging": {"pageLimit": 10}}')])
def test_what_the_old_address_did_is_not_held_against_the_new_one(endpoint, vendor, sent_pks, move, answer):
    make_tool(endpoint=endpoint)
    vendor.script = lambda number, document: move(ELSEWHERE) or answer
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON).pk)
    ended_as_moved(run, sent_pks)
    assert Tool.objects.get().status == "active"


def test_an_address_that_the_endpoint_has_left_is_not_asked_for_more(
    endpoint, vendor, sent_pks, move, monkeypatch
):
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.05)

    def script(number, document):
        move()
        time.sleep(0.4)

    vendor.script = script
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON).pk)
    ended_as_moved(run, sent_pks)
    assert len(vendor.requests) == 1


def test_a_paused_endpoint_that_was_moved_waits(endpoint, vendor):
    vendor.script = lambda number, document: (
        in_a_thread(partial(Endpoint.objects.update, url=ELSEWHERE, is_paused=True)) and None
    )
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON).pk)
    assert (run.error_code, Run.objects.count()) == ("ENDPOINT_MOVED", 1)


def test_after_a_standstill_the_load_spreads_over_the_whole_interval():
    for _ in range(40):
        make_endpoint(next_due_at=timezone.now() - timedelta(hours=3))
    schedule.tick()
    assert Run.objects.count() == 40
    now = timezone.now()
    minutes = sorted(
        (due - now).total_seconds() / 60 for due in Endpoint.objects.values_list("next_due_at", flat=True)
    )
    assert minutes[0] < 20
    assert minutes[-1] > 50
    assert max(later - earlier for earlier, later in pairwise(minutes)) < 15


def test_an_endpoint_that_is_due_again_while_it_is_read_waits_for_the_end(endpoint):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    Endpoint.objects.update(next_due_at=timezone.now() - timedelta(seconds=1))
    schedule.tick()
    enumeration_runs.perform(run.pk)
    assert Run.objects.count() == 1
    schedule.tick()
    assert Run.objects.count() == 2


def test_a_worker_that_wakes_up_late_writes_nothing(endpoint, monkeypatch):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    record = enumeration_runs.store.record

    def after_a_long_sleep(run, harvest):
        Run.objects.update(attempt=9)
        record(run, harvest)

    monkeypatch.setattr(enumeration_runs.store, "record", after_a_long_sleep)
    enumeration_runs.perform(run.pk)
    assert Tool.objects.count() == 0
    run.refresh_from_db()
    assert run.status == "running"


def test_failures_in_a_row_wait_longer_and_a_vendors_wish_is_heard(endpoint, vendor):
    vendor.script = lambda number, document: (500, b"oops")
    waits = []
    for _ in range(3):
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
        enumeration_runs.perform(run.pk)
        endpoint.refresh_from_db()
        waits.append((endpoint.next_due_at - timezone.now()).total_seconds())
    for wait, (shortest, longest_wait) in zip(waits, circuit_breaker.BACK_OFF, strict=False):
        assert shortest - 10 < wait <= longest_wait


def test_a_removed_endpoint_is_not_read(endpoint):
    from core.errors import DomainError

    Endpoint.objects.update(removed_at=timezone.now())
    endpoint.refresh_from_db()
    with pytest.raises(DomainError, match="removed"):
        enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)


def test_a_clock_a_day_ahead_starts_nothing_early(endpoint):
    Endpoint.objects.update(next_due_at=timezone.now() + timedelta(minutes=30))
    with time_machine.travel(timezone.now() + timedelta(days=1), tick=True):
        schedule.tick()
    assert Run.objects.count() == 0
