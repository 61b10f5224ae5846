import json
import threading
from datetime import timedelta
from itertools import count

import pytest
from django.db import connection, transaction
from django.utils import timezone

from catalog import tasks
from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Finding, Run, Tool, ToolVersion
from catalog.models.runs import Trigger
from people.models import Role
from tests.clients import signed_in
from tests.factories import make_endpoint, make_pin
from tests.vendor import Document, Vendor, serving, tool

pytestmark = pytest.mark.django_db(transaction=True)


class Archive(Vendor):
    """A vendor with a history; `troubles` maps a tool's id to the reply that replaces its history."""

    troubles: dict[str, tuple[int, bytes] | list[tuple[int, bytes]]]

    def answer(self, path, query):
        parts = path.strip("/").split("/")
        trouble = self.troubles.get(parts[1]) if len(parts) == 3 else None
        if trouble is None:
            return super().answer(path, query)
        return trouble if isinstance(trouble, tuple) else trouble[int(query.get("pageCursor", ["0"])[0])]


@pytest.fixture
def archive():
    """Tools 1 to 12, all in version 3."""
    archive = Archive([make_document(number, 3) for number in range(1, 13)])
    archive.troubles = {}
    for number in range(1, 13):
        keep(archive, number, *versions_of(number))
    with serving(archive) as served:
        yield served


@pytest.fixture
def endpoint(archive: Archive) -> Endpoint:
    return make_endpoint(url=archive.url)


def identity(number: int) -> str:
    return tool(number)["toolId"]


def make_document(number: int, version: int, newest: int = 0) -> Document:
    return tool(number, version=version, currentVersion=newest or version, description=f"As of {version}")


def versions_of(number: int, newest: int = 3) -> list[Document]:
    return [make_document(number, version, newest) for version in range(newest, 0, -1)]


def keep(archive: Vendor, number: int, *documents: Document) -> None:
    archive.history[identity(number)] = list(documents)


def page(*items: Document, after: str | None = None) -> tuple[int, bytes]:
    return 200, json.dumps({"items": items, "paging": {"next": after}}).encode()


def run_enumeration(endpoint: Endpoint) -> Run:
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def requested_histories(archive: Vendor) -> list[str]:
    return [path.split("/")[2] for path in archive.requests if "/versions" in path]


def versions(number: int) -> list[tuple[int, str]]:
    rows = Tool.objects.get(tool_id=identity(number)).versions.order_by("ordinal")
    return [(row.ordinal, row.label) for row in rows]


def notes(endpoint: Endpoint) -> dict[str, tuple[int, str]]:
    run = endpoint.runs.filter(status="succeeded").latest("pk")
    return {note["code"]: (note["count"], note["message"]) for note in run.notes}


def test_older_versions_come_behind_the_current_one(endpoint):
    run = run_enumeration(endpoint)
    assert versions(5) == [(1, "3")]

    older_versions.read_all(endpoint.pk)

    row = Tool.objects.select_related("current").get(tool_id=identity(5))
    assert versions(5) == [(1, "3"), (2, "1"), (3, "2")]
    assert [version.label for version in row.versions.all()] == ["3", "2", "1"]
    assert (row.current.label, row.version_count, row.description) == ("3", 3, "As of 3")
    assert row.versions.get(label="1").decoded().description == "As of 1"
    assert row.versions.get(label="1").run is None
    assert ToolVersion.objects.count() == 36
    assert not Finding.objects.exists()
    assert notes(endpoint) == {}
    run.refresh_from_db()
    assert (run.added, run.changed) == (12, 0)


def test_older_version_can_be_pinned_and_stays(endpoint, archive):
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    row = Tool.objects.get(tool_id=identity(5))
    pin = make_pin(tool=row, version=row.versions.get(label="1"))

    archive.listed[4] = make_document(5, 4)
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)

    pin.refresh_from_db()
    assert pin.version.label == "1"
    assert versions(5) == [(1, "3"), (2, "1"), (3, "2"), (4, "4")]


def test_list_of_versions_shows_the_newest_label_first(endpoint):
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    row = Tool.objects.get(tool_id=identity(5))

    rows = signed_in(Role.VIEWER).get(f"/api/v1/tools/{row.pk}/versions/").json()["results"]

    assert [(version["ordinal"], version["label"], version["is_current"]) for version in rows] == [
        (1, "3", True),
        (3, "2", False),
        (2, "1", False),
    ]


def test_tools_in_their_first_version_are_not_asked(archive, endpoint):
    archive.listed = [tool(1), tool(2, version=2)]
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert requested_histories(archive) == [identity(2)]


