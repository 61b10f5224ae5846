"""The review as an inbox: a list beside one detail, whatever waits."""

import re

import pytest

from catalog.models import Finding
from catalog.models.findings import HELD
from catalog.review import inbox
from catalog.review.inbox import Group, InboxFilter
from catalog.rules import causes, promises
from catalog.second_look.cloaking import CODE as CLOAKING
from execution.calls.refused_calls import CODE as REFUSES_VALID
from people.models import AuditEntry, Role
from tests.catalog.rules.inspection.test_docs import CODES
from tests.factories import make_endpoint, make_signature, make_tool, make_vendor, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
MAX_BYTES = 60_000


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def endpoint():
    return make_endpoint(vendor=make_vendor(name="Fair Weather", slug="weather"))


def make_finding(name="forecast", code="DRIFT", severity="high", *, endpoint=None, **fields) -> Finding:
    """About the second version of a tool of its own."""
    tool = make_tool(name=name, endpoint=endpoint or make_endpoint())
    version = make_version(tool, make_signature(name, description="Sends a copy elsewhere"))
    return about(version, code, severity, **fields)


def about(version, code="HELD", severity="high", **fields) -> Finding:
    facts = {"subject": version.digest, "message": f"{code} of {version.tool}", "state": "open"}
    return Finding.objects.create(
        endpoint=version.tool.endpoint,
        tool=version.tool,
        version=version,
        code=code,
        severity=severity,
        **facts | fields,
    )


def many(count: int, endpoint, code="TOOL_ORDER", severity="medium") -> list[Finding]:
    return [make_finding(f"tool_{n:03}", code, severity, endpoint=endpoint) for n in range(count)]


def list_items(response) -> list[str]:
    """Names of the tools in the list, in its order."""
    page = response.content.decode()
    return re.findall(r'data-item="\d+"[^>]*><span class="clip mono strong">([^<]+)</span>', page)


def shown_item(response) -> int:
    """Return the id of the finding that is open beside the list."""
    return int(re.search(r'data-shows="(\d+)"', response.content.decode())[1])


def test_one_detail_stands_beside_the_list(admin):
    first, second = make_finding("first"), make_finding("second")

    response = admin.get("/review/")

    assert sorted(list_items(response)) == ["first", "second"]
    assert response.content.decode().count("<article") == 1
    assert shown_item(admin.get(f"/review/?item={first.pk}")) == first.pk
    assert shown_item(admin.get(f"/review/?item={second.pk}")) == second.pk


def test_the_heaviest_stand_first_and_one_vendor_and_cause_together(admin, endpoint):
    other = make_endpoint(vendor=make_vendor(name="Acme"))
    make_finding("mild", "ROLE", "medium", endpoint=endpoint)
    make_finding("hides", "ZERO_WIDTH", endpoint=endpoint)
    make_finding("orders", "OVERRIDE", endpoint=other)
    make_finding("hides_too", "BIDI_CONTROL", endpoint=endpoint)
    make_finding("low", "STEERING", "low", endpoint=other)

    response = admin.get("/review/")

    assert list_items(response) == ["orders", "hides_too", "hides", "mild", "low"]
    page_text = text_of(response)
    assert "High Acme · Instructions to a model" in page_text
    assert "High Fair Weather · Hidden text 2" in page_text
    assert "Medium Fair Weather · Instructions to a model" in page_text


def test_a_decision_stands_once_under_its_heaviest_reason(admin, endpoint):
    held_finding = make_finding("forecast", HELD, "high", endpoint=endpoint)
    about(held_finding.version, "ROLE", "medium")
    reason = about(held_finding.version, "ZERO_WIDTH", "high")
    about(held_finding.version, "STEERING", "low")

    response = admin.get("/review/")

    assert (list_items(response), shown_item(response)) == (["forecast"], reason.pk)
    assert "High Fair Weather · Hidden text 1" in text_of(response)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("severity=medium", ["mild"]),
        ("vendor=weather", ["hides"]),
        ("cause=orders", ["mild"]),
        ("cause=other", ["odd"]),
        ("vendor=weather&cause=orders", []),
        ("vendor=nobody", []),
        ("severity=nonsense&cause=nonsense", ["odd", "hides", "mild"]),
    ],
)
def test_the_list_is_narrowed(admin, endpoint, query, names):
    acme = make_endpoint(vendor=make_vendor(name="Acme"))
    make_finding("mild", "ROLE", "medium", endpoint=acme)
    make_finding("hides", "ZERO_WIDTH", endpoint=endpoint)
    make_finding("odd", "UNHEARD_OF", endpoint=acme)

    assert list_items(admin.get(f"/review/?{query}")) == names


