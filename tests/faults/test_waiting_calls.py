"""Accepted calls run once each, whatever happens to the messages that wake their workers."""

import signal

import pytest

from tests.faults import tally
from tests.faults.stand import Stand, wait_for

pytestmark = pytest.mark.faults

INVOKE = "/api/v1/agents/clerk/releases/1/tools/tool_1/invoke/"
COUNT = 48
STALE = 3_000
MAX_WAKES = 64


@pytest.fixture
def scheduler(stand: Stand):
    stand.begin_beat()
    yield
    stand.end("beat", signal.SIGKILL)


@pytest.fixture(autouse=True)
def _no_caller(stand: Stand):
    stand.vendor.calls.clear()
    yield
    if "caller" in stand.processes:
        stand.end("caller", signal.SIGKILL)


def accept_calls(stand: Stand, name: str) -> set[str]:
    """Have the product accept calls in the background; return the cities that they ask for."""
    cities = {f"{name} {number}" for number in range(COUNT)}
    for city in cities:
        accepted = stand.ask(INVOKE, {"arguments": {"city": city}, "mode": "async"})
        assert accepted.status == 202, accepted
    return cities


def count_active(stand: Stand) -> int:
    return stand.query("SELECT count(*) FROM catalog_call WHERE status <> 'finished'")[0][0]


def count_messages(stand: Stand) -> int:
    return stand.valkey().llen("calls")


def check_that_all_end(stand: Stand, cities: set[str]) -> None:
    took = wait_for(lambda: not count_active(stand), 120, "the end of all calls")
    tally.recovery("messages of calls lost", took)
    wait_for(lambda: not count_messages(stand), 60, "an empty queue")
    outcomes = stand.query("SELECT outcome, count(*) FROM catalog_call GROUP BY 1")
    assert [outcome for outcome, _ in outcomes] == ["ok"]
    values = [call["input_parameters"][0]["value"] for call in stand.vendor.calls]
    assert sorted(values) == sorted(cities)


def test_calls_whose_messages_are_all_lost_run_once_each(stand, scheduler):
    cities = accept_calls(stand, "lost")
    tally.fault("messages of calls lost")
    stand.valkey().flushall()
    stand.begin_caller()
    check_that_all_end(stand, cities)


def test_calls_whose_messages_are_lost_run_without_a_scheduler(stand):
    cities = accept_calls(stand, "alone")
    tally.fault("messages of calls lost")
    stand.valkey().flushall()
    stand.begin_caller()
    check_that_all_end(stand, cities)


def test_thousands_of_stale_messages_hold_up_no_call(stand, scheduler):
    stand.warm.do("send_wakes", STALE)
    cities = accept_calls(stand, "stale")
    assert count_messages(stand) == STALE
    stand.begin_caller()
    check_that_all_end(stand, cities)


def test_the_sweep_sends_no_more_messages_for_calls_that_go_on_waiting(stand):
    cities = accept_calls(stand, "waiting")
    for _ in range(20):
        stand.warm.do("sweep_calls")
    assert count_messages(stand) <= MAX_WAKES
    stand.valkey().flushall()
    for _ in range(20):
        stand.warm.do("sweep_calls")
    assert 0 < count_messages(stand) <= MAX_WAKES
    stand.begin_caller()
    check_that_all_end(stand, cities)