def test_history_is_read_once_until_there_is_a_new_version(archive, endpoint):
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    archive.requests.clear()
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    assert requested_histories(archive) == []

    archive.listed[4] = make_document(5, 6)
    keep(archive, 5, *versions_of(5, newest=6))
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)

    assert requested_histories(archive) == [identity(5)]
    assert [label for _, label in versions(5)] == ["3", "1", "2", "6", "4", "5"]


def test_vendor_without_any_history_is_asked_five_times(archive, endpoint):
    archive.history = {}
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert requested_histories(archive) == [identity(number) for number in range(1, 6)]
    assert not Tool.objects.filter(versions_read_at=None).exists()
    assert notes(endpoint) == {}
    archive.requests.clear()
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    assert requested_histories(archive) == []


def test_four_tools_without_history_do_not_speak_for_the_others(archive, endpoint):
    for number in (1, 2, 3, 4, 6, 7):
        del archive.history[identity(number)]
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert len(requested_histories(archive)) == 12
    assert len(versions(12)) == 3


def test_version_newer_than_the_listed_one_waits_for_the_listing(archive, endpoint):
    run_enumeration(endpoint)
    keep(archive, 5, *versions_of(5, newest=4))
    older_versions.read_all(endpoint.pk)
    row = Tool.objects.select_related("current").get(tool_id=identity(5))
    assert row.current.label == "3"
    assert (4, "4") in versions(5)

    archive.listed[4] = versions_of(5, newest=4)[0]
    run_enumeration(endpoint)

    row.refresh_from_db()
    assert (row.current.label, row.current.ordinal, row.version_count) == ("4", 4, 4)


def test_other_bytes_under_a_known_label_are_drift(archive, endpoint):
    changed = tool(5, version=3, description="Not what was listed")
    keep(archive, 5, changed, *versions_of(5)[1:])
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)
    Tool.objects.update(versions_read_at=None)
    older_versions.read_all(endpoint.pk)

    assert versions(5) == [(1, "3"), (2, "1"), (3, "2"), (4, "3")]
    assert Finding.objects.get(code="HELD").version.ordinal == 4
    finding = Finding.objects.get(code="DRIFT")
    assert (finding.severity, finding.version.ordinal, finding.against.ordinal) == ("high", 4, 1)
    assert "“tool_5”" in finding.message
    row = Tool.objects.select_related("current").get(tool_id=identity(5))
    assert (row.current.ordinal, row.description) == (1, "As of 3")


def test_unreadable_old_version_costs_only_itself_and_is_told(archive, endpoint):
    new, _, old = versions_of(5)
    keep(archive, 5, new, tool(5, version=2, name=""), old, {"version": 1}, tool(6, version=1))
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert versions(5) == [(1, "3"), (2, "1")]
    assert Tool.objects.get(tool_id=identity(5)).versions_read_at
    number, message = notes(endpoint)["HISTORY_REJECTED"]
    assert number == 3
    assert "“tool_5”" in message
    assert len(versions(12)) == 3


def test_every_unreadable_version_is_counted_on_the_run_page(archive, endpoint):
    for number in (5, 6):
        keep(archive, number, *versions_of(number)[:2], tool(number, version=1, name=""))
    run = run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    body = signed_in(Role.VIEWER).get(f"/api/v1/runs/{run.pk}/").json()
    (note,) = body["notes"]
    assert (note["code"], note["count"]) == ("HISTORY_REJECTED", 2)
    assert note["message"].startswith("Version 1 of “tool_5” was left out. ")
    assert body["status"] == "succeeded"


NONSENSE = {
    "not JSON": (200, b"<p>Sorry</p>"),
    "no list": (200, b'{"versions": []}'),
    "a loop": [page(make_document(5, 2), after="1"), page(make_document(5, 1), after="1")],
    "nothing, and more": [page(after=str(number)) for number in range(1, 30)],
}


@pytest.mark.parametrize("trouble", NONSENSE)
def test_broken_history_of_one_tool_costs_no_other(archive, endpoint, trouble):
    archive.troubles[identity(5)] = NONSENSE[trouble]
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert len(versions(4)) == len(versions(6)) == len(versions(12)) == 3
    assert notes(endpoint)["HISTORY_FAILED"][1].startswith("Older versions of “tool_5” could not be read. ")
    archive.requests.clear()
    older_versions.read_all(endpoint.pk)
    assert requested_histories(archive) == []


def test_pages_before_the_broken_one_are_kept(archive, endpoint):
    archive.troubles[identity(5)] = [page(*versions_of(5)[:2], after="1"), (200, b"{")]
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert versions(5) == [(1, "3"), (2, "2")]


