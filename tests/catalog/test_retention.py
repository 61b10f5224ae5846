"""Old runs and calls are deleted in committed portions, and nothing that others refer to is."""

import math
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from catalog import retention, tasks
from catalog.models import Call, Endpoint, Finding, Rejection, Run, Withdrawal
from catalog.notifications.models import Callback, SendingState
from core import metrics, portions
from pegboard.ops.doctor import work
from pegboard.ops.doctor.frame import DoctorLimits
from people.models import AuditEntry
from tests.factories import make_endpoint, make_tool

pytestmark = pytest.mark.django_db

OLD, YOUNG = timedelta(days=91), timedelta(days=89)


@pytest.fixture(autouse=True)
def few_runs_stay(monkeypatch):
    monkeypatch.setattr(retention, "RUNS_PER_ENDPOINT", 2)


def make_run(endpoint, age=OLD, status="succeeded", **fields):
    return Run.objects.create(
        endpoint=endpoint,
        queued_at=timezone.now() - age,
        status=status,
        finished_at=timezone.now() - age,
        **fields,
    )


def make_call(tool, age=OLD, status="finished", **fields):
    moment = timezone.now() - age
    return Call.objects.create(
        tool=tool,
        version=tool.current,
        queued_at=moment,
        gives_up_at=moment,
        finished_at=moment,
        status=status,
        outcome="ok" if status == "finished" else "",
        **fields,
    )


def refer_from_version(run):
    make_tool(endpoint=run.endpoint)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE catalog_toolversion SET run_id = %s", [run.pk])
        cursor.execute("SET LOCAL session_replication_role = origin")


def refer_from_withdrawal(run):
    Withdrawal.objects.create(tool=make_tool(endpoint=run.endpoint), run=run, at=timezone.now())


def refer_from_return(run):
    tool = make_tool(endpoint=run.endpoint)
    Withdrawal.objects.create(tool=tool, run=make_run(run.endpoint), returned_run=run, at=timezone.now())


def refer_from_finding(run):
    tool = make_tool(endpoint=run.endpoint)
    Finding.objects.create(endpoint=run.endpoint, tool=tool, run=run, code="HIDDEN_TEXT", severity="high")


def refer_from_held_endpoint(run):
    Endpoint.objects.filter(pk=run.endpoint_id).update(held_run=run)


def delete_old():
    tasks.delete_old_rows()


def test_old_runs_without_changes_are_deleted_with_their_rows():
    endpoint = make_endpoint()
    old = make_run(endpoint)
    Rejection.objects.create(run=old, tool="x", code="X", reason="x")
    others = [make_run(endpoint, YOUNG) for _ in range(2)]
    delete_old()
    assert list(Run.objects.order_by("pk")) == others
    assert not Rejection.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"added": 1},
        {"changed": 1},
        {"withdrawn": 1},
        {"returned": 1},
        {"status": "running"},
        {"status": "queued"},
    ],
    ids=str,
)
def test_old_runs_with_changes_and_those_under_way_stay(fields):
    endpoint = make_endpoint()
    run = make_run(endpoint, **fields)
    for _ in range(2):
        make_run(endpoint, YOUNG)
    delete_old()
    assert Run.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize(
    "refer",
    [
        refer_from_version,
        refer_from_withdrawal,
        refer_from_return,
        refer_from_finding,
        refer_from_held_endpoint,
    ],
)
def test_old_runs_that_others_refer_to_stay(refer):
    endpoint = make_endpoint()
    run = make_run(endpoint, status="failed")
    refer(run)
    for _ in range(2):
        make_run(endpoint, YOUNG)
    delete_old()
    assert Run.objects.filter(pk=run.pk).exists()


def test_every_row_that_refers_to_a_run_is_asked_for():
    """A new foreign key to runs needs a test above, or goes with its run."""
    protects = {
        f"{relation.related_model._meta.model_name}.{relation.field.name}"
        for relation in Run._meta.get_fields(include_hidden=True)
        if relation.one_to_many and relation.on_delete.__name__ != "CASCADE"
    }
    assert protects == {
        "toolversion.run",
        "withdrawal.run",
        "withdrawal.returned_run",
        "finding.run",
        "endpoint.held_run",
    }


