import threading
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.db.models.functions import Now
from django.utils import timezone

from catalog import search
from catalog.models import SearchDocument, SearchLexeme, SearchPosting, SearchSegment, Tool
from catalog.search import Query, index, segments
from catalog.search.segments import Segment, choose_worn
from catalog.vendors.operations import update_vendor
from people.models import Role
from tests.factories import make_endpoint, make_signature, make_tool, make_user, make_vendor, make_version

pytestmark = pytest.mark.django_db


def found(text: str, **more) -> list[str]:
    return [row["name"] for row in search.search(Query(q=text, **more)).rows]


def found_in(lexeme: str) -> int:
    return sum(SearchLexeme.objects.filter(text=lexeme).values_list("found_in", flat=True))


def check_counts() -> None:
    """Every posting belongs to a segment that exists, and lexemes count their postings."""
    assert set(SearchPosting.objects.values_list("segment", flat=True)) <= set(
        SearchSegment.objects.values_list("id", flat=True)
    )
    counted: dict[int, int] = {}
    for lexeme, documents, impacts in SearchPosting.objects.values_list("lexeme", "documents", "impacts"):
        assert len(documents) == len(impacts)
        assert impacts == sorted(impacts, reverse=True)
        counted[lexeme] = counted.get(lexeme, 0) + len(documents)
    assert counted == dict(SearchLexeme.objects.filter(found_in__gt=0).values_list("id", "found_in"))


def test_indexing_twice_changes_nothing():
    make_tool(make_signature("refill_prescription"))
    assert search.index_pending() == 1
    assert search.index_pending() == 0
    check_counts()


def test_one_endpoint_can_be_indexed_alone():
    first, second = make_tool(make_signature("first_tool")), make_tool(make_signature("second_tool"))
    assert search.index_pending(first.endpoint_id) == 1
    assert list(SearchDocument.objects.values_list("tool", flat=True)) == [first.pk]
    assert search.index_pending(second.endpoint_id) == 1


def test_a_new_version_is_found_by_its_new_words_and_not_by_the_old():
    tool = make_tool(make_signature("lookup", description="Finds albatrosses."))
    search.index_pending()
    make_version(tool, make_signature("lookup", description="Finds penguins."))
    assert search.index_pending() == 1
    assert found("penguins") == ["lookup"]
    assert found("albatrosses") == []
    assert search.search(Query(q="albatrosses")).unmatched == ["albatrosses"]
    check_counts()


def test_a_new_version_is_found_by_its_new_words_before_it_is_indexed():
    tool = make_tool(make_signature("lookup_bird", description="Finds albatrosses."))
    make_tool(make_signature("lookup_fish", description="Finds herrings."))
    search.index_pending()
    make_version(tool, make_signature("lookup_animal", description="Finds penguins."))
    Tool.objects.update(changed_at=Now())
    assert found("penguins") == ["lookup_animal"]
    assert found("lookup") == ["lookup_animal", "lookup_fish"]
    search.index_pending()
    assert found("penguins") == ["lookup_animal"]


def test_tools_that_wait_for_the_index_are_looked_for_only_a_while():
    tool = make_tool(make_signature("lookup", description="Finds albatrosses."))
    search.index_pending()
    make_version(tool, make_signature("lookup", description="Finds penguins."))
    Tool.objects.update(changed_at=timezone.now() - timedelta(minutes=10))
    assert found("penguins") == []


def test_tools_of_a_removed_endpoint_leave_the_index():
    stays, goes = make_tool(make_signature("stays_here")), make_tool(make_signature("goes_away"))
    search.index_pending()
    goes.endpoint.removed_at = timezone.now()
    goes.endpoint.save()
    search.index_pending()
    assert list(SearchDocument.objects.values_list("tool", flat=True)) == [stays.pk]
    check_counts()


def test_the_tools_of_a_renamed_vendor_are_indexed_again():
    vendor = make_vendor(name="Oldname", slug="firm")
    tool = make_tool(endpoint=make_endpoint(vendor=vendor))
    other = make_tool(make_signature("other"))
    search.index_pending()
    update_vendor(vendor, actor=make_user(Role.ADMIN), homepage="https://firm.example/")
    assert search.index_pending() == 0
    update_vendor(vendor, actor=make_user(Role.ADMIN), name="Bramble")
    assert search.index_pending() == 1
    assert found("bramble") == [tool.name]
    assert found("oldname") == []
    assert found("other") == [other.name]
    assert search.index_pending() == 0


def test_a_vendor_that_is_renamed_while_its_tools_are_indexed_is_found_by_its_new_name(monkeypatch):
    vendor = make_vendor(name="Oldname", slug="firm")
    tool = make_tool(endpoint=make_endpoint(vendor=vendor))
    take_turn = segments.take_turn

    def renamed_before_the_turn():
        """The batch has read the old name by now, and has written nothing."""
        monkeypatch.setattr(segments, "take_turn", take_turn)
        update_vendor(vendor, actor=make_user(Role.ADMIN), name="Bramble")
        take_turn()

    monkeypatch.setattr(segments, "take_turn", renamed_before_the_turn)
    search.index_pending()
    search.index_pending()
    assert found("bramble") == [tool.name]
    assert found("oldname") == []


