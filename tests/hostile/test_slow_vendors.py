"""A vendor that hangs is read again, but by workers that read no other vendors."""

import time
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from django.utils import timezone

from catalog.enumeration import runs as enumeration_runs
from catalog.enumeration import schedule, slow_vendors
from catalog.models import Endpoint, Run, Tool
from catalog.models.runs import Trigger
from pegboard.process_commands import SLOW, WORKER
from tests import broker
from tests.factories import make_endpoint
from tests.hostile.bench import SHORT, Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, json_reply, reply, then_waits
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.django_db(transaction=True)
WAITED = ["IDLE", "DEADLINE", "CONNECT_TIMEOUT", "INCOMPLETE"]
OTHERS = ["", "AUTH", "HTTP_503", "JSON_SYNTAX"]
FAR_AWAY = timezone.now().replace(year=2100)


@pytest.fixture(autouse=True)
def _no_messages():
    broker.forget()


def request(url, code=""):
    endpoint = make_endpoint(url=url, error_code=code, failures=bool(code), next_due_at=FAR_AWAY)
    return enumeration_runs.request_run(endpoint, trigger=Trigger.SCHEDULE)


@pytest.fixture
def vendor():
    with HostileVendor(json_reply({"items": []})) as vendor:
        yield vendor


@pytest.mark.parametrize("code", WAITED + OTHERS)
def test_only_who_kept_us_waiting_is_read_by_the_workers_for_slow_runs(vendor, code):
    run = request(vendor.url, code)
    slow, others = ([run.pk], []) if code in WAITED else ([], [run.pk])
    assert (broker.told_of("slow"), broker.told_of("enumeration")) == (slow, others)


def test_a_lost_message_is_sent_again_into_the_same_queue(vendor):
    slow, other = request(vendor.url, "IDLE"), request(vendor.url)
    broker.forget()
    Run.objects.update(sent_at=None)
    schedule.tick()
    assert (broker.told_of("slow"), broker.told_of("enumeration")) == ([slow.pk], [other.pk])


def test_one_good_run_is_enough_to_be_read_with_the_others_again(vendor):
    """Any worker may perform it: the message contains only the number of the run."""
    run = request(vendor.url, "IDLE")
    assert enumeration_runs.perform(run.pk).status == "succeeded"
    endpoint = Endpoint.objects.get()
    again = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON)
    assert broker.told_of("enumeration") == [again.pk]


def test_one_that_hangs_is_slow_from_then_on():
    with HostileVendor(reply()) as vendor:
        bench = Bench(vendor, DIALECTS["a2t"], as_admin())
        bench.shop.hostile = then_waits(b"")
        bench.enumerate(SHORT)
        run = enumeration_runs.request_run(bench.endpoint, trigger=Trigger.PERSON)
    assert broker.told_of("slow")[-1] == run.pk


@pytest.fixture
def slow_pages(monkeypatch):
    """Four pages, each of which takes longer than a reply may."""
    monkeypatch.setattr(slow_vendors, "SLOW_RUN_SECONDS", 0.0)
    monkeypatch.setattr(slow_vendors, "SLOW_REPLY_SECONDS", 0.03)
    with serving(Vendor(tools(35))) as vendor:
        vendor.script = lambda number, document: time.sleep(0.05)
        yield vendor


def pages(vendor):
    return [path.partition("pageCursor=")[2] or "first" for path in vendor.requests]


def test_a_run_that_turns_out_slow_goes_on_among_the_slow_ones_where_it_stood(slow_pages):
    run = request(slow_pages.url)
    part = enumeration_runs.perform(run.pk)
    assert (part.status, part.attempt, part.in_parts, part.error_code) == ("queued", 0, True, "")
    assert (broker.told_of("enumeration"), broker.told_of("slow")) == ([run.pk], [run.pk])
    assert not Tool.objects.exists()
    done = enumeration_runs.perform(run.pk)
    assert (done.status, done.attempt, done.added) == ("succeeded", 1, 35), "a slow run has minutes"
    assert pages(slow_pages) == ["first", "10", "20", "30", "first"]
    again = enumeration_runs.request_run(done.endpoint, trigger=Trigger.SCHEDULE)
    assert broker.told_of("enumeration")[-1] == again.pk, "the next run is a run like any other"


def test_a_part_whose_worker_died_goes_on_among_the_slow_ones(slow_pages):
    run = request(slow_pages.url)
    enumeration_runs.perform(run.pk)
    Run.objects.update(status="running", attempt=1, lease_until=timezone.now().replace(year=2000))
    broker.forget()
    schedule.tick()
    assert (broker.told_of("slow"), broker.told_of("enumeration")) == ([run.pk], [])
    assert enumeration_runs.perform(run.pk).added == 35
    assert pages(slow_pages).count("first") == 2


@pytest.mark.parametrize("code", ["", "IDLE"])
def test_the_command_line_reads_in_one_go_and_leaves_nothing_to_workers(slow_pages, monkeypatch, code):
    monkeypatch.setattr(slow_vendors, "PART_SECONDS", 0.0)
    endpoint = make_endpoint(url=slow_pages.url, error_code=code, failures=bool(code))
    call_command("enumerate", str(endpoint.pk), stdout=StringIO())
    assert Run.objects.get().added == 35
    assert not broker.told_of("slow")


def test_a_list_that_comes_quickly_is_not_slow_where_it_is_read_twice(slow_pages, monkeypatch):
    endpoint = make_endpoint(url=slow_pages.url, next_due_at=FAR_AWAY)
    enumeration_runs.perform(
        enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk, is_divided=False
    )
    # Five replies take longer than one may, and a busy machine needs no 0.7 s more for each.
    monkeypatch.setattr(slow_vendors, "SLOW_REPLY_SECONDS", 1.0)
    slow_pages.script = lambda number, document: time.sleep(0.3)
    del slow_pages.listed[-1]
    slow_pages.requests.clear()
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.SCHEDULE).pk)
    assert (run.status, run.withdrawn, pages(slow_pages).count("20")) == ("succeeded", 1, 2)


@pytest.mark.parametrize(
    ("replies", "code", "in_parts", "seconds"),
    [
        (1, "", False, 10),
        (2, "", False, 10),
        (10, "", False, 50),
        (36, "", False, 180),
        (10_000, "", False, 180),
        (1, "IDLE", False, 180),
        (1, "", True, 180),
    ],
)
def test_a_process_is_kept_for_as_long_as_the_replies_come_quickly(replies, code, in_parts, seconds):
    run = Run(endpoint=Endpoint(error_code=code), in_parts=in_parts)
    assert slow_vendors.part_seconds(run, replies) == seconds


def test_as_many_processes_are_shipped_as_four_that_hang_leave_enough_of():
    """Four of them held, the others read two thirds as fast or more: 1.5 times as long at most."""
    services = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())["services"]
    shipped = {"worker": WORKER, "slow": SLOW}
    for name, command in shipped.items():
        assert services[name]["command"][-8:] == list(command[-8:])
    autoscale = {name: arguments[arguments.index("--autoscale") + 1] for name, arguments in shipped.items()}
    concurrency = {name: int(limits.partition(",")[0]) for name, limits in autoscale.items()}
    assert concurrency["worker"] / (concurrency["worker"] - 4) <= 1.5
    assert concurrency["slow"] > 1, "a long list goes on while a vendor hangs"
