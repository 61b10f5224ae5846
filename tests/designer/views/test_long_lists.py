"""Long lists have pages, and a text finds a row of them."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import VendorRequest
from core.numbered_pages import PAGE_SIZE
from designer.models import Agent, Pin, Procedure
from designer.views.agent_panes import LINES_SHOWN
from designer.views.agents import AGENTS_SHOWN
from people.models import Role, Team
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_vendor
from tests.pages import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


@pytest.fixture
def pins():
    agent, endpoint = make_agent(name="Desk", slug="desk"), make_endpoint()
    names = [f"tool_{number:02}" for number in range(LINES_SHOWN + 5)]
    return [make_pin(agent, make_tool(name=name, endpoint=endpoint)) for name in names]


def rows_of(client, address: str) -> list[int]:
    page = client.get(address).content.decode()
    return [int(pk) for pk in re.findall(r'data-item="pin-(\d+)"', page)]


def test_pinned_tools_have_pages(designer, pins: list[Pin]):
    first = rows_of(designer, "/agents/desk/")
    second = rows_of(designer, f"/agents/desk/?agent-tools={LINES_SHOWN + 1}")

    assert len(first) == LINES_SHOWN
    assert first + second == [pin.pk for pin in pins]


def test_the_page_with_the_open_tool_is_listed(designer, pins):
    last = rows_of(designer, f"/agents/desk/?agent-tools={LINES_SHOWN + 1}")

    assert rows_of(designer, f"/agents/desk/pins/{last[-1]}/") == last


def test_a_text_finds_pinned_tools_by_name_and_by_vendor(designer, pins):
    vendor = pins[0].tool.endpoint.vendor.name

    assert rows_of(designer, "/agents/desk/?find=TOOL_51") == [pins[51].pk]
    assert len(rows_of(designer, f"/agents/desk/?find={vendor}")) == LINES_SHOWN
    assert rows_of(designer, "/agents/desk/?find=nothing") == []


def test_agents_have_pages_and_a_text_finds_them(designer):
    for number in range(AGENTS_SHOWN + 3):
        make_agent(name=f"Agent {number:02}", slug=f"agent-{number:02}")

    def agents_at(address: str) -> list[str]:
        return re.findall(r'href="/agents/([\w-]+)/" data-row', designer.get(address).content.decode())

    first, second = agents_at("/agents/"), agents_at(f"/agents/?agents={AGENTS_SHOWN + 1}")

    assert (len(first), len(second)) == (AGENTS_SHOWN, 3)
    assert agents_at("/agents/?find=AGENT 42") == second[-1:]
    assert agents_at("/agents/?find=nothing") == []


def test_built_in_synonym_groups_have_pages(designer):
    first = designer.get("/search/words/").content
    second = designer.get("/search/words/?built-in-groups=26").content

    assert first.count(b"<details") == second.count(b"<details")
    assert first != second


def make_procedures(agent: Agent, count: int) -> None:
    for number in range(count):
        name = f"step-{number:02}"
        Procedure.objects.create(agent=agent, title=name, slug=name, position=number)


def linked(client, address: str, pattern: str) -> list[str]:
    return re.findall(pattern, client.get(address).content.decode())


def test_procedures_have_pages_and_a_text_finds_them(designer):
    agent = make_agent(name="Desk", slug="desk")
    make_procedures(agent, PAGE_SIZE + 3)
    rows = r'href="/agents/desk/procedures/([\w-]+)/" data-row'

    first = linked(designer, "/agents/desk/procedures/", rows)
    second = linked(designer, f"/agents/desk/procedures/?procedures={PAGE_SIZE + 1}", rows)

    assert (len(first), second) == (PAGE_SIZE, ["step-40", "step-41", "step-42"])
    assert linked(designer, "/agents/desk/procedures/?find=STEP-42", rows) == ["step-42"]
    assert linked(designer, "/agents/desk/procedures/?find=nothing", rows) == []


def test_only_the_ends_of_the_whole_list_of_procedures_cannot_move_on(designer):
    agent = make_agent(name="Desk", slug="desk")
    make_procedures(agent, PAGE_SIZE + 1)
    buttons = r'name="position" value="(-?\d+)"'

    first = linked(designer, "/agents/desk/procedures/", buttons)
    last = linked(designer, f"/agents/desk/procedures/?procedures={PAGE_SIZE + 1}", buttons)

    assert (len(first), last) == (2 * PAGE_SIZE - 1, [str(PAGE_SIZE - 1)])


def test_procedures_beside_the_editor_have_pages(designer):
    agent = make_agent(name="Desk", slug="desk")
    make_procedures(agent, LINES_SHOWN + 2)
    items = r'data-item="procedure-(\d+)"'

    first = linked(designer, "/agents/desk/", items)
    opened = linked(designer, f"/agents/desk/procedures/step-{LINES_SHOWN}/", items)

    assert (len(first), len(opened)) == (LINES_SHOWN, 2)


def test_agents_of_a_team_have_pages_and_a_text_finds_them():
    admin, team = signed_in(Role.ADMIN), Team.objects.create(name="Sales", slug="sales")
    for number in range(PAGE_SIZE + 3):
        make_agent(name=f"Agent {number:02}", slug=f"agent-{number:02}", team=team)
    rows = r'class="name" href="/agents/([\w-]+)/"'

    first = linked(admin, "/teams/sales/", rows)
    second = linked(admin, f"/teams/sales/?team-agents={PAGE_SIZE + 1}", rows)

    assert (len(first), second) == (PAGE_SIZE, ["agent-40", "agent-41", "agent-42"])
    assert linked(admin, "/teams/sales/?find=AGENT 42", rows) == ["agent-42"]
    assert linked(admin, "/teams/sales/?find=nothing", rows) == []


def test_waiting_vendor_requests_have_pages_and_a_text_finds_them(designer):
    for number in range(PAGE_SIZE + 3):
        url = f"https://vendor-{number:02}.example/"
        VendorRequest.objects.create(
            protocol="a2t", url=url, address=url, vendor_name=f"Vendor {number:02}", reason="Refills"
        )
    rows = r"https://vendor-(\d\d).example/"

    first = linked(designer, "/vendor-requests/", rows)
    second = linked(designer, f"/vendor-requests/?requests={PAGE_SIZE + 1}", rows)

    assert (len(first), second) == (PAGE_SIZE, ["02", "01", "00"])
    assert linked(designer, "/vendor-requests/?find=VENDOR 07", rows) == ["07"]
    assert linked(designer, "/vendor-requests/?find=nothing", rows) == []


def test_endpoints_of_a_vendor_have_pages_and_cost_the_same_however_many(designer):
    vendor = make_vendor(name="Acme", slug="acme")
    rows = r'class="name" href="/endpoints/(\d+)/"'

    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            designer.get("/vendors/acme/")
        return len(queries)

    endpoints = [make_endpoint(vendor=vendor, name=f"Shop {number:02}") for number in range(2)]
    few = query_count()
    endpoints += [
        make_endpoint(vendor=vendor, name=f"Shop {number:02}") for number in range(2, PAGE_SIZE + 2)
    ]

    assert query_count() == few
    assert len(linked(designer, "/vendors/acme/", rows)) == PAGE_SIZE
    second = linked(designer, f"/vendors/acme/?endpoints={PAGE_SIZE + 1}", rows)
    assert second == [str(endpoint.pk) for endpoint in endpoints[PAGE_SIZE:]]
    assert linked(designer, "/vendors/acme/?find=SHOP 41", rows) == second[-1:]
    assert linked(designer, "/vendors/acme/?find=nothing", rows) == []
