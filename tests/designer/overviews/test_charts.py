"""Charts on the pages of releases and tools: the picture, and the table with the same numbers."""

import re

import pytest
from django.utils import timezone

from catalog.models import Call, ToolVersion
from designer.agents import agent_budgets, agent_keys, agents
from designer.models import Release
from designer.overviews import charts
from designer.pins import pins, tunings
from designer.releases import publishing
from designer.releases.receipts import record_read
from people.models import ApiKey, Role
from tests.factories import make_pin, make_tool, make_user, make_version
from tests.pages import signed_in

pytestmark = pytest.mark.django_db
SVG = re.compile(r'<svg class="muted".*?</svg>', re.DOTALL)


@pytest.fixture
def ada():
    return make_user(Role.DESIGNER, username="ada")


@pytest.fixture
def tool():
    return make_tool()


@pytest.fixture
def desk(ada, tool):
    agent = agents.create_agent(actor=ada, name="Desk")
    pins.pin_tool(agent, actor=ada, tool=tool, alias="sky")
    publishing.publish(agent, actor=ada)
    tunings.tune(agent.pins.get(), actor=ada, description="Look at the sky. " * 20)
    publishing.publish(agent, actor=ada, channel="live")
    return agent


def charts_of(address, name):
    page = signed_in(Role.VIEWER).get(address)
    assert page.status_code == 200
    return SVG.findall(page.content.decode()), page.context[name]


def make_call(tool, desk, outcome="ok", release=2):
    return Call.objects.create(
        tool=tool,
        version=tool.current,
        agent=desk.pk,
        release=release,
        outcome=outcome,
        status="finished",
        gives_up_at=timezone.now(),
    )


def test_tokens_of_each_release_are_drawn_against_the_limit(ada, desk):
    first, second = Release.objects.order_by("number").values_list("tokens", flat=True)
    agent_budgets.set_limit(desk, actor=ada, limit=first + 1)

    (picture, *_), (tokens, _) = charts_of("/agents/desk/releases/", "charts")

    assert second > first > 0
    assert [row[0] for row in tokens.rows] == ["2", "1"]
    assert [row[1].replace(",", "") for row in tokens.rows] == [str(second), str(first)]
    assert [mark.tone for mark in tokens.marks] == ["", "warn"]
    assert picture.count("<rect") == 2
    assert picture.count("<path") == 1  # the limit


def test_a_release_without_recorded_tokens_is_a_gap(ada, desk, monkeypatch):
    monkeypatch.setattr(publishing.token_budget, "tokens_of_agent", lambda node: None)
    tunings.tune(desk.pins.get(), actor=ada, description="Look up.")
    publishing.publish(desk, actor=ada)

    chart = charts.tokens_by_release(desk, None)

    assert [row[1] == "—" for row in chart.rows] == [True, False, False]
    assert len(chart.marks) == 2


def test_runtimes_are_counted_by_the_release_that_they_read(ada, desk):
    for number, name in ((1, "old"), (2, "new"), (2, "newer")):
        key, _ = agent_keys.issue(ada, actor=ada, name=name, scopes=["runtime"], agents=[desk])
        record_read(key, desk.releases.get(number=number), surface="mcp", name=str(number))
    assert ApiKey.objects.count() == 3

    _, (_, runtimes) = charts_of("/agents/desk/releases/", "charts")

    assert runtimes.rows == [("2 (live)", "2", "new, newer"), ("1", "1", "old")]
    assert [mark.tone for mark in runtimes.marks] == ["warn", ""]


def test_versions_are_on_a_line_with_the_pins_that_the_viewer_sees(tool):
    old = tool.current
    make_version(tool)
    make_pin(tool=tool, version=old)
    make_pin(tool=tool, version=old)

    (picture,), chart = charts_of(f"/tools/{tool.pk}/versions/", "chart")

    assert [row[2] for row in chart.rows] == ["0", "2"]
    assert chart.marks[0].height > chart.marks[1].height
    assert picture.count("<rect") == ToolVersion.objects.filter(tool=tool).count() == 2


def test_calls_and_refusals_of_a_release_are_counted_by_tool(desk, tool):
    for outcome in ("ok", "ok", "refused", "tool_error"):
        make_call(tool, desk, outcome)
    make_call(tool, desk, release=1)

    (picture,), chart = charts_of("/agents/desk/releases/2/", "calls")

    assert [row[1:] for row in chart.rows] == [("4", "1", "1")]
    assert [mark.tone for mark in chart.marks] == ["", "bad"]
    assert picture.count("<rect") == 2


def test_each_chart_is_one_query(ada, desk, tool, django_assert_num_queries):
    make_version(tool)
    make_call(tool, desk)
    versions = [(version, "Version", "v") for version in tool.versions.all()]
    for version, *_ in versions:
        version.review_state = ""
    release = desk.releases.first()
    document = publishing.release_document.decode(release.document)

    for draw in (
        lambda: charts.tokens_by_release(desk, None),
        lambda: charts.calls_of_release(release, document),
        lambda: charts.versions_with_pins(tool, versions, ada),
    ):
        with django_assert_num_queries(1):
            draw()