def test_history_in_pages_is_read_to_its_end(archive, endpoint):
    new, middle, old = versions_of(5)
    archive.troubles[identity(5)] = [page(new, after="1"), page(middle, after="2"), page(old)]
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert versions(5) == [(1, "3"), (2, "1"), (3, "2")]


def test_a_history_that_does_not_begin_with_version_1_is_noted(archive, endpoint):
    keep(archive, 5, make_document(5, 3), make_document(5, 2, 3))
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    count, message = notes(endpoint)["FIRST_VERSION"]
    assert count == 1
    assert "tool_5" in message
    assert versions(5) == [(1, "3"), (2, "2")]


@pytest.mark.parametrize("is_one_page", [True, False])
def test_endless_history_is_cut(archive, endpoint, monkeypatch, is_one_page):
    monkeypatch.setattr(older_versions, "MAX_VERSIONS", 4)
    documents = versions_of(5, newest=9)
    archive.listed[4] = documents[0]
    pages = [page(document, after=str(number)) for number, document in enumerate(documents, start=1)]
    archive.troubles[identity(5)] = page(*documents) if is_one_page else pages
    run_enumeration(endpoint)

    older_versions.read_all(endpoint.pk)

    assert versions(5) == [(1, "9"), (2, "6"), (3, "7"), (4, "8")]
    assert notes(endpoint)["HISTORY_TOO_LONG"][0] == 1


def test_vendor_that_is_away_for_one_tool_is_asked_again_after_the_next_run(archive, endpoint):
    archive.troubles[identity(5)] = (400, b"{}")
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    assert len(requested_histories(archive)) == 12
    assert len(versions(12)) == 3
    assert "requests it again" in notes(endpoint)["HISTORY_FAILED"][1]

    del archive.troubles[identity(5)]
    archive.requests.clear()
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)

    assert requested_histories(archive) == [identity(5)]
    assert len(versions(5)) == 3
    assert notes(endpoint) == {}


def test_vendor_that_is_away_altogether_is_left_alone_soon_and_asked_again_later(archive, endpoint):
    archive.troubles = {identity(number): (401, b"{}") for number in range(1, 13)}
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    assert len(requested_histories(archive)) == 5
    assert notes(endpoint)["HISTORY_FAILED"][0] == 5

    archive.troubles = {}
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)

    assert ToolVersion.objects.count() == 36


def test_locked_credential_is_told_and_asks_nobody(archive, endpoint, settings):
    from catalog.credentials import operations as credential_operations
    from tests.factories import make_user

    run_enumeration(endpoint)
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="bearer", url=archive.url, secret="s3cret"
    )
    Endpoint.objects.update(credential=credential)
    settings.KEYS = []

    older_versions.read_all(endpoint.pk)

    assert requested_histories(archive) == []
    assert "“Key”" in notes(endpoint)["HISTORY_FAILED"][1]


def test_batches_go_on_where_the_one_before_ended(archive, endpoint, monkeypatch):
    monkeypatch.setattr(older_versions, "BATCH", 5)
    archive.troubles[identity(2)] = (400, b"{}")
    run_enumeration(endpoint)
    order = list(Tool.objects.order_by("pk").values_list("pk", flat=True))

    assert older_versions.read_pending(endpoint.pk) == order[4]
    assert older_versions.read_pending(endpoint.pk, order[4]) == order[9]
    assert older_versions.read_pending(endpoint.pk, order[9]) is None

    assert len(requested_histories(archive)) == 12
    assert ToolVersion.objects.count() == 34


@pytest.mark.parametrize("limit", ["BATCH_SECONDS", "BATCH_BYTES"])
def test_batch_that_takes_too_much_is_cut_short(archive, endpoint, monkeypatch, limit):
    monkeypatch.setattr(older_versions, limit, 0)
    run_enumeration(endpoint)

    assert older_versions.read_pending(endpoint.pk) == Tool.objects.order_by("pk").first().pk
    older_versions.read_all(endpoint.pk)

    assert ToolVersion.objects.count() == 36


def test_task_sends_the_next_batch_on_its_way(archive, endpoint, monkeypatch):
    monkeypatch.setattr(older_versions, "BATCH", 5)
    messages = []
    monkeypatch.setattr(tasks.read_versions, "delay", lambda *arguments: messages.append(arguments))
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)

    tasks.enumerate_run(run.pk)
    for message in messages:
        tasks.read_versions(*message)

    assert [len(message) for message in messages] == [1, 2, 2]
    assert ToolVersion.objects.count() == 36


