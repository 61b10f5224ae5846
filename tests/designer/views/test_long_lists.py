"""Long lists of agents, pinned tools and synonym groups have pages, and a text finds a row."""

import re

import pytest

from designer.models import Pin
from designer.views.agent_panes import LINES_SHOWN
from designer.views.agents import AGENTS_SHOWN
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_pin, make_tool
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
    second = designer.get("/search/words/?built-in-groups=31").content

    assert first.count(b"<details") == second.count(b"<details")
    assert first != second
