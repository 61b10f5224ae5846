"""A list that takes long is read to its end, however slowly the vendor sends it."""

import time
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from catalog.enumeration import heartbeat, kept_replies, lease, slow_vendors
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, KeptReply, Run, Tool
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.vendor import Vendor, serving, tools

pytestmark = pytest.mark.django_db(transaction=True)

PAGES, PAGE = 6, 100


@pytest.fixture
def long_list():
    """Each of its pages is enough to be staged."""
    with serving(Vendor(tools(PAGES * PAGE), page_size=PAGE)) as vendor:
        yield vendor


def run_enumeration(vendor):
    endpoint = make_endpoint(url=vendor.url)
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def test_a_list_that_takes_longer_than_any_statement_may_is_read_whole(long_list):
    long_list.script = lambda number, document: time.sleep(0.4)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '2s'")
        try:
            run = run_enumeration(long_list)
        finally:
            cursor.execute("RESET statement_timeout")
    assert (run.status, run.error, run.added) == ("succeeded", None, PAGES * PAGE)


def test_nothing_is_open_in_the_database_while_the_vendor_is_waited_for(long_list):
    """Neither a statement nor a transaction: the first would be ended, the second keeps old rows alive."""
    states = []
    connection.ensure_connection()
    own_pid = connection.connection.info.backend_pid
    with psycopg.connect(autocommit=True, **_database()) as other:

        def look(number, document):
            cursor = other.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [own_pid])
            states.append(cursor.fetchone()[0])

        long_list.script = look
        assert run_enumeration(long_list).status == "succeeded"
    assert len(states) > PAGES
    assert set(states) == {"idle"}
    assert Tool.objects.count() == PAGES * PAGE


def in_parts(vendor, monkeypatch, between=lambda: None, **fields):
    """Run as workers that each have time for one request; return the finished run and the number of parts."""
    monkeypatch.setattr(slow_vendors, "PART_SECONDS", -1.0)
    run = enumeration_runs.request_run(make_endpoint(url=vendor.url, **fields), trigger=Trigger.SCHEDULE)
    for part in range(1, 100):
        done = enumeration_runs.perform(run.pk)
        if not done.is_active:
            return done, part
        assert (done.status, done.in_parts, done.attempt) == ("queued", True, 0)
        between()
    raise AssertionError("it never ended")


def cursors(vendor):
    return [path.partition("pageCursor=")[2] or "0" for path in vendor.requests]


@pytest.fixture
def sent_pks(monkeypatch):
    """Ids of the runs in messages to workers."""
    run_pks = []
    monkeypatch.setattr(enumeration_runs, "send", lambda pk: run_pks.append(pk) or True)
    return run_pks


def test_a_long_reading_goes_on_in_parts_and_asks_for_each_page_once(long_list, sent_pks, monkeypatch):
    run, parts = in_parts(long_list, monkeypatch)
    assert (run.status, run.added, run.pages, run.attempt) == ("succeeded", PAGES * PAGE, PAGES, 1)
    assert parts == PAGES
    assert cursors(long_list) == ["0", "100", "200", "300", "400", "500", "0"]
    assert sent_pks == [run.pk] * PAGES, "told when it was asked for, and by each part but the last"
    assert not KeptReply.objects.exists()


def test_two_whole_readings_agree_about_a_missing_tool_over_all_their_parts(long_list, sent_pks, monkeypatch):
    first, _ = in_parts(long_list, monkeypatch)
    del long_list.listed[-1]
    long_list.requests.clear()
    Endpoint.objects.update(next_due_at=timezone.now())
    run = enumeration_runs.request_run(first.endpoint, trigger=Trigger.SCHEDULE)
    while (done := enumeration_runs.perform(run.pk)).is_active:
        assert len(long_list.requests) < 100
    assert (done.status, done.withdrawn) == ("succeeded", 1)
    assert cursors(long_list).count("300") == 2


def test_a_list_that_never_rests_ends_in_parts_too(long_list, sent_pks, monkeypatch):
    count = iter(range(10_000))

    def reword(number, document):
        for item in document["items"][:1]:
            item["description"] = f"Words {next(count)}."

    long_list.script = reword
    run, _ = in_parts(long_list, monkeypatch)
    assert (run.status, run.error_code) == ("failed", "UNSTABLE")


def test_the_time_of_all_parts_together_has_a_bound_that_says_how_to_raise_it(
    long_list, sent_pks, monkeypatch
):
    def age(seconds):
        return lambda: KeptReply.objects.update(since=timezone.now() - timedelta(seconds=seconds))

    run, _ = in_parts(long_list, monkeypatch, age(170), max_minutes=3)
    assert run.status == "succeeded"
    run, parts = in_parts(long_list, monkeypatch, age(190), max_minutes=3)
    assert parts == 2
    assert (run.status, run.error_code) == ("failed", "DEADLINE")
    assert "did not end within 3 minutes" in run.error_message
    assert "raise “Minutes for a sync, at most” in the endpoint's settings, up to 1,440" in run.error_message


def test_what_another_process_reads_now_is_not_read_on(long_list, sent_pks, monkeypatch):
    """A worker that slept through its lease stops before its next request."""
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.01)

    def steal(number, document):
        if number == 2:
            Run.objects.update(attempt=7)
            connection.close()
            time.sleep(0.2)

    long_list.script = steal
    run = run_enumeration(long_list)
    assert (run.status, run.attempt, len(long_list.requests)) == ("running", 7, 2)


def test_who_lost_the_lease_asks_for_nothing_more_in_the_middle_of_a_page():
    """A page may take a request for each of its tools."""
    part = enumeration_runs._RunPart(enumeration_runs.request_run(make_endpoint(), trigger=Trigger.COMMAND))
    part.raise_if_over()
    part.heart.is_lost = True
    with pytest.raises(lease.LostLeaseError):
        part.raise_if_over()


def age_known_pages(endpoint, minutes):
    since = timezone.now() - timedelta(minutes=minutes)
    facts = {
        "reader": "r",
        "request": "0" * 64,
        "url": endpoint.url,
        "status": 200,
        "headers": {},
        "body": b"",
    }
    KeptReply.objects.create(endpoint=endpoint, since=since, **facts)
    return endpoint


def test_what_was_kept_is_forgotten_once_it_is_old_and_no_reading_goes_on():
    young, _, read_now = (age_known_pages(make_endpoint(max_minutes=60), minutes) for minutes in (58, 62, 62))
    Run.objects.create(endpoint=read_now, status="queued", in_parts=True)
    kept_replies.forget_old()
    assert {row.endpoint for row in KeptReply.objects.all()} == {young, read_now}


def test_old_replies_are_deleted_in_portions(monkeypatch):
    monkeypatch.setattr(kept_replies, "DELETED_AT_ONCE", 2)
    for _ in range(5):
        age_known_pages(make_endpoint(max_minutes=60), 62)
    reply_counts = []
    for _ in range(3):
        kept_replies.forget_old()
        reply_counts.append(KeptReply.objects.count())
    assert reply_counts == [3, 1, 0]


def test_a_reading_that_ends_leaves_what_was_kept_of_other_vendors(long_list):
    other = age_known_pages(make_endpoint(), 1)
    assert run_enumeration(long_list).status == "succeeded"
    assert KeptReply.objects.get().endpoint == other


def _database():
    connection_params = connection.get_connection_params()
    return {
        name: connection_params[name]
        for name in ("dbname", "user", "password", "host", "port")
        if name in connection_params
    }
