from datetime import timedelta

import pytest
from django.utils import timezone

import protocols
from catalog.models import Finding, Run
from catalog.vendors import report_card
from tests.factories import make_endpoint, make_tool, make_user, make_vendor
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def make_run(endpoint, status="succeeded", *, ago=timedelta(hours=1), seconds=1.0, **fields):
    finished = timezone.now() - ago
    return Run.objects.create(
        endpoint=endpoint,
        status=status,
        started_at=finished - timedelta(seconds=seconds),
        finished_at=finished,
        **{"pages": 1} | fields,
    )


def make_finding(tool, code, subject="x"):
    return Finding.objects.create(
        endpoint=tool.endpoint, tool=tool, code=code, severity="high", subject=subject, message="It did."
    )


@pytest.fixture
def endpoint():
    return make_endpoint(vendor=make_vendor(slug="fairweather"))


def test_a_vendor_without_runs_has_an_empty_card(endpoint):
    card = report_card.report_card_for(endpoint.vendor)
    assert (card.runs, card.availability, card.page_ms, card.since) == (0, None, None, None)
    assert (len(card.promises), card.passed, {promise.state for promise in card.promises}) == (
        5,
        0,
        {"not_tested"},
    )
    assert report_card.report_card_for(make_vendor()).promises == ()


def test_runs_of_the_last_month_are_counted(endpoint):
    make_run(endpoint, added=5, changed=2)
    make_run(endpoint, changed=1, withdrawn=1)
    make_run(endpoint, "failed", pages=0)
    make_run(endpoint, "failed", pages=0, ago=timedelta(days=31))
    Run.objects.create(endpoint=endpoint, status="running", started_at=timezone.now())
    card = report_card.report_card_for(endpoint.vendor)
    assert (card.runs, card.succeeded, card.availability) == (3, 2, 66.6)
    assert (card.added, card.changed, card.withdrawn) == (5, 3, 1)


def test_time_is_told_for_one_page_of_what_succeeded(endpoint):
    for seconds in (1, 2, 3):
        make_run(endpoint, seconds=seconds * 10, pages=10)
    make_run(endpoint, "failed", seconds=500)
    card = report_card.report_card_for(endpoint.vendor)
    assert card.page_ms == report_card.PageTime(median=2000, p95=2900)


def test_one_failure_in_a_thousand_is_not_rounded_away(endpoint):
    card = report_card.ReportCard((), None, 100_000, 99_999, None, 0, 0, 0, 0, ())
    assert card.availability == 99.9


def test_breaches_are_counted_by_promise(endpoint):
    tool, other = make_tool(endpoint=endpoint), make_tool(endpoint=endpoint)
    make_finding(tool, "DRIFT", "one")
    last = make_finding(tool, "DRIFT", "two")
    make_finding(other, "NEW_TOOL_ID")
    make_finding(other, "NEW_PARAMETER_ID")
    make_finding(other, "HELD")
    make_finding(make_tool(), "DRIFT")
    card = report_card.report_card_for(endpoint.vendor)
    broken = {promise.promise: promise.breaches for promise in card.promises if promise.breaches}
    assert broken == {"locked_versions": 2, "stable_ids": 2}
    assert [promise.promise for promise in card.promises if promise.state == "failed"] == [*broken]
    assert card.promises[0].last_at == last.raised_at


def test_what_was_odd_comes_from_the_last_good_run_of_each_endpoint(endpoint):
    make_run(endpoint, rejected=9, notes=[{"code": "OLD", "message": "It was.", "count": 1}])
    make_run(endpoint, rejected=1, notes=[{"code": "NOT_A_UUID", "message": "It is none.", "count": 2}])
    make_run(endpoint, "failed", rejected=7)
    second_endpoint = make_endpoint(vendor=endpoint.vendor)
    make_run(second_endpoint, rejected=2, notes=[{"code": "NOT_A_UUID", "message": "Nor this.", "count": 3}])
    card = report_card.report_card_for(endpoint.vendor)
    assert card.rejected == 3
    assert [(oddity.code, oddity.count) for oddity in card.oddities] == [("NOT_A_UUID", 5)]


def test_removed_endpoints_no_longer_count(endpoint):
    make_run(endpoint, rejected=1)
    make_finding(make_tool(endpoint=endpoint), "DRIFT")
    endpoint.removed_at = timezone.now()
    endpoint.save()
    card = report_card.report_card_for(endpoint.vendor)
    assert (card.runs, card.rejected, card.promises) == (0, 0, ())


def test_the_card_costs_the_same_however_much_there_is(endpoint, django_assert_num_queries):
    for number in range(20):
        make_run(endpoint)
        make_finding(make_tool(endpoint=endpoint), "DRIFT", str(number))
    with django_assert_num_queries(4):
        report_card.report_card_for(endpoint.vendor)


def test_the_api_gives_the_card_with_the_vendor(designer_api, endpoint):
    make_run(endpoint, seconds=0.25, changed=3)
    make_finding(make_tool(endpoint=endpoint), "BREAKING")
    card = designer_api.get("/api/v1/vendors/fairweather/").json()["report_card"]
    assert (card["runs"], card["availability"], card["changed"]) == (1, 100.0, 3)
    assert card["page_ms"] == {"median": 250, "p95": 250}
    broken = [promise for promise in card["promises"] if promise["breaches"]]
    assert [(promise["promise"], promise["says"]) for promise in broken] == [
        ("additive_changes", "A new version only adds")
    ]
    assert "report_card" not in designer_api.get("/api/v1/vendors/").json()["results"][0]


def test_the_page_says_it_in_words(client, endpoint):

    client.force_login(make_user("viewer"))
    make_run(
        endpoint, seconds=1.5, rejected=4, notes=[{"code": "ODD", "message": "“a<b” is odd.", "count": 7}]
    )
    make_finding(make_tool(endpoint=endpoint), "DRIFT")
    page_text = text_of(client.get("/vendors/fairweather/"))
    assert "1 sync since" in page_text
    for words in ("100 %", "1.5 s", "Failed once", "1 of 5 checks passed", "“a<b” is odd."):
        assert words in page_text, words


def test_the_page_says_when_nothing_is_promised(client, endpoint):

    silent = next(protocol.name for protocol in protocols.PROTOCOLS if not protocol.promises)
    client.force_login(make_user("viewer"))
    make_endpoint(vendor=make_vendor(slug="tiderow"), protocol=silent)
    assert "has no rules about versions" in text_of(client.get("/vendors/tiderow/"))
