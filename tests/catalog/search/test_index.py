import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from django.utils import timezone

from catalog import search
from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import Query, index, listing
from catalog.search.engines import IndexUnusableError, StemCondition, current_engine, tantivy_index
from catalog.search.scope import Scope
from catalog.vendors.operations import update_vendor
from people.models import Role
from tests.factories import make_endpoint, make_signature, make_tool, make_user, make_vendor, make_version

pytestmark = pytest.mark.django_db


def find_names(text: str, **more) -> list[str]:
    return [row["name"] for row in search.search(Query(q=text, **more)).rows]


def test_indexing_twice_changes_nothing():
    make_tool(make_signature("refill_prescription"))
    assert search.index_pending() == 1
    assert search.index_pending() == 0


def test_searches_compare_no_changes_that_are_indexed():
    for number in range(3):
        make_tool(make_signature(f"tool_{number}"))
    search.index_pending()
    state = index.index_state()
    assert (state.through, state.snapshot) == (0, state.target)
    make_tool(make_signature("newest"))
    assert search.index_pending() == 1


@pytest.mark.parametrize("is_indexed", [True, False])
def test_the_first_tools_of_several_texts_are_those_of_a_list_of_each(is_indexed):
    for number in range(5):
        make_tool(make_signature(f"cancel_order_{number}", description="Cancels albatrosses."))
    search.index_pending()
    if not is_indexed:
        make_tool(make_signature("cancel_flight", description="Cancels albatrosses."))
    texts = ["Cancel the albatrosses", "cancel flight", "unheard-of zeppelins"]
    first_tools = listing.find_first_tools(texts, Query(limit=3))
    pages = [search.search(Query(q=text, limit=3)) for text in texts]
    for found, page in zip(first_tools, pages, strict=True):
        assert [row["id"] for row in found.rows] == [row["id"] for row in page.rows]
        assert found.fits_badly == page.fits_badly


def test_a_new_version_is_found_by_its_new_words_and_not_by_the_old():
    tool = make_tool(make_signature("lookup", description="Finds albatrosses."))
    search.index_pending()
    make_version(tool, make_signature("lookup", description="Finds penguins."))
    assert search.index_pending() == 1
    assert find_names("penguins") == ["lookup"]
    assert find_names("albatrosses") == []
    assert search.search(Query(q="albatrosses")).unmatched == ["albatrosses"]


def test_a_new_version_is_found_by_its_new_words_before_it_is_indexed():
    tool = make_tool(make_signature("lookup_bird", description="Finds albatrosses."))
    make_tool(make_signature("lookup_fish", description="Finds herrings."))
    search.index_pending()
    make_version(tool, make_signature("lookup_animal", description="Finds penguins."))
    assert find_names("penguins") == ["lookup_animal"]
    assert find_names("lookup") == ["lookup_animal", "lookup_fish"]
    search.index_pending()
    assert find_names("penguins") == ["lookup_animal"]


def test_tools_of_a_removed_endpoint_leave_the_index():
    stays, goes = make_tool(make_signature("stays_here")), make_tool(make_signature("goes_away"))
    search.index_pending()
    goes.endpoint.removed_at = timezone.now()
    goes.endpoint.save()
    search.index_pending()
    tools = set(Tool.objects.values_list("pk", flat=True))
    indexed = current_engine().open().candidates({"here": 1.0, "goe": 1.0, "stay": 1.0}, Scope(), 10)
    assert {document.tool for document in indexed} == tools - {goes.pk} == {stays.pk}


def test_an_index_of_another_release_is_removed_once_the_own_one_can_be_read():
    old = Path(settings.SEARCH_DIRECTORY) / "tantivy-1"
    old.mkdir(parents=True)
    (old / "current").write_text("0")
    make_tool(make_signature("lookup"))
    search.index_pending()
    assert not old.exists()
    assert find_names("lookup") == ["lookup"]


@pytest.mark.parametrize("spare", [0, 2, 100])
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_tools_outside_of_the_usual_scope_take_no_place_among_the_candidates(monkeypatch, spare, limit):
    monkeypatch.setattr(tantivy_index, "SPARE", spare)
    endpoint = make_endpoint()
    for number in range(12):
        words = "albatross " * (12 - number)
        status = ToolStatus.ACTIVE if number % 3 == 2 else ToolStatus.WITHDRAWN
        make_tool(make_signature(f"tool_{number}", description=words), endpoint=endpoint, status=status)
    search.index_pending()
    reader = current_engine().open()
    candidates = reader.candidates({"albatross": 1.0}, Scope(), limit)
    # A condition that all tools fulfil is checked for each of them.
    among_all = Scope(endpoints=[endpoint.pk])
    assert candidates == reader.candidates({"albatross": 1.0}, among_all, limit)
    assert len(candidates) == min(limit, 4)


