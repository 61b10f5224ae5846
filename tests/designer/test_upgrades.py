import pytest
from rest_framework.test import APIClient

from designer import tunings
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> APIClient:
    client = APIClient()
    client.force_login(make_user("viewer"))
    return client


def upgrades(client: APIClient, agent) -> list[dict]:
    return client.get(f"/api/v1/agents/{agent.slug}/upgrades/").json()["results"]


def test_a_pin_on_the_current_version_has_no_upgrade(client):
    assert upgrades(client, make_pin().agent) == []


def test_an_upgrade_says_what_breaks_in_words(client):
    pin = make_pin()
    make_version(pin.tool, make_signature(pin.tool.name, inputs=()))
    (upgrade,) = upgrades(client, pin.agent)
    assert (upgrade["from"], upgrade["to"], upgrade["class"]) == (1, 2, "breaking")
    assert [impact["agent"] for impact in upgrade["impact"]] == [pin.agent.slug]
    assert "city" in upgrade["impact"][0]["message"]


def test_an_upgrade_names_our_own_words_that_would_no_longer_fit(client):
    tool = make_tool(
        make_signature("forecast", inputs=(make_parameter("city"), make_parameter("day", required=False)))
    )
    pin = make_pin(make_agent(), tool)
    tunings.tune(pin, actor=make_user(), parameters={"day": {"description": "Tomorrow or later"}})
    make_version(tool, make_signature("forecast"))
    (upgrade,) = upgrades(client, pin.agent)
    assert any("day" in impact["message"] for impact in upgrade["impact"])


def test_many_upgrades_cost_no_more_queries(client, django_assert_max_num_queries):
    agent = make_agent()
    for _ in range(8):
        pin = make_pin(agent)
        make_version(pin.tool)
    with django_assert_max_num_queries(8):
        assert len(upgrades(client, agent)) == 8