def test_a_message_that_comes_again_later_asks_nobody_and_sends_none(archive, endpoint, monkeypatch):
    messages = []
    monkeypatch.setattr(tasks.read_versions, "delay", lambda *arguments: messages.append(arguments))
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    tasks.enumerate_run(run.pk)
    Run.objects.update(finished_at=timezone.now() - timedelta(minutes=5))
    request_count = len(archive.requests)

    tasks.enumerate_run(run.pk)

    assert (len(messages), len(archive.requests)) == (1, request_count)


def test_failed_run_sends_nobody_into_history(archive, endpoint, monkeypatch):
    archive.script = lambda number, document: (400, b"{}")
    messages = []
    monkeypatch.setattr(tasks.read_versions, "delay", lambda *arguments: messages.append(arguments))

    tasks.enumerate_run(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)

    assert messages == []


def test_reading_twice_adds_nothing(endpoint):
    run_enumeration(endpoint)
    for _ in range(2):
        Tool.objects.update(versions_read_at=None)
        older_versions.read_all(endpoint.pk)

    assert ToolVersion.objects.count() == 36
    assert not Finding.objects.exists()


def test_second_reader_leaves_at_once(archive, endpoint):
    run_enumeration(endpoint)
    inside, leave = threading.Event(), threading.Event()
    answer = archive.answer

    def slowly(path, query):
        if "/versions" in path:
            inside.set()
            leave.wait(10)
        return answer(path, query)

    archive.answer = slowly
    first = threading.Thread(target=in_thread, args=(older_versions.read_all, endpoint.pk))
    first.start()
    inside.wait(10)
    assert older_versions.read_pending(endpoint.pk) is None
    leave.set()
    first.join()

    assert len(requested_histories(archive)) == 12
    assert ToolVersion.objects.count() == 36


def in_thread(work, *arguments) -> None:
    try:
        work(*arguments)
    finally:
        connection.close()


def test_removed_endpoint_is_not_asked(archive, endpoint):
    run_enumeration(endpoint)
    Endpoint.objects.update(removed_at="2026-01-01T00:00Z")

    assert older_versions.read_pending(endpoint.pk) is None
    assert requested_histories(archive) == []


def test_version_that_arrives_while_history_is_being_read_is_not_forgotten(archive, endpoint):
    run_enumeration(endpoint)
    answer = archive.answer
    runs = []

    def publish_meanwhile(path, query):
        reply = answer(path, query)
        if "/versions" in path and not runs:
            archive.listed[0] = make_document(1, 6)
            keep(archive, 1, *versions_of(1, newest=6))
            runs.append(threading.Thread(target=in_thread, args=(run_enumeration, endpoint)))
            runs[0].start()
            runs[0].join()
        return reply

    archive.answer = publish_meanwhile
    older_versions.read_all(endpoint.pk)
    assert versions(1) == [(1, "3"), (2, "6"), (3, "1"), (4, "2")]

    older_versions.read_all(endpoint.pk)
    assert versions(1) == [(1, "3"), (2, "6"), (3, "1"), (4, "2"), (5, "4"), (6, "5")]


def test_runs_and_histories_side_by_side_never_wait_for_each_other_for_ever(archive, endpoint):
    run_enumeration(endpoint)
    failures = []

    def again_and_again(work) -> None:
        try:
            for _ in range(8):
                work()
        except Exception as failure:  # noqa: BLE001 - a thread's failure has to reach the test
            failures.append(failure)
        finally:
            connection.close()

    newest = count(4)

    def publish() -> None:
        version = next(newest)
        archive.listed = [make_document(number, version) for number in range(1, 13)]
        assert run_enumeration(endpoint).error_code == ""

    def look_back() -> None:
        Tool.objects.update(versions_read_at=None)
        older_versions.read_all(endpoint.pk)

    threads = [threading.Thread(target=again_and_again, args=(work,)) for work in (publish, look_back)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    for row in Tool.objects.select_related("current"):
        ordinals = sorted(row.versions.values_list("ordinal", flat=True))
        assert ordinals == list(range(1, row.version_count + 1))
        assert row.current.label == "11"


def test_run_waits_for_a_history_that_holds_the_tool(archive, endpoint):
    run_enumeration(endpoint)
    archive.listed[4] = make_document(5, 4)
    recording = threading.Thread(target=in_thread, args=(run_enumeration, endpoint))

    with transaction.atomic():
        row = Tool.objects.select_for_update(no_key=True).get(tool_id=identity(5))
        recording.start()
        recording.join(0.5)
        assert recording.is_alive()
        row.version_count = 2
        row.save()
    recording.join()

    assert versions(5) == [(1, "3"), (3, "4")]
