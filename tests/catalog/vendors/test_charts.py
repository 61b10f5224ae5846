"""Charts on the pages of vendors and endpoints: the picture, and the table with the same numbers."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from catalog.vendors import charts, report_card
from people.models import Role
from tests.catalog.vendors.test_report_card import make_finding, make_run
from tests.factories import make_endpoint, make_tool, make_vendor
from tests.pages import signed_in

pytestmark = pytest.mark.django_db
SVG = re.compile(r'<svg class="muted".*?</svg>', re.DOTALL)


@pytest.fixture
def endpoint():
    vendor = make_vendor(slug="fairweather", created_at=timezone.now() - timedelta(days=200))
    return make_endpoint(vendor=vendor)


def pictures_of(address):
    page = signed_in(Role.VIEWER).get(address)
    assert page.status_code == 200
    return SVG.findall(page.content.decode()), page


def test_an_endpoint_shows_its_last_syncs_as_ticks_and_in_a_table(endpoint):
    for number in range(65):
        make_run(endpoint, "failed" if number in (3, 60) else "succeeded", ago=timedelta(hours=65 - number))
    make_run(endpoint, "failed", ago=timedelta(0), error_code="EMPTY_HELD")
    make_run(endpoint, "failed", trigger="runtime")

    (ticks, line), page = pictures_of(f"/endpoints/{endpoint.pk}/")

    strip = page.context["charts"][0]
    assert [row[1] for row in strip.rows].count("Succeeded") == 58
    assert strip.summary.startswith("58 of 60 syncs succeeded")
    assert [mark.tone for mark in strip.marks] == ["", "bad", "", "warn"]
    assert ticks.count("<path") == 3
    assert 'role="img"' in ticks
    assert "58 of 60" in ticks
    assert line.count("<path") == 2  # one before the failure and one after it
    assert page.content.decode().count("<td>") > 60


def test_time_has_gaps_where_a_sync_failed(endpoint):
    for status, seconds in (("succeeded", 2), ("failed", 9), ("succeeded", 1)):
        make_run(endpoint, status, seconds=seconds)

    latency = charts.syncs_of_endpoint(endpoint)[1]

    assert [row[1] for row in latency.rows] == ["1.0 s", "—", "2.0 s"]
    assert len(latency.lines) == 2


def test_one_sync_is_no_picture(endpoint):
    make_run(endpoint)

    assert pictures_of(f"/endpoints/{endpoint.pk}/")[0] == []


def test_the_list_has_ticks_of_each_endpoint(endpoint):
    make_run(endpoint)
    make_run(endpoint, "failed")
    other = make_endpoint(vendor=endpoint.vendor)

    (picture,), page = pictures_of("/vendors/")

    assert "1 of 2 syncs succeeded" in picture
    assert [row.sync_strip is None for row in page.context["page"].rows[0].live_endpoints] == [False, True]
    assert charts.sync_strips([other]) == {}


def test_changes_are_counted_by_week(endpoint):
    make_run(endpoint, added=5, ago=timedelta(days=80))
    make_run(endpoint, changed=2, withdrawn=1, ago=timedelta(days=8))
    make_run(endpoint, changed=3, ago=timedelta(hours=1))
    make_run(endpoint, changed=90, ago=timedelta(days=100))
    make_run(make_endpoint(), changed=90)

    chart = charts.changes_per_week(endpoint.vendor)

    assert len(chart.rows) == charts.WEEKS
    assert [row[1:] for row in chart.rows[-2:]] == [("2", "1", "0"), ("3", "0", "0")]
    assert chart.rows[0][1:] == ("0", "0", "5")
    assert len(chart.marks) == 3


def test_a_week_that_is_not_read_completely_is_not_shown(endpoint, monkeypatch):
    monkeypatch.setattr(charts, "RUNS_READ", 3)
    for days in (30, 22, 9, 1):
        make_run(endpoint, changed=1, ago=timedelta(days=days))

    chart = charts.changes_per_week(endpoint.vendor)

    assert [row[1] for row in chart.rows] == ["0", "1", "1"]


def test_promises_are_counted_once_in_a_week(endpoint):
    tool = make_tool(endpoint=endpoint)
    make_run(endpoint)
    for code, days in (("DRIFT", 1), ("DRIFT", 2), ("BREAKING", 1), ("DRIFT", 90)):
        finding = make_finding(tool, code, f"{days} days ago")
        finding.raised_at = timezone.now() - timedelta(days=days)
        finding.save()

    pictures, page = pictures_of("/vendors/fairweather/")

    breaches = page.context["charts"][1]
    assert [row[1:] for row in breaches.rows[-2:]] == [("0", "5"), ("2", "5")]
    assert len(breaches.marks) == 1
    assert len(pictures) == 1  # no tool changed, so that the other one is a sentence


def test_a_new_vendor_has_no_weeks_to_compare():
    vendor = make_endpoint().vendor
    card = report_card.report_card_for(vendor)

    assert not charts.changes_per_week(vendor).is_drawn
    assert not charts.breaches_per_week(vendor, card.promises).is_drawn


def test_each_chart_is_one_query(endpoint, django_assert_num_queries):
    for _ in range(5):
        make_run(make_endpoint(vendor=endpoint.vendor), changed=1)
    promises = report_card.report_card_for(endpoint.vendor).promises

    endpoints = list(endpoint.vendor.endpoints.all())

    for draw in (
        lambda: charts.sync_strips(endpoints),
        lambda: charts.syncs_of_endpoint(endpoint),
        lambda: charts.changes_per_week(endpoint.vendor),
        lambda: charts.breaches_per_week(endpoint.vendor, promises),
    ):
        with django_assert_num_queries(1):
            draw()
