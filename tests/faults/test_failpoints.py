"""A worker killed at any point loses nothing. docs/decisions/0015-fault-injection.md has the reasons."""

import signal
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from catalog import invariants
from catalog.enumeration import schedule
from catalog.models import Run, Tool
from people.models import Role
from tests.factories import make_user
from tests.faults import catalog
from tests.faults.catalog import dump, let_the_lease_run_out, read_once
from tests.faults.rounds import KILLED
from tests.faults.warm import Child
from tests.vendor import Vendor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

# Three pages, and again, because a tool that is missing from one of several pages is not believed at once.
ONE_READING = 6
# The results of both readers are known by then: one more reader with the same result is enough.
AGREED = 3
RECORDED = ("recorded", "inspecting", "inspected", "done")


class Readers:
    """Ask for the list of tools over REST as fast as they can; `seen` is every different answer."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, ...]] = set()
        self.count = 0
        self._over = threading.Event()
        self._client = APIClient()
        self._client.force_login(make_user(Role.VIEWER, username="reader"))
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Readers":
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(0.005):
                self.seen.add(listing(self._client))
                self.count += 1
        finally:
            connection.close()


def listing(client: APIClient) -> tuple[Any, ...]:
    reply = client.get("/api/v1/tools/?limit=100")
    assert reply.status_code == 200
    return tuple(sorted((tool["name"], tool["description"]) for tool in reply.json()["results"]))


@pytest.fixture
def undisturbed(vendor: Vendor, worker, _undisturbed: dict[str, Any]) -> dict[str, Any]:
    """Return the results of the same two runs without a kill."""
    if not _undisturbed:
        listed_tools = list(vendor.listed)
        endpoint, ada = read_once(vendor)
        before = Tool.objects.get(name="tool_3").current.label
        worker.do("task", worker.do("request", endpoint.pk, ada))
        make_user(Role.VIEWER, username="reader")
        catalog.housekeeping()
        _undisturbed |= dump()
        assert before == "1"
        assert _undisturbed["Run"][-1][:9] == ("succeeded", 3, 26, 2, 2, 21, 1, 1, "")
        assert {row[0] for row in _undisturbed["Finding"]} >= {"DRIFT", "BIDI_CONTROL", "HELD"}
        vendor.listed = listed_tools
        catalog.forget_everything()
    return _undisturbed


@pytest.fixture(scope="module")
def _undisturbed() -> dict[str, Any]:
    return {}


def resume(run: int, worker, vendor: Vendor) -> None:
    """Two workers receive the message at once; one of them runs it."""
    let_the_lease_run_out()
    schedule.tick()
    vendor.requests.clear()
    children = [worker.start("task", run) for _ in range(2)]
    assert [child.wait().status for child in children] == [0, 0]
    catalog.housekeeping()


@pytest.mark.parametrize(("number", "point"), KILLED)
def test_a_worker_killed_here_loses_nothing(undisturbed, vendor, worker, number, point):
    endpoint, ada = read_once(vendor)
    run = worker.do("request", endpoint.pk, ada)
    with Readers() as readers:
        client = readers._client
        before = listing(client)
        assert worker.start("task", run, crash=point).wait().status == -signal.SIGKILL
        between = listing(client)
        resume(run, worker, vendor)
        after = listing(client)
    assert before != after
    assert between == (after if point in RECORDED else before)
    assert readers.count > 3
    assert readers.seen <= {before, after}, "readers see the catalog before the run, or after it"
    expected = AGREED if point.startswith("record-") else ONE_READING
    assert len(vendor.requests) == (0 if point in RECORDED else expected)
    assert dump() == undisturbed
    assert invariants.check() == []


def test_a_request_killed_before_its_message_is_sent_is_read_all_the_same(undisturbed, vendor, worker):
    """Point 1."""
    endpoint, ada = read_once(vendor)
    make_user(Role.VIEWER, username="reader")
    assert worker.start("request", endpoint.pk, ada, crash="queued").wait().status == -signal.SIGKILL
    run = Run.objects.get(status="queued")
    assert run.sent_at is None
    resume(run.pk, worker, vendor)
    assert len(vendor.requests) == ONE_READING
    assert dump() == undisturbed


@pytest.mark.parametrize("number", [7, 8])
def test_a_worker_killed_while_the_vendor_answers_loses_nothing(undisturbed, vendor, worker, number):
    """Point 7: the request for page 2 is sent. Point 8: half of the body has come."""
    endpoint, ada = read_once(vendor)
    make_user(Role.VIEWER, username="reader")
    run = worker.do("request", endpoint.pk, ada)
    victims: list[Child] = []

    def kill(page: object, *_: object) -> None:
        if page == 2 or (isinstance(page, str) and "pageCursor=10" in page):
            while not victims:
                time.sleep(0.001)
            victims[0].kill()
            vendor.script = vendor.in_mid_body = None

    if number == 7:
        vendor.script = kill
    else:
        vendor.in_mid_body = kill
    victims.append(worker.start("task", run))
    assert victims[0].wait().status == -signal.SIGKILL
    resume(run, worker, vendor)
    assert dump() == undisturbed


def stop_at(worker, point: str, deed: str, run: int) -> Child:
    """Stopped, as a machine that sleeps or swaps: the process lives and does nothing."""
    child = worker.start(deed, run, crash=f"{point}:1:SIGSTOP")
    deadline = time.monotonic() + 30
    while not child.is_stopped():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return child


@pytest.mark.parametrize("point", ["page:2", "staged"])
def test_a_worker_that_wakes_up_after_its_lease_writes_nothing(undisturbed, vendor, worker, point):
    """Point 22, before the transaction: the worker that took the run up has finished it meanwhile."""
    endpoint, ada = read_once(vendor)
    make_user(Role.VIEWER, username="reader")
    run = worker.do("request", endpoint.pk, ada)
    zombie = stop_at(worker, point.removesuffix(":2"), "task", run)
    resume(run, worker, vendor)
    assert dump() == undisturbed
    zombie.kill(signal.SIGCONT)
    assert zombie.wait().status == 0
    assert dump() == undisturbed
    assert Run.objects.get(pk=run).attempt == 2


def test_a_worker_that_wakes_up_before_it_is_replaced_finds_itself_fenced(vendor, worker):
    """Point 22: another has the run and reads; the one that slept must not record what it read before."""
    endpoint, ada = read_once(vendor)
    run = worker.do("request", endpoint.pk, ada)
    zombie = stop_at(worker, "staged", "task", run)
    let_the_lease_run_out()
    schedule.tick()
    second = stop_at(worker, "staged", "task", run)
    zombie.kill(signal.SIGCONT)
    assert zombie.wait().status == 0
    assert Run.objects.get(pk=run).status == "running"
    assert Tool.objects.get(name="tool_3").current.label == "1"
    second.kill(signal.SIGCONT)
    assert second.wait().status == 0
    assert Run.objects.values_list("status", "attempt").get(pk=run) == ("succeeded", 2)


def test_a_worker_that_sleeps_inside_the_transaction_is_thrown_out(undisturbed, vendor, worker):
    """Point 22 inside: it holds the run's lock, so no worker can take it up until the database ends it."""
    endpoint, ada = read_once(vendor)
    make_user(Role.VIEWER, username="reader")
    run = worker.do("request", endpoint.pk, ada)
    zombie = stop_at(worker, "record-withdrawn", "hasty_task", run)
    let_the_lease_run_out()
    deadline = time.monotonic() + 20
    while Run.objects.get(pk=run).status != "queued":
        assert time.monotonic() < deadline
        time.sleep(0.1)
        schedule.tick()
    resume(run, worker, vendor)
    assert dump() == undisturbed
    zombie.kill(signal.SIGCONT)
    assert zombie.wait().status != -signal.SIGKILL
    assert dump() == undisturbed


def test_a_run_that_kills_its_worker_three_times_is_given_up(vendor, worker):
    endpoint, ada = read_once(vendor)
    run = worker.do("request", endpoint.pk, ada)
    for _ in range(3):
        assert worker.start("task", run, crash="page:2").wait().status == -signal.SIGKILL
        let_the_lease_run_out()
        schedule.tick()
    row = Run.objects.select_related("endpoint").get(pk=run)
    assert (row.status, row.error_code) == ("failed", "PARKED")
    assert row.endpoint.next_due_at > timezone.now() + timedelta(hours=23)
    assert worker.start("task", run).wait().status == 0
    assert Tool.objects.get(name="tool_3").current.label == "1"
    assert invariants.check() == []
