"""An address that something was published at belongs to its agent for ever."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client
from rest_framework.test import APIClient

from designer.agents import agent_keys, agents
from designer.models import Agent, AgentAddress
from designer.pins import pins
from designer.releases import publishing
from people import api_keys
from people.models import KeyScope, Role
from tests.factories import make_pin, make_tool, make_user
from tests.module_data import module_data
from tests.pages import text_of

pytestmark = pytest.mark.django_db
URL = "/api/v1/agents/"


@pytest.fixture
def runtime(alice):
    _, plain = api_keys.issue(alice, actor=alice, name="Runtime", scopes=[KeyScope.RUNTIME])
    return APIClient(headers={"authorization": f"Bearer {plain}"})


@module_data
def desk(alice):
    agent = agents.create_agent(actor=alice, name="Desk")
    make_pin(agent)
    publishing.publish(agent, actor=alice, channel="live")
    return agent


def test_an_address_that_was_published_is_given_to_no_other_agent(api, desk, alice):
    agents.update_agent(desk, actor=alice, slug="counter")
    refused = api.post(URL, {"name": "Other", "slug": "desk"})
    assert (refused.status_code, refused.json()["code"]) == (409, "slug_taken")
    assert "Another agent has published" in refused.json()["fields"]["slug"]
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
    assert answer["Link"] == f'<{URL}counter/releases/live/tools/?format=mcp>; rel="successor-version"'
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
    _, plain = agent_keys.issue(alice, actor=alice, name="Key", scopes=[KeyScope.RUNTIME], agents=[other])
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
    publishing.publish(Agent.objects.get(pk=desk.pk), actor=alice, channel="live")
    assert {row.slug for row in desk.addresses.all()} == {"desk", "counter"}


@pytest.mark.parametrize("was_published", [True, False])
def test_a_form_from_an_open_tab_is_saved_after_the_agent_was_renamed(client, alice, was_published):
    desk = agents.create_agent(actor=alice, name="Desk")
    pin = make_pin(desk)
    if was_published:
        publishing.publish(desk, actor=alice, channel="live")
    client.force_login(alice)
    form = client.get(f"/agents/desk/pins/{pin.pk}/").context["form"]
    typed = {"version": "1", "description": "Half an hour of typing.", "description-0": "The city"}
    typed["expected"] = form.expected
    agents.update_agent(desk, actor=alice, slug="counter")

    response = client.post(f"/agents/desk/pins/{pin.pk}/", typed)
    assert (response.status_code, response.headers["Location"]) == (307, f"/agents/counter/pins/{pin.pk}/")
    saved = client.post(response.headers["Location"], typed)
    assert (saved.status_code, saved.headers["Location"]) == (302, f"/agents/counter/pins/{pin.pk}/")
    pin.refresh_from_db()
    assert pin.tuning.description == "Half an hour of typing."


def test_no_form_of_another_site_and_of_no_viewer_is_passed_on(desk, alice):
    pin = desk.pins.get()
    agents.update_agent(desk, actor=alice, slug="counter")
    path = f"/agents/desk/pins/{pin.pk}/"
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.post(path, {"description": "x"}).status_code == 403
    page = client.get("/agents/counter/").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    assert client.post(path, {"csrfmiddlewaretoken": token}).status_code == 307
    client.force_login(make_user())
    assert client.post(path, {"csrfmiddlewaretoken": token}).status_code == 403


def test_an_address_that_was_never_published_leads_on_until_another_agent_has_it(api, client, alice):
    draft = agents.create_agent(actor=alice, name="Draft")
    agents.update_agent(draft, actor=alice, slug="other")
    client.force_login(alice)
    assert client.get("/agents/draft/").headers["Location"] == "/agents/other/"
    assert api.get(f"{URL}draft/").json()["slug"] == "other"

    taker = agents.create_agent(actor=alice, name="Taker")
    agents.update_agent(taker, actor=alice, slug="draft")
    assert text_of(client.get("/agents/draft/")).count("Taker")
    make_pin(taker)
    publishing.publish(taker, actor=alice, channel="live")
    assert {(row.slug, row.agent.slug) for row in AgentAddress.objects.all()} == {
        ("draft", "draft"),
        ("taker", "draft"),
    }


def writes(pin: int, tool: int) -> list[tuple[str, str, object]]:
    return [
        ("patch", "", {"description": "Ours"}),
        ("post", "pins/", {"tool": tool}),
        ("post", "pins/several/", {"pins": []}),
        ("patch", f"pins/{pin}/", {"alias": "renamed"}),
        ("put", f"pins/{pin}/tuning/", {"description": "Ours"}),
        ("get", f"pins/{pin}/tuning/history/", None),
        ("delete", f"pins/{pin}/tuning/", None),
        ("post", "releases/", {}),
        ("delete", f"pins/{pin}/", None),
        ("delete", "", None),
    ]


def test_whatever_rest_writes_it_writes_at_the_old_address_too(api, desk, alice):
    pin = desk.pins.get().pk
    agents.update_agent(desk, actor=alice, slug="counter")
    for method, path, body in writes(pin, make_tool().pk):
        answer = getattr(api, method)(f"{URL}desk/{path}", body, format="json")
        assert answer.status_code < 300 or path == "pins/several/", (method, path, answer.json())
        assert answer["Link"] == f'<{URL}counter/{path}>; rel="successor-version"', (method, path)


def test_what_is_ticked_for_an_agent_is_pinned_after_it_was_renamed(client, desk, alice):
    agents.update_agent(desk, actor=alice, slug="counter")
    client.force_login(alice)
    assert client.get("/tools/?agent=desk").url == "/agents/counter/add-tools/"
    one, two = make_tool(), make_tool()
    client.post("/tools/pin/", {"agent": "desk", "tool": [one.pk, two.pk]})
    assert desk.pins.filter(tool__in=[one, two]).count() == 2