def test_filters_say_how_much_each_would_show(admin, endpoint):
    make_finding("hides", "ZERO_WIDTH", endpoint=endpoint)
    make_finding("orders", "OVERRIDE", endpoint=endpoint)
    make_finding("mild", "ROLE", "medium", endpoint=make_endpoint(vendor=make_vendor(name="Acme")))

    page_text = text_of(admin.get("/review/?severity=high"))

    assert "High (2) Medium (1)" in page_text
    assert "Fair Weather (2)" in page_text
    assert "Acme (" not in page_text
    assert "Hidden text (1) Instructions to a model (1)" in page_text


def test_a_long_list_has_pages(admin, endpoint, monkeypatch):
    monkeypatch.setattr("catalog.views.review_list.PAGE_SIZE", 2)
    rows = many(5, endpoint)

    first, last = admin.get("/review/"), admin.get("/review/?page=3")

    assert (list_items(first), list_items(last)) == (["tool_004", "tool_003"], ["tool_000"])
    assert "1 to 2 of 5" in text_of(first)
    assert "5 to 5 of 5" in text_of(last)
    assert 'href="?page=2" rel="next"' in first.content.decode()
    assert list_items(admin.get("/review/?page=99")) == ["tool_000"]
    # The keys lead on over the end of a page.
    assert f'href="?item={rows[3].pk}" data-key="j"' in first.content.decode()
    end = admin.get(f"/review/?item={rows[3].pk}").content.decode()
    assert 'href="?page=2" data-key="j"' in end
    assert shown_item(admin.get("/review/?page=2&item=last")) == rows[1].pk


def test_a_link_to_an_item_opens_the_page_that_it_stands_on(admin, endpoint, monkeypatch):
    monkeypatch.setattr("catalog.views.review_list.PAGE_SIZE", 2)
    rows = many(5, endpoint)

    response = admin.get(f"/review/?item={rows[0].pk}")

    assert (shown_item(response), list_items(response)) == (rows[0].pk, ["tool_000"])
    assert "5 of 5" in text_of(response)


def test_what_is_decided_makes_room_for_the_next(admin, endpoint):
    rows = many(3, endpoint)
    page = admin.get("/review/").content.decode()
    assert f'name="next" value="{rows[1].pk}"' in page

    response = admin.post("/review/", {"accept": rows[2].pk, "next": rows[1].pk}, follow=True)

    assert shown_item(response) == rows[1].pk
    assert "One finding was accepted." in text_of(response)


def test_a_row_alone_is_what_htmx_gets(admin, endpoint):
    row = many(2, endpoint)[0]

    answer = admin.get(f"/review/?item={row.pk}", headers={"HX-Request": "true", "HX-Target": "detail"})

    page = answer.content.decode()
    assert page.lstrip().startswith("<article")
    assert "inbox-list" not in page


def test_everything_that_a_filter_shows_is_decided_at_once(admin, endpoint):
    many(4, endpoint)
    make_finding("other", "ROLE", "medium")
    where = "/review/?vendor=weather&cause=orders"
    newest = re.search(r'name="newest" value="(\d+)"', admin.get(where).content.decode())[1]
    late = make_finding("late", "ROLE", "medium", endpoint=endpoint)

    response = admin.post(where, {"everything": "accept", "newest": newest}, follow=True)

    assert "4 findings were accepted." in text_of(response)
    assert set(Finding.objects.filter(state="open").values_list("tool__name", flat=True)) == {"other", "late"}
    assert list_items(admin.get("/review/")) == ["late", "other"]
    assert late.state == "open"
    assert AuditEntry.objects.filter(kind="finding", action="accept").count() == 4


def test_everything_needs_a_filter(admin, endpoint):
    rows = many(2, endpoint)

    for where in ("/review/", "/review/?severity=medium"):
        assert "Decide about all" not in text_of(admin.get(where))
        admin.post(where, {"everything": "block", "newest": rows[-1].pk})

    assert not Finding.objects.exclude(state="open").exists()


def test_everything_of_high_severity_may_be_blocked_and_not_accepted(admin, endpoint):
    rows = [make_finding(f"tool_{n}", endpoint=endpoint) for n in range(2)]
    where, newest = "/review/?vendor=weather", rows[-1].pk

    refused = admin.post(where, {"everything": "accept", "newest": newest}, follow=True)
    assert "2 findings of high severity were left" in text_of(refused)

    admin.post(where, {"everything": "block", "newest": newest})
    assert set(Finding.objects.values_list("state", flat=True)) == {"blocked"}


