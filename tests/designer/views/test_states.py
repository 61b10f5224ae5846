"""A state is green if a check has shown it, and never because it is normal."""

import re
from pathlib import Path

import pytest

from catalog.models.vendors import EndpointStatus
from catalog.search.progress import Progress
from catalog.templatetags.display import TONES, effect_word, status_word, tone
from catalog.vendors.report_card import is_exercised
from designer.releases import channels, publishing
from designer.views import tools
from people.models import Role
from tests.factories import make_agent, make_pin, make_tool, make_user
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
CHANGES = "/agents/desk/changes/"


@pytest.mark.parametrize(
    "state", ["ok", "active", "succeeded", "accepted", "published", "live", "not_tested"]
)
def test_what_is_normal_or_not_tested_has_no_colour(state):
    assert tone(state) == "idle"


def test_only_a_result_is_green():
    green = {state for state, colour in TONES.items() if colour == "ok"}
    assert green == {"success", "passed", "proven", "better", "compatible", "safe"}


def test_no_template_decides_by_itself_that_a_state_is_green():
    literal = re.compile(r'class="(?:status|label) is-ok|tone="ok" word=')
    assert [str(path) for path in TEMPLATES.rglob("*.html") if literal.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("progress", "word", "colour"),
    [
        (None, "Synced", "idle"),
        (Progress(8_600, 8_600, 8_600), "Synced", "idle"),
        (Progress(8_600, 3_200, 0), "Indexing 3,200 of 8,600", "info"),
        (Progress(8_600, 8_600, 3_200), "Inspecting 3,200 of 8,600", "info"),
    ],
)
def test_a_synced_endpoint_shows_the_work_that_is_left(progress, word, colour):
    assert status_word(EndpointStatus.OK, progress) == f'<span class="status is-{colour}">{word}</span>'


def test_an_unknown_effect_is_not_shown():
    assert effect_word("unknown") == ""


@pytest.mark.parametrize(
    ("promise", "lists", "changed", "expected"),
    [
        ("unique_names", 0, 0, False),
        ("unique_names", 1, 0, True),
        ("growing_versions", 9, 0, False),
        ("additive_changes", 9, 1, True),
        ("stable_ids", 1, 0, False),
        ("stable_ids", 2, 0, True),
    ],
)
def test_a_promise_that_no_list_could_break_is_not_tested(promise, lists, changed, expected):
    assert is_exercised(promise, list_count=lists, changed_tool_count=changed) is expected


@module_data
def desk():
    """Published twice, with no change since."""
    designer = make_user(Role.DESIGNER)
    agent = make_agent(slug="desk", name="Desk")
    for _ in range(2):
        make_pin(agent)
        publishing.publish(agent, actor=designer)
    return agent, designer


def promoting(page):
    return re.findall(r'href="(/agents/desk/channels/live/\?release=\d+)"', page.content.decode())


def test_after_a_roll_back_the_bar_names_what_is_live_and_offers_to_promote(desk):
    agent, designer = desk
    channels.move(agent, "live", actor=designer, release=agent.releases.get(number=1))
    page = signed_in(Role.DESIGNER).get(CHANGES)
    assert "Release 1 is live" in text_of(page)
    assert promoting(page) == ["/agents/desk/channels/live/?release=2"]
    assert "/agents/desk/publish/" not in page.content.decode()


def test_the_bar_offers_to_promote_while_nothing_is_live(desk):
    assert promoting(signed_in(Role.DESIGNER).get(CHANGES)) == ["/agents/desk/channels/live/?release=2"]
    assert promoting(signed_in(Role.VIEWER).get(CHANGES)) == []


def test_the_bar_offers_to_publish_what_no_release_has(desk):
    agent, designer = desk
    channels.move(agent, "live", actor=designer, release=agent.releases.get(number=1))
    make_pin(agent)
    page = signed_in(Role.DESIGNER).get(CHANGES)
    assert promoting(page) == []
    assert "/agents/desk/publish/" in page.content.decode()


def test_the_bar_of_the_live_release_asks_for_nothing(desk):
    agent, designer = desk
    channels.move(agent, "live", actor=designer, release=agent.releases.get(number=2))
    page = signed_in(Role.DESIGNER).get(CHANGES)
    assert promoting(page) == []
    assert "Release 2 is live" in text_of(page)


def test_the_bar_has_the_main_action_only_on_pages_without_another(desk):
    client = signed_in(Role.DESIGNER)
    for address, is_main in (
        ("/agents/desk/", True),
        ("/agents/desk/releases/", True),
        ("/agents/desk/mocks/", False),
        ("/agents/desk/rehearsals/", False),
    ):
        (bar,) = re.findall(rf'hx-get="({CHANGES}[^"]*)"', client.get(address).content.decode())
        assert ("is-primary" in client.get(bar).content.decode()) == is_main, address


def test_a_viewer_is_not_told_that_nothing_waits_when_only_others_may_decide(db):
    page = signed_in(Role.VIEWER).get("/")
    assert "#ok" not in page.content.decode().partition("<main")[2]


def test_an_empty_state_has_a_tick_only_if_everything_was_done():
    ticked = re.compile(r'_empty\.html" with icon="(?:ok|check)"')
    names = {path.name for path in TEMPLATES.rglob("*.html") if ticked.search(path.read_text())}
    assert names == {"home.html", "review.html", "tool_findings.html"}


@pytest.mark.parametrize(("inspected", "icon"), [(0, "#info"), (1, "#ok")])
def test_a_tool_has_no_issues_only_after_its_inspection(db, monkeypatch, inspected, icon):
    monkeypatch.setattr(tools, "progress_of", lambda endpoints: Progress(1, 1, inspected))
    page = signed_in(Role.VIEWER).get(f"/tools/{make_tool().pk}/findings/").content.decode()
    assert icon in page.partition('class="empty"')[2].partition("</svg>")[0]
