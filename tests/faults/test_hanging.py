"""H2: four vendors of twenty hang, and hold no more than the processes they are read in.

Counted, not timed: a worker of a few processes reads all twenty, and the sixteen others are done while the
four still hang. What is left of a worker's processes is what decides how long that takes; see
tests/hostile/test_slow_vendors.py for how many are shipped, and soak/hanging.py for the times.
"""

from collections import Counter
from contextlib import ExitStack

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.faults.stand import wait_for
from tests.hostile_vendor import BEHAVIOURS, HostileVendor
from tests.vendor import Vendor, serving, tools

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

GOOD = 16
HANGS = ("accepts and is silent", "drips its headers", "drips its body", "stops in mid-body")


def request(url):
    endpoint = make_endpoint(url=url, requests_per_second=1_000)
    return enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON).pk


def statuses(runs):
    return Counter(Run.objects.filter(pk__in=runs).values_list("status", flat=True))


@pytest.mark.parametrize(
    ("processes", "is_known", "of_the_bad"),
    [(5, False, {"running": 4}), (2, True, {"running": 1, "queued": 3})],
    ids=["first time", "again"],
)
def test_sixteen_vendors_are_read_while_four_hang(worker, processes, is_known, of_the_bad):
    with ExitStack() as stack:
        bad = [request(stack.enter_context(HostileVendor(BEHAVIOURS[each])).url) for each in HANGS]
        vendor = stack.enter_context(serving(Vendor(tools(3))))
        good = [request(vendor.url) for _ in range(GOOD)]
        if is_known:
            Endpoint.objects.filter(runs__in=bad).update(error_code="IDLE", failures=1)
        children = [worker.start("work_off", bad + good) for _ in range(processes)]
        stack.callback(lambda: [child.wait() for child in children])
        stack.callback(lambda: [child.kill() for child in children])
        wait_for(lambda: statuses(good) == {"succeeded": GOOD}, 120, "reading the sixteen")
        assert statuses(bad) == of_the_bad
