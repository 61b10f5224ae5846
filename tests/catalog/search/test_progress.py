"""REST and pages state the progress of search and inspection while work is waiting."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from catalog import search
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run, Tool, ToolChange
from catalog.models.runs import Trigger
from catalog.review import inspector
from catalog.search import changes, index
from catalog.vendors import operations
from people.models import Role
from tests.factories import make_endpoint, make_signature, make_tool, make_user, make_version
from tests.vendor import tools

pytestmark = pytest.mark.django_db(transaction=True)


class InterruptedWorkerError(Exception):
    pass


@pytest.fixture
def run(vendor) -> Run:
    vendor.listed = tools(10)
    endpoint = make_endpoint(url=vendor.url)
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def progress(api, path: str) -> tuple[int, int, int]:
    answer = api.get(f"/api/v1/{path}").json()["progress"]
    assert answer.keys() == {"tools", "searchable", "inspected", "compared", "meaning_trouble"}
    return answer["tools"], answer["searchable"], answer["inspected"]


def everywhere(api, run: Run) -> set[tuple[int, int, int]]:
    endpoint = run.endpoint
    paths = (f"runs/{run.pk}/", f"endpoints/{endpoint.pk}/", f"vendors/{endpoint.vendor.slug}/", "tools/")
    return {progress(api, path) for path in paths}


def interrupt_after(monkeypatch, module, name: str, calls: int) -> None:
    """The worker ends at the beginning of a batch, as one that is killed there."""
    real, counted = getattr(module, name), []

    def counting(*args, **more):
        counted.append(1)
        if len(counted) > calls:
            raise InterruptedWorkerError
        return real(*args, **more)

    monkeypatch.setattr(module, name, counting)


def test_a_new_run_is_neither_searchable_nor_inspected(admin_api, run):
    assert everywhere(admin_api, run) == {(10, 0, 0)}
    search.index_pending()
    assert everywhere(admin_api, run) == {(10, 10, 0)}
    inspector.inspect_pending()
    assert everywhere(admin_api, run) == {(10, 10, 10)}


def test_indexing_that_is_interrupted_keeps_what_was_indexed(admin_api, run, monkeypatch):
    monkeypatch.setattr(index, "BATCH", 3)
    with monkeypatch.context() as patch:
        interrupt_after(patch, index, "_write", 2)
        with pytest.raises(InterruptedWorkerError):
            search.index_pending()
    assert everywhere(admin_api, run) == {(10, 6, 0)}
    assert search.index_pending() == 4
    assert everywhere(admin_api, run) == {(10, 10, 0)}


def test_inspection_that_is_interrupted_continues_where_it_was(admin_api, run, monkeypatch):
    monkeypatch.setattr(inspector, "CHUNK", 3)
    with monkeypatch.context() as patch:
        interrupt_after(patch, inspector, "_inspect_rows", 2)
        with pytest.raises(InterruptedWorkerError):
            inspector.inspect_pending()
    assert everywhere(admin_api, run) == {(10, 0, 6)}
    tool_counts = []
    real = inspector._inspect_rows
    monkeypatch.setattr(
        inspector,
        "_inspect_rows",
        lambda *args, **more: (tool_counts.append(len(args[2])), real(*args, **more)),
    )
    assert inspector.inspect_pending() == 1
    assert tool_counts == [3, 1]
    assert everywhere(admin_api, run) == {(10, 0, 10)}


def test_an_inspection_begun_under_older_rules_starts_again(run, monkeypatch):
    monkeypatch.setattr(inspector, "CHUNK", 3)
    inspector.inspect_pending(ends=0)
    assert Run.objects.get().inspected_through
    monkeypatch.setattr(inspector, "REVISION", inspector.REVISION + 1)
    tool_counts = []
    real = inspector._inspect_rows
    monkeypatch.setattr(
        inspector,
        "_inspect_rows",
        lambda *args, **more: (tool_counts.append(len(args[2])), real(*args, **more)),
    )
    inspector.inspect_pending()
    assert sum(tool_counts) == 10


def test_a_task_ends_itself_and_leaves_the_rest_to_the_next(run, monkeypatch):
    monkeypatch.setattr(index, "BATCH", 3)
    monkeypatch.setattr(inspector, "CHUNK", 3)
    assert search.index_pending(ends=0) == 3
    assert inspector.inspect_pending(ends=0) == 0
    assert search.index_pending() == 7
    assert inspector.inspect_pending() == 1


def test_a_renamed_vendor_stays_searchable(admin_api, run):
    search.index_pending()
    inspector.inspect_pending()
    operations.update_vendor(run.endpoint.vendor, actor=make_user(Role.ADMIN), name="Another")
    assert everywhere(admin_api, run) == {(10, 10, 10)}
    assert search.index_pending() == 10


def test_withdrawn_tools_and_removed_endpoints_do_not_count(admin_api, run):
    Tool.objects.filter(pk=Tool.objects.order_by("pk").first().pk).update(status="withdrawn")
    assert progress(admin_api, "tools/") == (9, 0, 0)
    operations.remove_endpoint(run.endpoint, actor=make_user(Role.ADMIN))
    assert progress(admin_api, "tools/") == (0, 0, 0)


@pytest.mark.parametrize("path", ["/runs/{run}/", "/vendors/{vendor}/", "/tools/"])
def test_pages_state_the_progress_until_all_is_done(client, run, path):
    client.force_login(make_user(Role.VIEWER))
    path = path.format(run=run.pk, vendor=run.endpoint.vendor.slug)
    assert b'id="progress"' in client.get(path).content
    search.index_pending()
    assert b'id="progress"' in client.get(path).content
    inspector.inspect_pending()
    assert b'id="progress"' not in client.get(path).content


def test_an_idle_pass_reads_no_tool(run):
    search.index_pending()
    with CaptureQueriesContext(connection) as queries:
        assert search.index_pending() == 0
    assert not [query["sql"] for query in queries if "catalog_tool " in query["sql"]]


def test_only_what_a_search_would_show_differently_is_logged():
    tool = make_tool(make_signature("lookup"))
    search.index_pending()
    logged = ToolChange.objects.count()
    Tool.objects.update(title="Another", versions_read_at=None)
    assert ToolChange.objects.count() == logged
    make_version(tool)
    assert ToolChange.objects.latest("id").tool_id == tool.pk


def test_a_change_that_commits_while_its_tool_is_indexed_is_indexed_too(monkeypatch):
    tool = make_tool(make_signature("lookup", description="Finds albatrosses."))
    write = index._write

    def changed_before_it_is_written(*args) -> int:
        monkeypatch.setattr(index, "_write", write)
        make_version(tool, make_signature("lookup", description="Finds penguins."))
        return write(*args)

    monkeypatch.setattr(index, "_write", changed_before_it_is_written)
    search.index_pending()
    rows = search.search(search.Query(q="penguins")).rows
    assert [row["name"] for row in rows] == ["lookup"]
    assert not changes.count_changes(index.index_state(), 1)


def test_a_change_that_commits_after_a_later_one_was_indexed_is_indexed_too():
    first, second = (make_tool(make_signature(name)) for name in ("first", "second"))
    search.index_pending()
    with transaction.atomic():
        make_version(first, make_signature("first", description="Finds penguins."))

        def change_the_other() -> int:
            make_version(second, make_signature("second", description="Finds albatrosses."))
            return search.index_pending()

        assert in_another_connection(change_the_other) == 1
    assert search.index_pending() == 1
    assert [row["name"] for row in search.search(search.Query(q="penguins")).rows] == ["first"]


def test_an_index_that_is_filled_answers_with_the_other_tools_too(admin_api, run, monkeypatch):
    monkeypatch.setattr(index, "BATCH", 3)
    search.index_pending(ends=0)
    assert everywhere(admin_api, run) == {(10, 3, 0)}
    assert {row["name"] for row in search.search(search.Query(q="tool")).rows} == {
        f"tool_{number}" for number in range(1, 11)
    }


def in_another_connection(work):
    def connected():
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as worker:
        return worker.submit(connected).result(30)
