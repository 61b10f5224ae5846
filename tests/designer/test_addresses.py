"""An address that something was published at belongs to its agent for ever."""

from datetime import UTC, datetime

import pytest
from rest_framework.test import APIClient

from designer import agents, keys, pins, releases
from designer.models import Agent
from people import tokens
from people.models import Role, Scope
from tests.factories import make_pin, make_user

pytestmark = pytest.mark.django_db
URL = "/api/v1/agents/"


@pytest.fixture
def runtime(alice):
    _, plain = tokens.issue(alice, actor=alice, name="Runtime", scopes=[Scope.RUNTIME])
    return APIClient(headers={"authorization": f"Bearer {plain}"})


@pytest.fixture
def desk(alice):
    agent = agents.create_agent(actor=alice, name="Desk")
    make_pin(agent)
    releases.publish(agent, actor=alice)
    return agent


def test_an_address_that_was_published_is_given_to_no_other_agent(api, desk, alice):
    agents.update_agent(desk, actor=alice, slug="counter")
    refused = api.post(URL, {"name": "Other", "slug": "desk"})
    assert (refused.status_code, refused.json()["code"]) == (409, "slug_taken")
    assert "Another agent was published" in refused.json()["fields"]["slug"]
    other = api.post(URL, {"name": "Desk"}).json()
    assert other["slug"] == "desk-2"
    moved = api.patch(f"{URL}desk-2/", {"slug": "desk"})
    assert (moved.status_code, moved.json()["code"]) == (409, "slug_taken")


def test_nor_is_that_of_a_removed_one(api, desk, alice):
    agents.remove_agent(desk, actor=alice)
    assert api.post(URL, {"name": "Other", "slug": "desk"}).status_code == 409
    assert api.post(URL, {"name": "Desk"}).json()["slug"] == "desk-2"


def test_an_address_that_nothing_was_published_at_is_free_again(api, alice):
    draft = agents.create_agent(actor=alice, name="Draft")
    agents.update_agent(draft, actor=alice, slug="other")
    assert api.post(URL, {"name": "Draft"}).json()["slug"] == "draft"


def test_an_agent_may_have_its_own_address_back(api, desk, alice, runtime):
    agents.update_agent(desk, actor=alice, slug="counter")
    agents.update_agent(desk, actor=alice, slug="desk")
    answer = runtime.get(f"{URL}desk/releases/live/tools/?format=mcp")
    assert (answer.status_code, "Deprecation" in answer) == (200, False)
    assert "Deprecation" in runtime.get(f"{URL}counter/releases/live/tools/?format=mcp")


def test_a_runtime_goes_on_at_the_old_address_and_is_told_of_the_new_one(desk, alice, runtime):
    at_first = runtime.get(f"{URL}desk/releases/live/tools/?format=mcp")
    agents.update_agent(desk, actor=alice, slug="counter")

    answer = runtime.get(f"{URL}desk/releases/live/tools/?format=mcp")
    assert (answer.status_code, answer.content) == (200, at_first.content)
    assert answer["Deprecation"].startswith("@")
    assert answer["Link"] == f'<{URL}counter/releases/live/tools/>; rel="successor-version"'
    same = runtime.get(
        f"{URL}desk/releases/live/tools/?format=mcp", headers={"If-None-Match": answer["ETag"]}
    )
    assert (same.status_code, "Deprecation" in same) == (304, True)
    assert "Deprecation" not in runtime.get(f"{URL}counter/releases/live/tools/?format=mcp")


def test_the_rest_of_rest_answers_at_the_old_address_too(api, desk, alice):
    agents.update_agent(desk, actor=alice, slug="counter")
    for path in ("", "pins/", "releases/", "releases/1/"):
        answer = api.get(f"{URL}desk/{path}")
        assert (answer.status_code, answer["Link"]) == (
            200,
            f'<{URL}counter/{path}>; rel="successor-version"',
        )


def test_a_page_leads_from_the_old_address_to_the_new_one(client, desk, alice):
    agents.update_agent(desk, actor=alice, slug="counter")
    client.force_login(alice)
    assert client.get("/agents/desk/releases/1/?format=mcp").headers["Location"] == (
        "/agents/counter/releases/1/?format=mcp"
    )
    assert client.get("/agents/counter/").status_code == 200
    assert client.get("/agents/nothing/").status_code == 404


def test_an_old_address_of_another_teams_agent_is_like_none(client, desk, alice):
    from people import teams

    admin = make_user(Role.ADMIN)
    team = teams.create_team(actor=admin, name="Zebra")
    agents.update_agent(desk, actor=admin, slug="counter", team=team)
    stranger = make_user(Role.DESIGNER)
    client.force_login(stranger)
    assert client.get("/agents/desk/").status_code == 404
    program = APIClient()
    program.force_login(stranger)
    answer = program.get(f"{URL}desk/")
    assert (answer.status_code, "Link" in answer) == (404, False)


def test_an_old_address_leads_nowhere_once_its_agent_is_removed(client, desk, alice, runtime):
    agents.update_agent(desk, actor=alice, slug="counter")
    agents.remove_agent(Agent.objects.get(), actor=alice)
    client.force_login(alice)
    assert client.get("/agents/desk/").status_code == 404
    answer = runtime.get(f"{URL}desk/releases/live/tools/?format=mcp")
    assert (answer.status_code, "Link" in answer) == (404, False)


def test_an_old_address_leads_no_key_to_an_agent_that_it_does_not_name(desk, alice):
    other = agents.create_agent(actor=alice, name="Other")
    _, plain = keys.issue(alice, actor=alice, name="Key", scopes=[Scope.RUNTIME], agents=[other])
    agents.update_agent(desk, actor=alice, slug="counter")
    answer = APIClient(headers={"authorization": f"Bearer {plain}"}).get(f"{URL}desk/releases/")
    assert (answer.status_code, "Link" in answer) == (404, False)


def test_an_address_says_since_when_it_is_the_old_one(desk, alice, time_machine):
    for slug, day in (("counter", 2), ("till", 3)):
        time_machine.move_to(datetime(2026, 3, day, tzinfo=UTC), tick=False)
        agents.update_agent(desk, actor=alice, slug=slug)
    assert {row.slug: row.left_at and row.left_at.day for row in desk.addresses.all()} == {
        "desk": 2,
        "counter": 3,
        "till": None,
    }


def test_publishing_under_a_new_name_holds_both(api, desk, alice):
    agents.update_agent(desk, actor=alice, slug="counter")
    pins.set_alias(desk.pins.get(), actor=alice, alias="forecast")
    releases.publish(Agent.objects.get(pk=desk.pk), actor=alice)
    assert {row.slug for row in desk.addresses.all()} == {"desk", "counter"}
