"""The page and the call with runtimes by release: how each reads it, and how far behind it is."""

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from designer.agents import agent_keys, agents
from designer.models import Receipt
from designer.pins import pins, tunings
from designer.releases import channels, publishing
from people import api_keys, teams
from people.models import Role
from tests.factories import make_pin, make_tool, make_user
from tests.module_data import module_data
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@module_data
def ada():
    return make_user(Role.DESIGNER, username="ada")


@module_data
def desk(ada):
    agent = agents.create_agent(actor=ada, name="Desk")
    pins.pin_tool(agent, actor=ada, tool=make_tool(), alias="sky")
    publishing.publish(agent, actor=ada, channel="live")
    tunings.tune(agent.pins.get(), actor=ada, description="Look at the sky.")
    publishing.publish(agent, actor=ada)
    return agent


def key_of(owner, name, *agents):
    return agent_keys.issue(owner, actor=owner, name=name, scopes=["runtime"], agents=agents)


def reads(plain, release="live", *, agent="desk", format_="mcp"):
    client = APIClient(headers={"authorization": f"Bearer {plain}"})
    address = f"/api/v1/agents/{agent}/releases/{release}/tools/"
    assert client.get(address, {"format": format_}).status_code == 200


def page_of(user, **query):
    client = Client()
    client.force_login(user)
    return text_of(client.get("/runtimes/", query))


def list_receipts(user, **query):
    _, plain = api_keys.issue(user, actor=user, name="reads", scopes=["read"])
    client = APIClient(headers={"authorization": f"Bearer {plain}"})
    answer = client.get("/api/v1/receipts/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_each_runtime_with_its_release_its_way_and_how_far_it_is_behind(ada, desk):
    till, plain = key_of(ada, "Till", desk)
    reads(plain)
    reads(plain, "2", format_="anthropic")
    by_form = {row["surface"]: row for row in list_receipts(ada)}
    assert by_form["mcp"] | {"first_at": "", "last_at": ""} == {
        "agent": "desk", "key_id": till.pk, "live": 1, "behind": 0, "key": "Till", "owner": "ada",
        "release": 1, "channel": "live", "surface": "mcp", "first_at": "", "last_at": "", "activities": [],
    }  # fmt: skip
    assert (by_form["anthropic"]["channel"], by_form["anthropic"]["behind"]) == ("", 0)
    page = page_of(ada)
    for words in ("Till ada", "Release 1 Live", "Release 2 ahead of live", "by number"):
        assert words in page
    channels.move(desk, "live", actor=ada, release=desk.releases.get(number=2))
    assert [row["surface"] for row in list_receipts(ada, behind="true")] == ["mcp"]
    assert "1 release behind" in page_of(ada, behind="1")
    assert "anthropic" not in page_of(ada, behind="1")


def test_what_a_key_has_read_before_is_asked_for(ada, desk):
    till, plain = key_of(ada, "Till", desk)
    reads(plain)
    Receipt.objects.update(last_at=F("last_at") - timezone.timedelta(days=2))
    channels.move(desk, "live", actor=ada, release=desk.releases.get(number=2))
    reads(plain)
    assert [row["release"] for row in list_receipts(ada)] == [2]
    assert [row["release"] for row in list_receipts(ada, past="true")] == [2, 1]
    api_keys.revoke(till, actor=ada)
    assert list_receipts(ada) == []
    assert "Till" in page_of(ada, past="1")


def test_filters_and_empty_states(ada, desk):
    assert "No runtime has read a release yet" in page_of(ada)
    other = agents.create_agent(actor=ada, name="Other")
    make_pin(other)
    publishing.publish(other, actor=ada, channel="live")
    till, plain = key_of(ada, "Till", desk, other)
    _, elsewhere = key_of(ada, "Robot", desk)
    for row in (plain, elsewhere):
        reads(row)
    reads(plain, agent="other")
    assert {(row["key"], row["agent"]) for row in list_receipts(ada, agent="desk")} == {
        ("Till", "desk"),
        ("Robot", "desk"),
    }
    assert {row["agent"] for row in list_receipts(ada, key=till.pk)} == {"desk", "other"}
    assert "Robot" not in page_of(ada, key=till.pk)
    assert "Nothing matches" in page_of(ada, agent="none")
    assert "Nothing matches" in page_of(ada, key="rubbish")


def test_agents_of_other_teams_are_not_there(ada):
    admin = make_user(Role.ADMIN)
    team = teams.create_team(actor=admin, name="Zebra")
    teams.add_member(team, ada, actor=admin)
    agent = agents.create_agent(actor=ada, name="Secret", team=team)
    make_pin(agent)
    publishing.publish(agent, actor=ada, channel="live")
    reads(key_of(ada, "Till", agent)[1], agent="secret")
    stranger = make_user(Role.DESIGNER)
    assert list_receipts(stranger) == []
    assert "Till" not in page_of(stranger)
    assert "Secret" not in page_of(stranger)
    assert "Till" in page_of(admin)


def test_the_page_asks_the_same_number_of_questions_for_many_rows(ada, desk, django_assert_max_num_queries):
    client = Client()
    client.force_login(ada)
    for number in range(8):
        reads(key_of(ada, f"Key {number}", desk)[1])
    with django_assert_max_num_queries(9):
        client.get("/runtimes/")
