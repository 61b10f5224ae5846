"""A user's trial calls are visible to that user, to members of the same team and to administrators."""

import pytest
from rest_framework.test import APIClient

from execution.calls import requesting
from people import teams
from people.models import Role
from tests.factories import make_tool, make_user
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    admin = make_user(Role.ADMIN, username="root")
    people = {name: make_user(Role.DESIGNER, username=name) for name in ("ada", "bob", "eve", "loner")}
    zebra, others = (teams.create_team(actor=admin, name=name) for name in ("Zebra", "Others"))
    for team, name in ((zebra, "ada"), (zebra, "bob"), (others, "eve")):
        teams.add_member(team, people[name], actor=admin)
    return people | {"admin": admin}


def sees(user, call) -> set[bool]:
    """Read the call on the page, in the list over REST and by its id; all three must agree."""
    program = APIClient()
    program.force_login(user)
    page = program.get(f"/tools/{call.tool_id}/try/").content.decode()
    rows = program.get(f"/api/v1/tools/{call.tool_id}/calls/").json()["results"]
    one = program.get(f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/")
    opened = program.get(f"/tools/{call.tool_id}/try/?call={call.pk}")
    return {"Kakapo" in page, bool(rows), one.status_code == 200, opened.status_code == 200}


@pytest.mark.parametrize(
    ("who", "readers"),
    [
        ("ada", {"ada", "bob", "admin"}),
        ("loner", {"loner", "admin"}),
        ("admin", {"admin"}),
    ],
)
def test_a_try_follows_the_team_of_who_tried(cast, who, readers):
    version = make_tool().current
    call = requesting.request_call(version, actor=cast[who], arguments={"city": "Kakapo"})
    assert {name: sees(user, call) for name, user in cast.items()} == {
        name: {name in readers} for name in cast
    }


def test_the_page_says_who_sees_it(cast):
    tool = make_tool()
    browser = signed_in(Role.DESIGNER)
    assert "visible to you and administrators." in text_of(browser.get(f"/tools/{tool.pk}/try/"))
    browser.force_login(cast["ada"])
    assert "visible to the members of Zebra, and administrators" in text_of(
        browser.get(f"/tools/{tool.pk}/try/")
    )