def test_one_press_takes_so_many_and_says_so(admin, endpoint, monkeypatch):
    monkeypatch.setattr(inbox, "AT_ONCE", 2)
    rows = many(3, endpoint)

    response = admin.post(
        "/review/?cause=orders", {"everything": "accept", "newest": rows[-1].pk}, follow=True
    )

    assert "2 findings were accepted." in text_of(response)
    assert "Press again for the next 2." in text_of(response)
    assert Finding.objects.filter(state="open").count() == 1


def test_a_viewer_reads_the_list_without_boxes_or_bars(endpoint):
    many(2, endpoint)

    page = signed_in(Role.VIEWER).get("/review/?vendor=weather").content.decode()

    assert "data-item" in page
    assert "Decide about all" not in page
    assert 'type="checkbox"' not in page
    assert 'data-key="a"' not in page


def test_decided_findings_are_listed_newest_first_with_their_severity(admin, endpoint):
    make_finding("old", "ROLE", "medium", state="blocked", endpoint=endpoint)
    make_finding("new", "STEERING", "low", state="blocked")

    response = admin.get("/review/?state=blocked")

    assert list_items(response) == ["new", "old"]
    assert list_items(admin.get("/review/?state=blocked&vendor=weather")) == ["old"]


def test_the_page_is_small_and_costs_the_same_however_much_waits(
    admin, endpoint, django_assert_max_num_queries
):
    rows = many(60, endpoint, severity="medium")
    about(rows[0].version)
    with django_assert_max_num_queries(13):
        response = admin.get("/review/")

    assert len(list_items(response)) == inbox.PAGE_SIZE
    assert len(response.content) < MAX_BYTES


def test_every_code_belongs_to_a_cause():
    codes = {*CODES, *promises.CODES, CLOAKING, REFUSES_VALID, HELD, "CHANGED", "BREAKING"}

    assert {code for code in codes if causes.cause_of(code) == causes.OTHER} == set()
    assert codes >= causes.KNOWN_CODES
    assert sum(len(codes) for codes in causes.CAUSES.values()) == len(causes.KNOWN_CODES)


def test_a_question_leaves_one_part_out():
    group = Group("high", "weather", "orders")

    assert InboxFilter(severity="high", vendor="weather").includes(group)
    assert not InboxFilter(severity="low", vendor="weather").includes(group)
    assert InboxFilter(severity="low", vendor="weather").includes(group, but="severity")


def test_rest_sorts_and_narrows_as_the_page_does(admin, endpoint):
    make_finding("mild", "ROLE", "medium", endpoint=endpoint)
    make_finding("hides", "ZERO_WIDTH", endpoint=endpoint)
    make_finding("orders", "OVERRIDE")
    make_finding("low", "STEERING", "low")

    def names(**query):
        return [row["tool_name"] for row in admin.get("/api/v1/findings/", query).json()["results"]]

    assert names() == ["orders", "hides", "mild", "low"]
    assert names(sort="newest") == ["low", "orders", "hides", "mild"]
    assert names(vendor="weather") == ["hides", "mild"]
    assert names(cause="orders") == ["orders", "mild", "low"]
    assert names(cause="orders", vendor="weather", severity="medium") == ["mild"]
    assert admin.get("/api/v1/findings/?cause=nonsense").json()["fields"].keys() == {"cause"}
    row = admin.get("/api/v1/findings/").json()["results"][0]
    assert (row["cause"], row["severity"]) == ("orders", "high")


def test_pages_of_rest_go_on_by_weight(admin, endpoint):
    for number, severity in enumerate(["medium", "high", "low", "high", "medium"]):
        make_finding(f"{severity}_{number}", "ROLE", severity, endpoint=endpoint)
    names, url = [], "/api/v1/findings/?limit=2"
    while url:
        answer = admin.get(url).json()
        names += [row["tool_name"] for row in answer["results"]]
        url = answer["next"]

    assert names == ["high_3", "high_1", "medium_4", "medium_0", "low_2"]


def test_home_sorts_by_weight_and_shows_the_same_severity(admin, endpoint):
    heavy = make_finding("heavy", HELD, "high", endpoint=endpoint)
    about(heavy.version, "ROLE", "medium")
    make_finding("light", "ROLE", "medium", endpoint=endpoint)

    page_text = text_of(admin.get("/"))

    assert page_text.index("heavy") < page_text.index("light")
    assert "HELD of heavy High" in page_text
