"""A vendor that hangs is read again, but never beside another that hangs, nor while others wait."""

import time
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from django.db import connection
from django.utils import timezone

from catalog.enumeration import heartbeat, lease, slow_vendors
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run, Tool
from catalog.models.runs import Trigger
from pegboard.local.product import WORKER
from tests.factories import make_endpoint
from tests.hostile.bench import SHORT, Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, json_reply, reply, then_waits
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch):
    """The runs that workers were told of."""
    sent = []
    monkeypatch.setattr(enumeration_runs, "send", lambda pk: sent.append(pk) or True)
    return sent


@pytest.fixture
def vendor():
    with HostileVendor(json_reply({"items": []})) as vendor:
        yield vendor


def queued(vendor, code, trigger=Trigger.SCHEDULE):
    endpoint = make_endpoint(url=vendor.url, error_code=code, failures=1)
    return enumeration_runs.request_run(endpoint, trigger=trigger)


def running(vendor, code):
    run = queued(vendor, code)
    Run.objects.filter(pk=run.pk).update(status="running", attempt=1)
    return run


@pytest.mark.parametrize("code", ["IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE"])
def test_who_kept_us_waiting_waits_for_another_that_did(vendor, told, code):
    running(vendor, "DEADLINE")
    waiting = queued(vendor, code)
    assert enumeration_runs.perform(waiting.pk).status == "queued"
    assert enumeration_runs.perform(waiting.pk).attempt == 0
    assert not vendor.requests


@pytest.mark.parametrize("code", ["", "AUTH", "HTTP_503", "JSON_SYNTAX"])
def test_nobody_else_waits(vendor, told, code):
    running(vendor, "IDLE")
    assert enumeration_runs.perform(queued(vendor, code).pk).status == "succeeded"


def test_a_vendor_that_hung_waits_for_no_good_one(vendor, told):
    for _ in range(5):
        running(vendor, "")
    assert enumeration_runs.perform(queued(vendor, "IDLE").pk).status == "succeeded"


def test_the_command_line_waits_for_nobody(vendor, told):
    running(vendor, "IDLE")
    assert enumeration_runs.perform(queued(vendor, "IDLE", Trigger.COMMAND).pk).status == "succeeded"


def test_the_next_in_the_lane_is_told_when_one_has_ended(vendor, told):
    first, second, third = (queued(vendor, "IDLE") for _ in range(3))
    assert enumeration_runs.perform(first.pk).status == "succeeded"
    assert told[-1] == second.pk
    assert enumeration_runs.perform(second.pk).status == "succeeded"
    assert told[-1] == third.pk


def test_a_good_reading_leaves_the_lane(vendor, told):
    run = queued(vendor, "IDLE")
    enumeration_runs.perform(run.pk)
    assert Endpoint.objects.get(pk=run.endpoint_id).error_code == ""


def test_a_hang_enters_it():
    with HostileVendor(reply()) as vendor:
        bench = Bench(vendor, DIALECTS["a2t"], as_admin())
        bench.shop.hostile = then_waits(b"")
        bench.read(SHORT)
        assert bench.endpoint.error_code == "IDLE"


def test_two_workers_look_one_after_the_other(vendor, told):
    """The lock is held to the end of the claim, so that two cannot both find the lane free."""
    run = queued(vendor, "IDLE")
    lease.claim(run.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
        assert cursor.fetchone()[0] >= 1


@pytest.fixture
def others(monkeypatch):
    """Whether somebody was found waiting, at each beat of the heart; every page is a slow one."""
    found = []
    asked = slow_vendors.must_give_way

    def after_two_pages(run, seconds, pages):
        found.append(pages > 1 and asked(run, seconds, pages))
        return found[-1]

    monkeypatch.setattr(slow_vendors, "must_give_way", after_two_pages)
    monkeypatch.setattr(slow_vendors, "SLOW_RUN_SECONDS", 0.0)
    monkeypatch.setattr(slow_vendors, "SLOW_REPLY_SECONDS", 0.0)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.01)
    return found


@pytest.fixture
def four_pages(others):
    """The third page comes after the heart has beaten twice."""

    def script(number, document):
        enough = len(others) + 2
        ends = time.monotonic() + 4
        while number == 3 and len(others) < enough and time.monotonic() < ends:
            time.sleep(0.005)

    with serving(Vendor(tools(35))) as vendor:
        vendor.script = script
        yield vendor


def waiting_since(seconds, code=""):
    """Somebody whom no worker has taken up."""
    endpoint = make_endpoint(url="http://127.0.0.1:9/", error_code=code, failures=bool(code))
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.SCHEDULE)
    Run.objects.filter(pk=run.pk).update(sent_at=timezone.now() - timedelta(seconds=seconds))
    return run


@pytest.mark.django_db(transaction=True)
def test_who_is_slow_on_every_page_lets_others_go_first_and_goes_on_where_it_stood(four_pages, told):
    run = enumeration_runs.request_run(make_endpoint(url=four_pages.url), trigger=Trigger.SCHEDULE)
    other = waiting_since(3)
    aside = enumeration_runs.perform(run.pk)
    assert (aside.status, aside.attempt, aside.put_aside, aside.error_code) == ("queued", 0, True, "")
    assert told[-1] == run.pk, "its lane is free, so it may go on as soon as there is a process"
    assert not Tool.objects.exists()
    asked = len(four_pages.requests)
    done = enumeration_runs.perform(run.pk)
    assert (done.status, done.attempt, done.added) == ("succeeded", 1, 35), "and it is put aside only once"
    assert ["pageCursor" in path for path in four_pages.requests[asked:]] == [True, False]
    assert Run.objects.get(pk=other.pk).status == "queued"
    enumeration_runs.request_run(done.endpoint, trigger=Trigger.SCHEDULE)
    assert slow_vendors.next_waiting() is None, "the next run is a run like any other"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("trigger", "seconds", "code"),
    [(Trigger.SCHEDULE, 1, ""), (Trigger.SCHEDULE, 60, "IDLE"), (Trigger.COMMAND, 60, "")],
)
def test_nobody_gives_way_to_who_does_not_wait_for_a_process(
    four_pages, told, others, trigger, seconds, code
):
    """Not to one that was told just now, nor to one that waits for its lane; and the command line never."""
    run = enumeration_runs.request_run(make_endpoint(url=four_pages.url), trigger=trigger)
    waiting_since(seconds, code)
    assert enumeration_runs.perform(run.pk).status == "succeeded"
    assert len(others) > 1


@pytest.mark.parametrize(
    ("seconds", "pages", "gives_way"),
    [(9, 1, False), (11, 0, False), (11, 1, True), (49, 10, False), (51, 10, True)],
)
def test_a_long_list_that_comes_quickly_is_not_put_aside(vendor, told, seconds, pages, gives_way):
    run = running(vendor, "")
    waiting_since(3)
    assert slow_vendors.must_give_way(run, seconds, pages) is gives_way


@pytest.mark.django_db(transaction=True)
def test_one_that_was_put_aside_waits_for_another_that_hangs(vendor, told):
    running(vendor, "IDLE")
    run = queued(vendor, "")
    Run.objects.filter(pk=run.pk).update(put_aside=True)
    assert enumeration_runs.perform(run.pk).status == "queued"


def test_as_many_processes_are_shipped_as_four_that_hang_leave_enough_of():
    """Four of them held, the others read two thirds as fast or more: 1.5 times as long at most."""
    services = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())["services"]
    counts = [
        int(command[command.index("--concurrency") + 1])
        for command in (list(WORKER), services["worker"]["command"])
    ]
    assert all(count / (count - 4) <= 1.5 for count in counts)