def test_the_tools_of_a_renamed_vendor_are_indexed_again():
    vendor = make_vendor(name="Oldname", slug="firm")
    tool = make_tool(endpoint=make_endpoint(vendor=vendor))
    other = make_tool(make_signature("other"))
    search.index_pending()
    update_vendor(vendor, actor=make_user(Role.ADMIN), homepage="https://firm.example/")
    assert search.index_pending() == 0
    update_vendor(vendor, actor=make_user(Role.ADMIN), name="Bramble")
    assert search.index_pending() == 1
    assert find_names("bramble") == [tool.name]
    assert find_names("oldname") == []
    assert find_names("other") == [other.name]
    assert search.index_pending() == 0


def test_a_tool_that_is_not_indexed_yet_is_not_found_by_words_of_grammar():
    search.index_pending()
    make_tool(make_signature("weather_forecast", description="Weather for the week."))
    page = search.search(Query(q="Iron the shirts"))
    assert page.rows == []
    assert [row["name"] for row in search.search(Query(q="the weather")).rows] == ["weather_forecast"]


def test_a_vendor_that_is_renamed_while_its_tools_are_indexed_is_found_by_its_new_name(monkeypatch):
    vendor = make_vendor(name="Oldname", slug="firm")
    tool = make_tool(endpoint=make_endpoint(vendor=vendor))
    write = index._write

    def renamed_before_it_is_written(*args) -> int:
        """The batch has read the old name by now, and has written nothing."""
        monkeypatch.setattr(index, "_write", write)
        update_vendor(vendor, actor=make_user(Role.ADMIN), name="Bramble")
        return write(*args)

    monkeypatch.setattr(index, "_write", renamed_before_it_is_written)
    search.index_pending()
    assert find_names("bramble") == [tool.name]
    assert find_names("oldname") == []


def test_many_small_batches_stay_searchable():
    endpoint = make_endpoint()
    for number in range(30):
        make_tool(make_signature(f"task_number_{number}"), endpoint=endpoint)
        search.index_pending()
    assert len(find_names("task", limit=100)) == 30
    assert current_engine().open().holder_counts({"task"})["task"] >= 30


def test_one_vendor_is_searched_alone():
    vendors = [make_vendor(slug=slug) for slug in ("bramble", "fairweather")]
    for vendor in vendors:
        endpoint = make_endpoint(vendor=vendor)
        for name in ("send_letter", "open_letter"):
            make_tool(make_signature(f"{name}_{vendor.slug}", tags=("post",)), endpoint=endpoint)
    search.index_pending()
    assert find_names("open letter", vendor=("bramble",)) == ["open_letter_bramble", "send_letter_bramble"]
    assert find_names("open letter", vendor=("bramble",), tag=("post",))[0] == "open_letter_bramble"
    assert set(find_names("letter")) == set(Tool.objects.values_list("name", flat=True))


def test_filters_find_what_has_all_of_them():
    for vendor in (make_vendor(slug="bramble"), make_vendor(slug="fairweather")):
        endpoint = make_endpoint(vendor=vendor)
        for number in range(6):
            signature = make_signature(
                f"{vendor.slug}_letter_{number}", tags=("post", "even") if number % 2 else ("post",)
            )
            make_tool(signature, endpoint=endpoint, status="withdrawn" if number == 3 else "active")
    search.index_pending()
    queries = [
        Query(q="letter", vendor=("bramble",), status=("active",)),
        Query(q="letter", tag=("post", "even")),
        Query(q="letter", status=("withdrawn",)),
        Query(q="letter", vendor=("bramble",), tag=("even",), status=("active",)),
    ]
    assert [len(search.search(query).rows) for query in queries] == [5, 6, 2, 2]


def test_facets_count_every_tool_that_matches():
    endpoint = make_endpoint()
    for number in range(7):
        make_tool(make_signature(f"letter_{number}", tags=("post",) if number % 2 else ()), endpoint=endpoint)
    make_tool(make_signature("unlike_it", description="", tags=("post",)), status="withdrawn")
    search.index_pending()
    reader = current_engine().open()
    counts = reader.facets(("tag", "status", "endpoint"), Scope(status=None))
    assert counts["tag"] == {"post": 4}
    assert counts["status"] == {"active": 7, "withdrawn": 1}
    assert counts["endpoint"][str(endpoint.pk)] == 7
    letters = StemCondition(frozenset({"letter"}))
    assert reader.facets(("tag",), Scope(), letters)["tag"] == {"post": 3}


