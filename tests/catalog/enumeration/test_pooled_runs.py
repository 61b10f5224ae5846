"""Enumeration writes the same behind a pooler in transaction mode, and each run writes its own."""

from contextlib import ExitStack

import pytest
from django.db import connection

from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Rejection, Run, Tool, ToolVersion
from catalog.models.runs import RunStatus, Trigger
from tests import emptying
from tests.factories import make_endpoint
from tests.pooler import behind_pooler, in_threads, needs_pgbouncer
from tests.vendor import Vendor, serving, tool

pytestmark = needs_pgbouncer
ENDPOINTS = 6


def make_tools(number, version=1):
    """The tools of one vendor; each version has other texts, and older ones in its history."""
    return [tool(n, version, description=f"Thing {n} of vendor {number}, {version}.") for n in range(1, 26)]


def facts():
    """Return the rows of the catalog without keys and times."""
    rows = ToolVersion.objects.order_by("tool__endpoint__name", "tool__tool_id", "ordinal")
    return list(
        rows.values_list("tool__endpoint__name", "tool__tool_id", "ordinal", "label", "digest", "raw")
    )


def read_twice(vendors):
    """Read all endpoints at the same time, change what their vendors list, and read them again."""
    endpoints = list(Endpoint.objects.order_by("name"))

    def run_enumeration(number):
        run = enumeration_runs.request_run(endpoints[number], trigger=Trigger.COMMAND)
        enumeration_runs.perform(run.pk)
        older_versions.read_all(endpoints[number].pk)

    in_threads(ENDPOINTS, run_enumeration)
    for number, vendor in enumerate(vendors):
        vendor.history = {tool["toolId"]: [tool | {"version": 2}] for tool in make_tools(number)[:3]}
        # A tool twice with two contents is refused, others are withdrawn.
        changed = make_tools(number, 3)
        vendor.listed = [*changed[:20], changed[4] | {"description": "Another."}]
    in_threads(ENDPOINTS, run_enumeration)
    assert set(Run.objects.values_list("status", flat=True)) <= {RunStatus.SUCCEEDED}
    assert Rejection.objects.count() == ENDPOINTS
    facts_before = facts()
    for endpoint in endpoints:
        raw_documents = ToolVersion.objects.filter(tool__endpoint=endpoint).values_list("raw", flat=True)
        number = endpoint.name.removeprefix("vendor ")
        assert all(f"of vendor {number}," in raw for raw in raw_documents)
    return facts_before


@pytest.fixture
def vendors(transactional_db):
    with ExitStack() as stack:
        yield [stack.enter_context(serving(Vendor(make_tools(number)))) for number in range(ENDPOINTS)]


def connect(vendors):
    for number, vendor in enumerate(vendors):
        vendor.listed, vendor.history = make_tools(number), {}
        make_endpoint(url=vendor.url, name=f"vendor {number}")


def test_runs_write_what_they_write_without_a_pooler(vendors):
    connect(vendors)
    direct = read_twice(vendors)
    emptying.empty()
    connect(vendors)
    with behind_pooler(size=3):
        assert read_twice(vendors) == direct
        assert Tool.objects.count() == 25 * ENDPOINTS
        with connection.cursor() as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE relpersistence = 't'")
            assert cursor.fetchall() == []