def test_the_newest_runs_and_the_newest_list_of_an_endpoint_stay():
    endpoint, other = make_endpoint(), make_endpoint()
    runs = [make_run(endpoint), make_run(endpoint), *(make_run(endpoint, status="failed") for _ in range(4))]
    alone = make_run(other, trigger="runtime")
    delete_old()
    assert list(Run.objects.order_by("pk")) == [runs[1], *runs[-2:], alone]


def test_old_calls_are_deleted_unless_someone_waits_for_them():
    tool = make_tool()
    old, under_way, reported = make_call(tool), make_call(tool, status="running"), make_call(tool)
    unreported, young = make_call(tool), make_call(tool, YOUNG, continues=old)
    Callback.objects.create(call=reported, state=SendingState.SENT)
    Callback.objects.create(call=unreported, state=SendingState.WAITING)
    delete_old()
    assert list(Call.objects.order_by("pk")) == [under_way, unreported, young]
    young.refresh_from_db()
    assert young.continues is None


def test_no_row_is_deleted_where_the_settings_keep_all(settings):
    settings.KEEP_RUNS_DAYS = settings.KEEP_CALLS_DAYS = 0
    endpoint = make_endpoint()
    for _ in range(4):
        make_run(endpoint)
    make_call(make_tool())
    delete_old()
    assert (Run.objects.count(), Call.objects.count()) == (4, 1)


def test_rows_are_deleted_in_portions_that_end_with_the_time_of_the_task(monkeypatch):
    monkeypatch.setattr(portions, "SMALL_PORTION_ROWS", 2)
    tool = make_tool()
    for _ in range(5):
        make_call(tool)
    assert retention.delete_old(ends=time.monotonic() - 1)
    assert Call.objects.count() == 3
    assert not retention.delete_old(ends=math.inf)
    assert Call.objects.count() == 0


def test_young_rows_are_not_read(monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(portions, "SMALL_PORTION_ROWS", 2)
    tool = make_tool()
    make_call(tool)
    for _ in range(20):
        make_call(tool, YOUNG)
    with django_assert_max_num_queries(12):
        retention.delete_old(ends=math.inf)
    assert Call.objects.count() == 20


@pytest.mark.django_db(transaction=True)
def test_each_portion_is_committed(monkeypatch):
    """Rows that a task has deleted stay deleted if it is killed during the next portion."""
    monkeypatch.setattr(portions, "SMALL_PORTION_ROWS", 2)
    tool = make_tool()
    for _ in range(5):
        make_call(tool)
    deletions = []

    def stop(execute, sql, params, many, context):
        if sql.startswith('DELETE FROM "catalog_call"'):
            deletions.append(sql)
            if len(deletions) == 2:
                raise KeyboardInterrupt
        return execute(sql, params, many, context)

    with connection.execute_wrapper(stop), pytest.raises(KeyboardInterrupt):
        retention.delete_old(ends=math.inf)
    assert Call.objects.count() == 3


def test_the_audit_trail_and_all_that_it_is_about_stay():
    before = AuditEntry.objects.count()
    endpoint = make_endpoint()
    for _ in range(4):
        make_run(endpoint)
    delete_old()
    assert AuditEntry.objects.count() == before


def test_doctor_and_metrics_show_whether_old_rows_are_deleted(monkeypatch):
    tool = make_tool()
    overdue = make_call(tool, timedelta(days=92))
    make_call(tool, timedelta(days=90, hours=12))
    make_call(tool, YOUNG)
    (trouble,) = work.old_rows(DoctorLimits())
    assert "calls" in trouble.summary
    counted = []
    monkeypatch.setattr(
        metrics.Counter, "add", lambda self, *values, by=1: counted.append((self.name, values, by))
    )
    delete_old()
    assert counted == [("pegboard_old_rows_deleted_total", ("calls",), 2)]
    assert list(work.old_rows(DoctorLimits())) == []
    assert not Call.objects.filter(pk=overdue.pk).exists()
