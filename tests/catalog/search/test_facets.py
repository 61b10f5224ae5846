"""Facets of the list of tools: counts, several values of each, one spelling for each tag."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from catalog import search
from catalog.models import Tool
from catalog.search import Query
from catalog.search.facets import MAX_VALUES
from catalog.search.tags import distinct, tag_key
from core.errors import DomainError
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_signature, make_tool, make_vendor

pytestmark = pytest.mark.django_db
READS, DESTROYS = Annotations(read_only=True), Annotations(read_only=False, destructive=True)


@pytest.fixture
def letters():
    """Four letters of two vendors: two read, one destroys, one is withdrawn and states nothing."""
    air = make_endpoint(vendor=make_vendor(slug="air", name="Air"))
    sea = make_endpoint(vendor=make_vendor(slug="sea", name="Sea"))
    return {
        name: make_tool(
            make_signature(name, description="Sends a letter.", tags=tags, annotations=annotations),
            endpoint=endpoint,
            status=status,
        )
        for name, endpoint, tags, annotations, status in (
            ("read_one", air, ("E-Mail",), READS, "active"),
            ("read_two", sea, ("email", "e_mail"), READS, "active"),
            ("shred", sea, ("paper",), DESTROYS, "active"),
            ("gone", sea, ("email",), Annotations(), "withdrawn"),
        )
    }


def counts(query, facet):
    page = search.search(query)
    return {each.value: each.count for each in search.count_facets(query, page.matches)[facet]}


def names(query):
    return [row["name"] for row in search.search(query).rows]


@pytest.mark.parametrize("text", ["", "letter"])
def test_a_facet_counts_what_another_of_its_values_would_add(letters, text):
    search.index_pending()
    query = Query(q=text, vendor=("sea",), effect=("reads",), status=("active",))

    assert names(query) == ["read_two"]
    assert counts(query, "vendor") == {"air": 1, "sea": 1}
    assert counts(query, "effect") == {"reads": 1, "destroys": 1}
    assert counts(query, "status") == {"active": 1}
    assert counts(query.without("status"), "effect") == {"reads": 1, "destroys": 1, "unknown": 1}


def test_several_values_of_a_facet_find_tools_with_any_of_them(letters):
    search.index_pending()

    assert names(Query(effect=("reads", "destroys"))) == ["read_one", "read_two", "shred"]
    assert names(Query(vendor=("air", "sea"), status=("withdrawn", "active"))) == sorted(letters)


@pytest.mark.parametrize("tag", ["email", "E-Mail", "E MAIL"])
def test_a_tag_has_one_spelling_and_is_found_by_each(letters, tag):
    search.index_pending()
    query = Query(tag=(tag,), status=("active",))

    assert names(query) == ["read_one", "read_two"]
    assert counts(query, "tag") == {tag: 2}
    assert counts(Query(), "tag") == {"email": 3, "paper": 1}


def test_tools_that_agents_use_are_counted_and_come_first(letters):
    search.index_pending()
    use = {letters["shred"].pk: 2, letters["read_two"].pk: 3}
    query = Query(use_counts=use, sort="-used", limit=1)

    assert counts(query, "used") == {"true": 2, "false": 2}
    for chosen in ("true",), ("false",), ("true", "false"):
        assert counts(replace(query, used=chosen), "used") == {"true": 2, "false": 2}
    # Counts are remembered, and another pin is another count.
    more_use = use | {letters["read_one"].pk: 1}
    assert counts(replace(query, use_counts=more_use, used=("false",)), "used") == {"true": 3, "false": 1}
    assert names(Query(use_counts=use, used=("true",))) == ["read_two", "shred"]
    assert set(names(Query(use_counts=use, used=("false",), q="letter"))) == {"read_one", "gone"}
    assert _walk(query) == ["read_two", "shred", "gone", "read_one"]


def _walk(query):
    """Go to the last page one tool at a time, then back to the first."""
    forwards, page = [], search.search(query)
    while True:
        forwards += [row["name"] for row in page.rows]
        if page.next is None:
            break
        page = search.search(replace(query, cursor=page.next))
    backwards = []
    while True:
        backwards += [row["name"] for row in page.rows]
        if page.previous is None:
            break
        page = search.search(replace(query, cursor=page.previous))
    assert backwards == forwards[::-1]
    return forwards


def test_the_total_is_exact_before_a_change_is_indexed(letters):
    search.index_pending()
    make_tool(make_signature("new"))

    assert search.search(Query()).count == 5


def test_a_catalog_without_an_index_is_counted_by_the_database(letters):
    query = Query(status=("active",))

    assert search.search(query).count == 3
    assert counts(query, "vendor") == {"sea": 2, "air": 1}
    assert names(Query(effect=("reads",))) == []


def test_a_rare_effect_and_a_frequent_one_are_listed_in_order(letters, monkeypatch):
    search.index_pending()
    monkeypatch.setattr("catalog.search.listing.FEW_TOOLS", 1)
    monkeypatch.setattr("catalog.search.listing.WALK_STEP", 1)

    assert _walk(Query(effect=("reads", "unknown"), limit=1)) == ["gone", "read_one", "read_two"]


@pytest.mark.parametrize(
    "name", ["effect", "requirement", "used", "status", "kind", "protocol", "changed_since"]
)
def test_an_unknown_value_is_refused(name):
    with pytest.raises(DomainError) as refused:
        search.search(Query(**{name: ("nonsense",)}))

    assert set(refused.value.fields) == {name}


def test_spellings_differ_in_capitals_and_separators():
    assert tag_key("E-Mail") == tag_key("e_mail") == tag_key("EMAIL")
    assert sorted(distinct(["E-Mail", "email", "post"])) == ["E-Mail", "post"]


@pytest.mark.parametrize(("text", "is_indexed"), [("", True), ("letter", True), ("", False)])
def test_tools_that_changed_lately_are_listed_and_counted(letters, text, is_indexed):
    for name, days in {"read_one": 0, "read_two": 3, "shred": 20, "gone": 90}.items():
        Tool.objects.filter(pk=letters[name].pk).update(changed_at=timezone.now() - timedelta(days=days))
    if is_indexed:
        search.index_pending()
    query = Query(q=text, changed_since=("day", "week"))
    long_ago = (timezone.now() - timedelta(days=91)).date().isoformat()

    assert sorted(names(query)) == ["read_one", "read_two"]
    assert search.search(query).count == 2
    assert counts(query, "changed_since") == {"day": 1, "week": 2, "month": 3}
    assert counts(query, "vendor") == {"air": 1, "sea": 1}
    assert counts(replace(query, changed_since=(long_ago,)), "changed_since")[long_ago] == 4
    assert _walk(Query(changed_since=("month",), limit=1)) == ["read_one", "read_two", "shred"]


def test_of_many_values_the_most_frequent_and_the_chosen_ones_are_listed():
    tags = [f"tag-{number:03}" for number in range(MAX_VALUES + 20)]
    make_tool(make_signature("all", tags=tuple(tags)))
    make_tool(make_signature("few", tags=(tags[-1], tags[5])))
    search.index_pending()

    others = [tag for tag in tags if tag not in (tags[5], tags[-1])]
    assert list(counts(Query(), "tag")) == [tags[5], tags[-1], *others[: MAX_VALUES - 2]]
    assert tags[-2] in counts(Query(tag=(tags[-2],)), "tag")
