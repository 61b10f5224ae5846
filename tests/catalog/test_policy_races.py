"""Decisions, inspections and readings of the same tools at the same time."""

import threading

import pytest
from django.db import connection

from catalog import enumeration, findings, inspecting
from catalog.models import Finding, Run, Tool
from catalog.models.runs import Trigger
from tests.factories import make_endpoint, make_user
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


def read(endpoint) -> Run:
    return enumeration.perform(enumeration.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def test_reading_inspecting_and_deciding_do_not_stand_in_each_others_way(vendor):
    endpoint, ada = make_endpoint(url=vendor.url, policy={"text": "hold"}), make_user()
    vendor.listed = tools(20)
    read(endpoint)
    for version in range(2, 6):
        vendor.listed = [tool(n, version, description=f"Words\u202e {version}") for n in range(1, 21)]
        read(endpoint)
        waiting = list(Finding.objects.filter(code="HELD", state="open").order_by("-pk"))
        vendor.listed = [tool(n, version, description=f"More\u202e {version}") for n in range(20, 0, -1)]

        failed = at_once(
            lambda: read(endpoint),
            inspecting.inspect_pending,
            inspecting.inspect_pending,
            lambda waiting=waiting: [findings.resolve(row, actor=ada, decision="accept") for row in waiting],
        )

        assert failed == []
    assert set(Run.objects.values_list("status", flat=True)) == {"succeeded"}
    inspecting.inspect_pending()
    assert not Run.objects.filter(inspected=0, changed__gt=0).exists()
    for each in Tool.objects.select_related("current", "stopped"):
        assert each.stopped is not None
        assert each.description == each.current.decoded().description


def test_two_inspections_of_one_run_raise_each_finding_once(vendor):
    vendor.listed = [tool(n, description="Words\u202e") for n in range(1, 21)]
    read(make_endpoint(url=vendor.url))

    assert at_once(*[inspecting.inspect_pending] * 3) == []

    assert Finding.objects.filter(code="BIDI_CONTROL").count() == 20
    assert Finding.objects.filter(code="HELD").count() == 20
