"""A call that a user tries is visible to that user and to administrators; an example also to teammates."""

import uuid

import pytest
from rest_framework.test import APIClient

from designer.agents import agents
from designer.environments import mocks
from designer.pins import pins
from execution.calls import examples, requesting
from people import teams
from people.models import Role
from tests.factories import make_tool, make_user

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
        ("ada", {"ada", "admin"}),
        ("loner", {"loner", "admin"}),
        ("admin", {"admin"}),
    ],
)
def test_a_trial_is_visible_to_who_tried_and_administrators(cast, who, readers):
    version = make_tool().current
    call = requesting.request_call(version, actor=cast[who], arguments={"city": "Kakapo"})
    assert {name: sees(user, call) for name, user in cast.items()} == {
        name: {name in readers} for name in cast
    }


def test_an_example_is_visible_to_the_teams_of_who_saved_it(cast):
    call = requesting.request_call(make_tool().current, actor=cast["ada"], arguments={"city": "Kakapo"})
    example = examples.save_example(call, actor=cast["ada"], name="Kakapo")
    program = APIClient()
    readers = set()
    for name, user in cast.items():
        program.force_login(user)
        rows = program.get(f"/api/v1/tools/{call.tool_id}/examples/").json()["results"]
        filled = program.get(f"/tools/{call.tool_id}/try/?example={example.pk}")
        assert bool(rows) == (filled.status_code == 200)
        readers |= {name} if rows else set()
    assert readers == {"ada", "bob", "admin"}


def test_a_trial_of_an_agents_mock_is_visible_to_its_team(cast):
    agent = agents.create_agent(actor=cast["ada"], name="Desk")
    pin = pins.pin_tool(agent, actor=cast["ada"], tool=make_tool())
    mocks.save(pin, actor=cast["ada"], config={"examples": [{"outputs": {}}]})
    call = mocks.call_step(pin, actor=cast["ada"], key=uuid.uuid4(), arguments={"city": "Kakapo"})
    readers = {name for name, user in cast.items() if sees(user, call) == {True}}
    assert readers == {"ada", "bob", "admin"}
