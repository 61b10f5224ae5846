"""Decisions, inspections and readings of the same tools at the same time."""

import threading

import pytest
from django.db import connection, transaction

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, Run, Tool
from catalog.models.runs import Trigger
from catalog.review import decisions, inspector
from people.models import Role
from tests.factories import make_endpoint, make_user
from tests.faults.stand import wait_for
from tests.vendor import tool, tools

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*works) -> list[BaseException]:
    failed: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def perform(work):
        barrier.wait()
        try:
            work()
        except BaseException as exc:  # noqa: BLE001 - handed to the test
            failed.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=perform, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def run_enumeration(endpoint) -> Run:
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def test_reading_inspecting_and_deciding_do_not_stand_in_each_others_way(vendor):
    endpoint, ada = make_endpoint(url=vendor.url, policy={"text": "hold"}), make_user(Role.ADMIN)
    vendor.listed = tools(20)
    run_enumeration(endpoint)
    for version in range(2, 6):
        vendor.listed = [tool(n, version, description=f"Words\u202e {version}") for n in range(1, 21)]
        run_enumeration(endpoint)
        waiting = list(Finding.objects.filter(code="HELD", state="open").order_by("-pk"))
        vendor.listed = [tool(n, version, description=f"More\u202e {version}") for n in range(20, 0, -1)]

        failed = at_once(
            lambda: run_enumeration(endpoint),
            inspector.inspect_pending,
            inspector.inspect_pending,
            lambda waiting=waiting: [decisions.resolve(row, actor=ada, decision="accept") for row in waiting],
        )

        assert failed == []
    assert set(Run.objects.values_list("status", flat=True)) == {"succeeded"}
    inspector.inspect_pending()
    assert not Run.objects.filter(inspected=0, changed__gt=0).exists()
    for tool_row in Tool.objects.select_related("current", "stopped"):
        assert tool_row.stopped is not None
        assert tool_row.description == tool_row.current.decoded().description


def test_two_inspections_of_one_run_raise_each_finding_once(vendor):
    vendor.listed = [tool(n, description="Words\u202e") for n in range(1, 21)]
    run_enumeration(make_endpoint(url=vendor.url))

    assert at_once(*[inspector.inspect_pending] * 3) == []

    assert Finding.objects.filter(code="BIDI_CONTROL").count() == 20
    assert Finding.objects.filter(code="HELD").count() == 20


def test_what_a_reading_withdraws_is_locked_in_the_order_of_everybody(vendor):
    """A transaction that locks tools by id holds the first one, and reaches the last one in a recording."""
    vendor.listed = tools(10)
    endpoint = make_endpoint(url=vendor.url)
    run_enumeration(endpoint)
    first, *_, last = Tool.objects.order_by("pk").values_list("pk", flat=True)
    # Written anew, the first one lies behind the others in the table.
    Tool.objects.filter(pk=first).update(title="moved")
    vendor.listed = tools(10)[1:-1]
    is_held = threading.Event()

    def inspect():
        with transaction.atomic():
            list(Tool.objects.filter(pk=first).select_for_update(no_key=True))
            is_held.set()
            wait_for(somebody_waits, 30)
            list(Tool.objects.filter(pk=last).select_for_update(no_key=True))

    def record():
        is_held.wait(30)
        with connection.cursor() as cursor:  # as the planner does with many rows
            cursor.execute("SET enable_indexscan = off; SET enable_bitmapscan = off")
        run_enumeration(endpoint)

    assert at_once(inspect, record) == []
    assert list(Run.objects.order_by("pk").values_list("status", "withdrawn")) == [
        ("succeeded", 0),
        ("succeeded", 2),
    ]


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0