def test_many_small_batches_are_merged_and_stay_searchable():
    endpoint = make_endpoint()
    for number in range(30):
        make_tool(make_signature(f"task_number_{number}"), endpoint=endpoint)
        search.index_pending()
    assert SearchSegment.objects.count() < 2 * segments.FAN
    assert len(found("task", limit=100)) == 30
    check_counts()


def test_a_segment_is_dropped_when_its_tools_have_moved_on():
    tool = make_tool(make_signature("counter", description="Version 1"))
    for number in range(2, 6):
        search.index_pending()
        make_version(tool, make_signature("counter", description=f"Version {number}"))
    search.index_pending()
    assert SearchSegment.objects.count() == 1
    assert found_in("counter") == 1
    check_counts()


@pytest.mark.parametrize("large", [1, 1_000], ids=["segments of its own", "shared segments"])
def test_one_vendor_is_searched_alone(monkeypatch, large):
    monkeypatch.setattr(index, "LARGE", large)
    vendors = [make_vendor(slug=slug) for slug in ("bramble", "fairweather")]
    for vendor in vendors:
        endpoint = make_endpoint(vendor=vendor)
        for name in ("send_letter", "open_letter"):
            make_tool(make_signature(f"{name}_{vendor.slug}", tags=("post",)), endpoint=endpoint)
    search.index_pending()
    assert found("open letter", vendor=("bramble",)) == ["open_letter_bramble", "send_letter_bramble"]
    assert found("open letter", vendor=("bramble",), tag=("post",))[0] == "open_letter_bramble"
    assert set(found("letter")) == set(Tool.objects.values_list("name", flat=True))


@pytest.mark.parametrize("large", [1, 1_000], ids=["segments of its own", "shared segments"])
def test_filters_find_the_same_by_postings_and_by_looking_at_each(monkeypatch, large):
    monkeypatch.setattr(index, "LARGE", large)
    for vendor in (make_vendor(slug="bramble"), make_vendor(slug="fairweather")):
        endpoint = make_endpoint(vendor=vendor)
        for number in range(6):
            signature = make_signature(
                f"{vendor.slug}_letter_{number}", tags=("post", "even") if number % 2 else ("post",)
            )
            make_tool(signature, endpoint=endpoint, status="withdrawn" if number == 3 else "active")
    search.index_pending()
    asked = [
        Query(q="letter", vendor=("bramble",), status="active"),
        Query(q="letter", tag=("post", "even")),
        Query(q="letter", status="withdrawn"),
        Query(q="letter", vendor=("bramble",), tag=("even",), status="active"),
    ]
    at_each = [[row["id"] for row in search.search(query).rows] for query in asked]
    monkeypatch.setattr("catalog.search.vocabulary.FEW", 0)
    assert [[row["id"] for row in search.search(query).rows] for query in asked] == at_each
    assert [len(rows) for rows in at_each] == [5, 6, 2, 2]


def test_batches_end_in_the_same_index_as_one(monkeypatch):
    monkeypatch.setattr(index, "BATCH", 3)
    endpoint = make_endpoint()
    for number in range(10):
        make_tool(make_signature(f"tool_{number}"), endpoint=endpoint)
    assert search.index_pending() == 10
    assert SearchDocument.objects.count() == 10
    check_counts()


def test_a_tool_with_odd_text_is_indexed():
    text = "tab\there \\N \\x41 'quote' \"two\" {curly} 药房 🙂 " + "x" * 5000
    make_tool(make_signature("odd\ttool \\N", description=text, tags=("#a\\b", 'c"d', "é" * 300)))
    assert search.index_pending() == 1
    assert found("药房") == ["odd\ttool \\N"]
    assert found("tool", tag=("é" * 300,)) == ["odd\ttool \\N"]
    check_counts()


@pytest.mark.parametrize(
    ("given", "worn"),
    [
        ([], []),
        ([Segment(1, 10, 6), Segment(2, 10, 4)], [2]),
        ([Segment(n, 1, 1) for n in range(7)], []),
        ([Segment(n, 1, 1) for n in range(8)], list(range(8))),
        ([Segment(n, 1, 1) for n in range(4)] + [Segment(n, 20, 20) for n in range(4, 8)], []),
        ([Segment(n, 5_000, 5_000) for n in range(20)], []),
        ([Segment(n, 4_000, 4_000) for n in range(20)], []),
        ([Segment(n, 500, 500) for n in range(8)], list(range(8))),
        # At most 5,000 tools are rewritten at once.
        ([Segment(n, 1_000, 1_000) for n in range(8)], [0, 1, 2, 3, 4]),
        ([Segment(1, 5_000, 2_400), Segment(2, 5_000, 2_400), Segment(3, 5_000, 2_400)], [1, 2]),
        ([Segment(1, 20_000, 8_000), Segment(2, 10, 10)], [1]),
    ],
)
def test_segments_are_merged_when_half_gone_or_many_of_one_size(given, worn):
    assert choose_worn(given) == worn


@pytest.mark.django_db(transaction=True)
def test_two_workers_index_the_same_tools_once():
    endpoint = make_endpoint()
    for number in range(40):
        make_tool(make_signature(f"tool_{number}"), endpoint=endpoint)

    def work() -> None:
        try:
            search.index_pending(endpoint.pk)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert SearchDocument.objects.count() == 40
    assert search.index_pending() == 0
    check_counts()
    assert connection.in_atomic_block is False
