from datetime import timedelta

import pytest
from django.utils import timezone

from catalog.models import RecordedSearch, SearchChoice
from catalog.search import recorded_searches
from catalog.search.engines import tantivy_index
from catalog.search.recorded_searches import normalize_words
from tests.factories import make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  Refund  a PARCEL ", "refund a parcel"),
        ("mail jo@example.com the bill", "mail the bill"),
        ("call +49 170 1234567 now", "call now"),
        ("open https://x.example/?k=1 please", "open please"),
        ("top 10 of 2026", "top 10 of 2026"),
        ("a\0b", "a b"),
        ("x" * 900, "x" * 200),
        ("  ", ""),
    ],
)
def test_words_are_recorded_without_what_may_name_a_person(text, words):
    assert normalize_words(text) == words


def test_the_page_records_a_search_and_the_tool_that_was_opened(client):
    tool = make_tool(make_signature("create_refund"))
    client.force_login(make_user("viewer"))
    for unmet in ("1", "0"):
        assert client.post("/tools/searched/", {"q": "Refund", "unmet": unmet}).status_code == 204
    client.post("/tools/searched/", {"q": "Refund", "tool": tool.pk})
    client.post("/tools/searched/", {"q": "Refund", "tool": "9" * 30})
    row = RecordedSearch.objects.get()
    assert (row.words, row.asked, row.unmet, row.day) == ("refund", 2, 1, timezone.now().date())
    choice = SearchChoice.objects.get()
    assert (choice.tool, choice.opened, choice.pinned) == (tool, 1, 0)


def test_the_page_of_a_tool_knows_the_question_before_it(client):
    tool = make_tool(make_signature("create_refund"))
    client.force_login(make_user("viewer"))
    address = f"/tools/{tool.pk}/"
    page = client.get(address, headers={"referer": "http://testserver/tools/?q=refund"})
    assert page.context["question_before"] == "refund"
    for other in ("http://evil.example/tools/?q=refund", "http://testserver/vendors/?q=refund", "::"):
        assert client.get(address, headers={"referer": other}).context["question_before"] == ""


def test_nothing_is_recorded_where_nothing_is_kept(settings):
    settings.KEEP_SEARCHES_DAYS = 0
    recorded_searches.record_search("refund", is_unmet=True)
    assert not RecordedSearch.objects.exists()


def test_old_records_are_deleted(settings):
    settings.KEEP_SEARCHES_DAYS = 30
    today = timezone.now().date()
    for age in (29, 31):
        RecordedSearch.objects.create(day=today - timedelta(days=age), words="refund", asked=1)
    recorded_searches.delete_old()
    assert RecordedSearch.objects.get().day == today - timedelta(days=29)


def test_administrators_see_unmet_needs_and_who_answered_them(client, monkeypatch):
    recorded_searches.record_search("knit a jumper", is_unmet=True)
    recorded_searches.record_search("list rainbows", is_unmet=True)
    recorded_searches.record_search("fine", is_unmet=False)
    tool = make_tool(make_signature("list_rainbows", description="Lists rainbows."))
    with monkeypatch.context() as full_disk:
        full_disk.setattr(tantivy_index, "HEAP_BYTES", 1)  # the library refuses it, as it refuses a full disk
        assert recorded_searches.find_answers() == 0
    assert recorded_searches.find_answers() == 1
    client.force_login(make_user("admin"))
    answer = client.get("/api/v1/searches/unmet/").json()["results"]
    needs_by_words = {row["words"]: (row["searches"], row["vendor"]) for row in answer}
    vendor = tool.endpoint.vendor
    assert needs_by_words == {"knit a jumper": (1, None), "list rainbows": (1, vendor.slug)}
    assert [row["words"] for row in client.get("/unmet-needs/").context["rows"]] == list(needs_by_words)
    client.force_login(make_user("designer"))
    assert client.get("/unmet-needs/").status_code == 403
