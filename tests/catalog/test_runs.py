import threading
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from catalog import enumeration
from catalog.models import Endpoint, Run, Tool
from catalog.models.runs import Trigger
from people.models import AuditEntry
from tests.factories import make_endpoint, make_user
from tests.vendor import Vendor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def endpoint(vendor: Vendor) -> Endpoint:
    return make_endpoint(url=vendor.url)


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list[int]:
    messages: list[int] = []
    monkeypatch.setattr(enumeration, "send", messages.append)
    return messages


def test_the_row_comes_first_and_the_message_carries_only_its_number(endpoint, sent):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user())
    assert sent == [run.pk]
    assert run.status == "queued"
    assert AuditEntry.objects.get().action == "enumerate"


def test_a_second_wish_gets_the_run_that_is_active(endpoint, sent):
    first = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    second = enumeration.request_run(endpoint, trigger=Trigger.SCHEDULE)
    assert first == second
    assert sent == [first.pk]


def test_eight_at_once_start_one_run(endpoint):
    def ask():
        try:
            enumeration.request_run(endpoint, trigger=Trigger.SCHEDULE)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Run.objects.count() == 1


def test_a_message_delivered_twice_reads_once(endpoint, vendor):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    enumeration.perform(run.pk)
    requests = len(vendor.requests)
    enumeration.perform(run.pk)
    assert len(vendor.requests) == requests


def test_tick_starts_what_is_due_at_its_own_interval(endpoint, sent):
    later = make_endpoint(next_due_at=timezone.now() + timedelta(minutes=5))
    make_endpoint(is_paused=True)
    make_endpoint(removed_at=timezone.now())
    enumeration.tick()
    assert [run.endpoint for run in Run.objects.all()] == [endpoint]
    endpoint.refresh_from_db()
    minutes = (endpoint.next_due_at - timezone.now()).total_seconds() / 60
    assert 53 < minutes < 67
    enumeration.tick()
    assert Run.objects.count() == 1
    assert later.runs.count() == 0


def test_a_run_whose_worker_died_is_taken_up_again(endpoint, sent):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=1, lease_until=timezone.now() - timedelta(seconds=1))
    enumeration.tick()
    assert sent == [run.pk, run.pk]
    assert enumeration.perform(run.pk).status == "succeeded"
    assert Run.objects.get().attempt == 2


def test_a_run_with_a_live_lease_is_left_alone(endpoint, sent):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=1, lease_until=timezone.now() + timedelta(seconds=20))
    enumeration.tick()
    assert sent == [run.pk]
    assert enumeration.perform(run.pk).status == "running"


def test_a_run_that_killed_its_worker_three_times_is_parked(endpoint):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    Run.objects.update(status="running", attempt=3, lease_until=timezone.now() - timedelta(seconds=1))
    enumeration.tick()
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "PARKED")


def test_a_message_that_was_lost_is_sent_again(endpoint, sent):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    enumeration.tick()
    assert sent == [run.pk]
    Run.objects.update(sent_at=timezone.now() - timedelta(seconds=30))
    enumeration.tick()
    enumeration.tick()
    assert sent == [run.pk, run.pk]


def test_a_worker_that_wakes_up_late_writes_nothing(endpoint, monkeypatch):
    run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
    record = enumeration.recording.record

    def after_a_long_sleep(run, harvest):
        Run.objects.update(attempt=9)
        record(run, harvest)

    monkeypatch.setattr(enumeration.recording, "record", after_a_long_sleep)
    enumeration.perform(run.pk)
    assert Tool.objects.count() == 0
    run.refresh_from_db()
    assert run.status == "running"


def test_failures_in_a_row_wait_longer_and_a_vendors_wish_is_heard(endpoint, vendor):
    vendor.script = lambda number, document: (500, b"oops")
    waits = []
    for _ in range(3):
        run = enumeration.request_run(endpoint, trigger=Trigger.PERSON)
        enumeration.perform(run.pk)
        endpoint.refresh_from_db()
        waits.append((endpoint.next_due_at - timezone.now()).total_seconds())
    assert 20 < waits[0] < 40
    assert 230 < waits[1] < 370
    assert 1400 < waits[2] < 2200


def test_a_removed_endpoint_is_not_read(endpoint):
    from catalog.errors import CatalogError

    Endpoint.objects.update(removed_at=timezone.now())
    endpoint.refresh_from_db()
    with pytest.raises(CatalogError, match="removed"):
        enumeration.request_run(endpoint, trigger=Trigger.PERSON)


def test_a_clock_a_day_ahead_starts_nothing_early(endpoint):
    Endpoint.objects.update(next_due_at=timezone.now() + timedelta(minutes=30))
    with time_machine.travel(timezone.now() + timedelta(days=1), tick=True):
        enumeration.tick()
    assert Run.objects.count() == 0
