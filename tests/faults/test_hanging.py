"""H2: four vendors of twenty hang, and hold no more than the processes they are read in.

Counted, not timed: a few processes perform the messages of their queue, and the sixteen others are done
while the four still hang. The time depends on the number of free processes of a worker; see
tests/hostile/test_slow_vendors.py for how many are shipped, and soak/hanging.py for the times.
"""

from collections import Counter
from contextlib import ExitStack

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run
from catalog.models.runs import Trigger
from tests import broker
from tests.factories import make_endpoint
from tests.faults.stand import wait_for
from tests.hostile_vendor import BEHAVIOURS, HostileVendor
from tests.vendor import Vendor, serving, tools

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

GOOD = 16
HANGS = ("accepts and is silent", "drips its headers", "drips its body", "stops in mid-body")


def request(url, code=""):
    endpoint = make_endpoint(url=url, requests_per_second=1_000, error_code=code, failures=bool(code))
    return enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON).pk


def statuses(runs):
    return Counter(Run.objects.filter(pk__in=runs).values_list("status", flat=True))


@pytest.mark.parametrize(
    ("code", "processes", "of_the_bad"),
    [
        ("", {"enumeration": 5}, {"running": 4}),
        ("IDLE", {"enumeration": 1, "slow": 2}, {"running": 2, "queued": 2}),
    ],
    ids=["first time", "again"],
)
def test_sixteen_vendors_are_read_while_four_hang(worker, code, processes, of_the_bad):
    broker.forget()
    with ExitStack() as stack:
        bad = [request(stack.enter_context(HostileVendor(BEHAVIOURS[hang])).url, code) for hang in HANGS]
        vendor = stack.enter_context(serving(Vendor(tools(3))))
        good = [request(vendor.url) for _ in range(GOOD)]
        children = [
            worker.start("work_off", broker.told_of(queue))
            for queue, count in processes.items()
            for _ in range(count)
        ]
        stack.callback(lambda: [child.wait() for child in children])
        stack.callback(lambda: [child.kill() for child in children])
        wait_for(lambda: statuses(good) == {"succeeded": GOOD}, 120, "reading the sixteen")
        assert statuses(bad) == of_the_bad
