"""A worker that dies in the middle of a long reading leaves what it had read to the next one."""

import signal
import time

import pytest
from django.db import connection

from catalog import invariants
from catalog.models import KeptReply
from tests.faults import catalog
from tests.faults.catalog import dump, let_the_lease_run_out, read_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]


def wait_until_kept(number, document):
    """The vendor waits with its third page until the first two have been kept."""
    deadline = time.monotonic() + 4
    while number == 3 and KeptReply.objects.count() < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    connection.close()


def pages(vendor):
    return [path.partition("pageCursor=")[2] or "first" for path in vendor.requests]


def test_a_worker_killed_in_a_long_reading_is_followed_where_it_stood(vendor, worker):
    listed_tools = list(vendor.listed)
    endpoint, ada = read_once(vendor)
    run = worker.do("request", endpoint.pk, ada)
    vendor.requests.clear()
    vendor.script = wait_until_kept
    assert worker.start("long_task", run, crash="page:3").wait().status == -signal.SIGKILL
    assert pages(vendor) == ["first", "10", "20"]
    vendor.requests.clear()
    let_the_lease_run_out()
    assert worker.start("task", run).wait().status == 0
    catalog.housekeeping()
    assert pages(vendor)[:2] == ["20", "first"], "two pages were kept, and the first is looked at again"
    after = dump()
    assert not KeptReply.objects.exists()
    assert invariants.check() == []

    catalog.forget_everything()
    vendor.script, vendor.listed = None, listed_tools
    endpoint, ada = read_once(vendor)
    worker.do("task", worker.do("request", endpoint.pk, ada))
    catalog.housekeeping()
    assert dump() == after, "as if nobody had been killed"