@pytest.mark.parametrize("scope", [Scope(), Scope(status=None), Scope(tags=(("post",),)), Scope(kinds=())])
def test_counts_of_stems_and_without_them_add_up(scope):
    endpoint = make_endpoint()
    for number in range(6):
        name = f"letter_{number}" if number % 3 else f"parcel_{number}"
        status = "active" if number % 2 else "withdrawn"
        make_tool(make_signature(name, description="", tags=("post",)), endpoint=endpoint, status=status)
    search.index_pending()
    reader = current_engine().open()
    tools = Tool.objects.filter(**({"status": scope.status} if scope.status else {}))
    letter_count = tools.filter(name__startswith="letter").count()
    has_stem = StemCondition(frozenset({"letter"}))
    has_none = has_stem._replace(is_absent=True)
    other_count = len(tools) - letter_count
    assert (reader.count(scope, has_stem), reader.count(scope, has_none)) == (letter_count, other_count)
    for condition, count in ((has_stem, letter_count), (has_none, other_count)):
        assert sum(reader.facets(("status",), scope, condition)["status"].values()) == count
    assert reader.count(scope, StemCondition(frozenset())) == 0


def test_batches_end_in_the_same_index_as_one(monkeypatch):
    monkeypatch.setattr(index, "BATCH", 3)
    endpoint = make_endpoint()
    for number in range(10):
        make_tool(make_signature(f"tool_{number}"), endpoint=endpoint)
    assert search.index_pending() == 10
    assert current_engine().open().document_count() == 10


def test_a_tool_with_odd_text_is_indexed():
    text = "tab\there \\N \\x41 'quote' \"two\" {curly} 药房 🙂 " + "x" * 5000
    make_tool(make_signature("odd\ttool \\N", description=text, tags=("#a\\b", 'c"d', "é" * 300)))
    assert search.index_pending() == 1
    assert find_names("药房") == ["odd\ttool \\N"]
    assert find_names("tool", tag=("é" * 300,)) == ["odd\ttool \\N"]


@pytest.mark.django_db(transaction=True)
def test_two_workers_index_the_same_tools_once():
    endpoint = make_endpoint()
    for number in range(40):
        make_tool(make_signature(f"tool_{number}"), endpoint=endpoint)

    def work() -> None:
        try:
            search.index_pending()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert current_engine().open().document_count() == 40
    assert search.index_pending() == 0
    assert connection.in_atomic_block is False


@pytest.mark.django_db(transaction=True)
def test_a_transaction_indexes_what_it_changes_after_another_one_has_ended():
    def commit_elsewhere() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_current_xact_id()")
        finally:
            connections.close_all()

    with transaction.atomic():
        make_tool()
        thread = threading.Thread(target=commit_elsewhere)
        thread.start()
        thread.join()
        assert search.index_pending() == 1
        make_tool(make_signature("refund"))
        assert find_names("refund") == ["refund"]
        assert search.index_pending() == 1


def harm_the_files(kind: str) -> None:
    root = Path(settings.SEARCH_DIRECTORY)
    if kind == "deleted":
        shutil.rmtree(root)
    for path in root.glob("*/*/*.*"):
        if kind == "no files":
            path.unlink()
        elif kind == "no list of files" and path.name == "meta.json":
            path.write_text("{")
        elif kind == "zeros" and path.name != "meta.json":
            path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("kind", ["deleted", "no files", "no list of files", "zeros"])
def test_a_damaged_index_is_built_again_and_searches_answer_meanwhile(kind):
    for number in range(3):
        make_tool(make_signature(f"refill_{number}"))
    search.index_pending()
    assert len(find_names("refill")) == 3
    harm_the_files(kind)
    current_engine.cache_clear()  # as another process opens it
    assert len(find_names("refill")) == 3
    search.index_pending()
    assert len(find_names("refill")) == 3
    assert index.index_state().filled_through is None


def test_an_index_of_another_database_is_built_again(monkeypatch):
    make_tool(make_signature("refill"))
    search.index_pending()
    state = msgspec.structs.replace(index.index_state(), source="another")
    with current_engine().writing(waits=True) as writer:
        writer.write([], [], state.dump())
    make_tool(make_signature("refund"))
    assert search.index_pending() == 2


def test_a_disk_without_room_loses_nothing(monkeypatch):
    make_tool(make_signature("refill"))
    search.index_pending()
    make_tool(make_signature("refund"))
    monkeypatch.setattr(tantivy_index, "HEAP_BYTES", 1)  # the library refuses it, as it refuses a full disk
    with pytest.raises(IndexUnusableError):
        search.index_pending()
    assert (find_names("refill"), find_names("refund")) == (["refill"], ["refund"])
    monkeypatch.undo()
    assert search.index_pending() == 1
    assert find_names("refund") == ["refund"]


def test_a_rebuilt_index_replaces_the_former_one_when_it_is_complete(monkeypatch):
    monkeypatch.setattr(index, "BATCH", 3)
    for number in range(8):
        make_tool(make_signature(f"refill_{number}"))
    search.index_pending()
    steps = []
    for state in index.rebuild():
        steps.append(state.filled_through is None)
        assert len(find_names("refill")) == 8
        assert index.index_state().filled_through is None
    assert len(steps) > 2
    assert current_engine().open().document_count() == 8
