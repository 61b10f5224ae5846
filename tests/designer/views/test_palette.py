"""The command palette: what it lists for whom, and within which bounds."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from designer.context_processors import NAVIGATION
from designer.overviews.jump_targets import LIMIT
from designer.procedures import editing
from designer.releases import publishing
from people.models import Role, Team
from tests.factories import make_agent, make_pin, make_tool, make_user, make_vendor
from tests.pages import signed_in

pytestmark = pytest.mark.django_db
GROUP = re.compile(r'role="group" aria-label="(\w+)"(.*?)</div>', re.DOTALL)
HREF = re.compile(r'role="option"[^>]* href="([^"]+)"')
MOST_QUERIES = 20


def groups(role: Role, **query: str) -> dict[str, list[str]]:
    page = signed_in(role).get("/palette/", query).content.decode()
    return {title: HREF.findall(body) for title, body in GROUP.findall(page)}


def test_it_finds_agents_tools_procedures_releases_and_vendors_by_name():
    agent = make_agent(name="Refill desk", slug="refill")
    tool = make_pin(agent, make_tool(name="refill_prescription")).tool
    editing.create_procedure(agent, actor=make_user(Role.DESIGNER), title="Refill safely", body="Look.")
    make_vendor(name="Refill Corp", slug="refill-corp")
    publishing.publish(
        agent, actor=make_user(Role.DESIGNER), accept=["tool_not_in_procedures"], reason="Test."
    )

    addresses = groups(Role.VIEWER, q="refill 1") | groups(Role.VIEWER, q="refill")

    assert addresses["Agents"] == ["/agents/refill/"]
    assert addresses["Procedures"] == ["/agents/refill/procedures/refill-safely/"]
    assert addresses["Releases"] == ["/agents/refill/releases/1/"]
    assert addresses["Vendors"] == ["/vendors/refill-corp/"]
    assert addresses["Tools"] == [f"/tools/{tool.pk}/"]


def test_tools_whose_names_begin_with_the_text_come_first():
    cancel, refill = make_tool(name="cancel_refill"), make_tool(name="refill_prescription")

    assert groups(Role.VIEWER, q="refill")["Tools"] == [f"/tools/{tool.pk}/" for tool in (refill, cancel)]


def test_it_lists_nothing_of_another_team():
    agent = make_agent(name="Secret desk", slug="secret", team=Team.objects.create(name="Others"))
    editing.create_procedure(agent, actor=make_user(Role.ADMIN), title="Secret steps", body="Look.")

    assert groups(Role.DESIGNER, q="secret") == {}
    assert set(groups(Role.ADMIN, q="secret")) == {"Agents", "Procedures"}


def test_actions_and_pages_are_those_of_the_role():
    viewer, admin = groups(Role.VIEWER), groups(Role.ADMIN)

    assert "/endpoints/new/" in admin["Actions"]
    assert "/endpoints/new/" not in viewer["Actions"]
    assert "/users/" in admin["Pages"]
    assert "/users/" not in viewer["Pages"]


def test_the_open_agent_has_its_own_actions():
    make_agent(name="Desk", slug="desk")

    assert "/agents/desk/publish/" in groups(Role.DESIGNER, agent="desk", q="publish")["Actions"]
    assert "Actions" not in groups(Role.DESIGNER, agent="none", q="publish")


def test_a_group_is_bounded_and_names_that_begin_with_the_text_come_first():
    for number in range(LIMIT + 3):
        make_agent(name=f"The desk {number}", slug=f"the-desk-{number}")
    make_agent(name="Desk", slug="desk")

    addresses = groups(Role.VIEWER, q="desk")["Agents"]

    assert len(addresses) == LIMIT
    assert addresses[0] == "/agents/desk/"


def test_names_that_contain_the_whole_text_come_before_those_with_its_words_apart():
    make_agent(name="Front of the desk", slug="apart")
    make_agent(name="The front desk", slug="together")

    assert groups(Role.VIEWER, q="front desk")["Agents"] == ["/agents/together/", "/agents/apart/"]


def test_the_number_of_queries_is_bounded():
    browser = signed_in(Role.ADMIN)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        browser.get("/palette/", {"q": "desk 1"})

    assert len(queries) <= MOST_QUERIES


@pytest.mark.parametrize("text", ["x" * 5000, "%_\\", "'\"<b>", "1" * 60])
def test_any_text_is_answered(text):
    assert signed_in(Role.VIEWER).get("/palette/", {"q": text}).status_code == 200


def test_each_page_has_a_letter_of_its_own_and_the_list_of_keys_names_it():
    keys = [entry.key for _, entries in NAVIGATION for entry in entries]
    help_text = signed_in(Role.ADMIN).get("/palette/?keys").content.decode()

    assert len(set(keys)) == len(keys)
    assert [key for key in keys if f">g {key}<" not in help_text] == []
