"""Pages with many changes show some at a time, and load the details of a change when it is opened."""

import re

import pytest
from msgspec.structs import replace

from catalog.models import ToolVersion
from catalog.rules.diff import signatures
from core.numbered_pages import PAGE_SIZE, page_of
from designer.pins import token_budget
from designer.procedures import editing
from designer.releases import publishing
from designer.views import upgrades
from people.models import Role
from tests.designer.views.test_changes import NEW, OLD
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user, make_version
from tests.module_data import module_data
from tests.pages import signed_in_as

TOOLS = 100
MOST_BYTES = 60_000
ACCEPTED = ["parameter_without_description"]


@module_data
def desk():
    """An agent with many tools, of which each has a newer version, and the newest breaks; and its user."""
    admin, agent, endpoint = make_user(Role.ADMIN), make_agent(slug="desk"), make_endpoint()
    for number in range(TOOLS):
        pin = make_pin(agent, make_tool(replace(OLD, name=f"sky_{number:03}"), endpoint=endpoint))
        is_last = number == TOOLS - 1
        text = replace(OLD, name=pin.name, description="Tells how the evening sky looks.")
        make_version(pin.tool, replace(NEW, name=pin.name) if is_last else text)
    publishing.publish(agent, actor=admin, channel="live", accept=ACCEPTED)
    return agent, admin


@pytest.fixture
def browser(desk):
    agent, admin = desk
    browser = signed_in_as(admin)
    browser.agent, browser.admin = agent, admin
    return browser


@pytest.fixture
def moved(browser):
    for pin in browser.agent.pins.all():
        pin.version = ToolVersion.objects.get(tool=pin.tool, ordinal=2)
        pin.save()
    return browser


def addresses(page):
    return re.findall(r'<details class="diff-row" hx-get="([^"]+)"', page)


def read(browser, address, **headers):
    answer = browser.get(address, headers=headers)
    assert answer.status_code == 200
    return answer.content.decode().replace("&amp;", "&").replace("<wbr>", "")


def test_pages_with_many_changes_stay_short_and_begin_with_what_breaks(moved):
    pages = {"publish": read(moved, "/agents/desk/publish/")}
    publishing.publish(moved.agent, actor=moved.admin, channel="live", accept=ACCEPTED)
    for name in ("channels/live/?release=1", "releases/2/", "releases/compare/?from=1&to=2"):
        pages[name] = read(moved, f"/agents/desk/{name}")

    for name, page in pages.items():
        assert len(page) <= MOST_BYTES, name
        keys = addresses(page)
        assert len(keys) == PAGE_SIZE, name
        assert f"of {TOOLS}</span>" in page, name
        first = page.index(keys[0])
        assert "sky_099" in page[first : page.index("</summary>", first)], name


@pytest.mark.parametrize(
    ("path", "budget"), [("publish/", 32), ("upgrades/", 20), ("procedures/refill/", 22)]
)
def test_pages_with_many_changes_keep_to_their_queries_and_compare_once(
    moved, path, budget, django_assert_max_num_queries, monkeypatch
):
    editing.create_procedure(moved.agent, actor=moved.admin, title="Refill", body="Call sky_001().")
    for pin in moved.agent.pins.filter(name__in=["sky_001", "sky_002"]):
        pin.version = ToolVersion.objects.get(tool=pin.tool, ordinal=1)
        pin.save()
    read(moved, f"/agents/desk/{path}")  # compiles the queries and compares
    for module, name in ((signatures, "_compare"), (token_budget, "costs_as_written")):
        monkeypatch.setattr(module, name, lambda *_, name=name: pytest.fail(f"{name} ran again"))

    with django_assert_max_num_queries(budget):
        read(moved, f"/agents/desk/{path}")


def test_the_details_of_a_change_are_loaded_alone_and_are_on_the_page_without_script(moved):
    address = addresses(read(moved, "/agents/desk/publish/"))[1]

    details = read(moved, f"/agents/desk/publish/{address}", HX_Request="true")
    page = read(moved, f"/agents/desk/publish/{address}")

    assert "Tells how the <ins>evening </ins>sky looks." in details
    assert "<html" not in details
    assert "<html" in page
    assert page.count("Tells how the <ins>evening </ins>sky looks.") == 1


def test_all_changes_are_on_one_of_the_pages(moved):
    seen, address = set(), "?changes=1"
    while address:
        page = read(moved, f"/agents/desk/publish/{address}")
        seen |= set(re.findall(r'mono">(sky_\d+)</span>', page))
        following = re.search(r'href="([^"#]*changes=[^"#]*)#changes" rel="next"', page)
        address = following and following[1]

    assert len(seen) == TOOLS


def test_many_updates_fold_their_changes_and_the_page_starts_with_the_gravest(browser, monkeypatch):
    monkeypatch.setattr(upgrades, "MAX_OPEN_CHANGES", 5)
    page = read(browser, "/agents/desk/upgrades/")
    keys = addresses(page)

    assert len(page) <= MOST_BYTES
    assert 0 < len(keys) <= PAGE_SIZE
    assert "sky_099" in page[: page.index(keys[0])]
    details = read(browser, f"/agents/desk/upgrades/{keys[0]}", HX_Request="true")
    assert "Allowed values: C (Celsius)" in details
    assert "Allowed values: C (Celsius)" in read(browser, f"/agents/desk/upgrades/{keys[0]}")


def test_a_preview_of_many_updates_stays_short_and_names_all(browser):
    page = browser.post("/agents/desk/upgrades/move/", {"do": "look-safe"}).content.decode()

    assert len(page) <= MOST_BYTES
    assert all(f"sky_{number:03}" in page for number in range(TOOLS - 1))
    (first, *_) = addresses(page.replace("&amp;", "&"))
    assert "evening" in read(browser, first, HX_Request="true")


@pytest.mark.parametrize("address", ["?change=9-tool-9", "?change=", "?changes=0", "?changes=9999999999"])
def test_an_address_of_a_change_that_is_gone_shows_the_page(moved, address):
    read(moved, f"/agents/desk/publish/{address}")
    read(moved, f"/agents/desk/publish/{address}", HX_Request="true")


def test_a_page_is_the_one_with_the_row_of_the_number():
    rows = list(range(1, 101))

    assert (page_of(rows, "41").rows[0], page_of(rows, "80").rows[0]) == (41, 41)
    assert [page_of(rows, number).first for number in ("", "x", "-1", "٣", "999", "9" * 99)] == [
        *(1, 1, 1, 1, 81, 1)
    ]
    assert (page_of(rows).previous, page_of(rows).next, page_of(rows, "81").next) == (0, 41, 0)
    assert (page_of(rows, "81").last, page_of(rows, "81").remaining, page_of([]).is_part) == (100, 0, False)
