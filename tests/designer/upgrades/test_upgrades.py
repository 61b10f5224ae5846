import pytest
from rest_framework.test import APIClient

from designer.agents import agents
from designer.pins import tunings
from people.models import Role
from protocols.signature import Annotations
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.pages import signed_in, text_of

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
    assert (upgrade["from"], upgrade["to"], upgrade["class"]) == ("1", "2", "breaking")
    assert [impact["agent"] for impact in upgrade["impact"]] == [pin.agent.slug]
    assert "city" in upgrade["impact"][0]["message"]


@pytest.fixture
def forecast():
    """A tool with an optional input, which agents need not see."""
    inputs = (make_parameter("city"), make_parameter("unit", required=False))
    return make_tool(make_signature("forecast", inputs=inputs))


def without_unit(tool):
    make_version(tool, make_signature("forecast"))


def with_unit_required(tool):
    make_version(tool, make_signature("forecast", inputs=(make_parameter("city"), make_parameter("unit"))))


def lost_words(client, pin) -> list[tuple[str, bool]]:
    """Return the messages of an upgrade about lost texts."""
    (upgrade,) = upgrades(client, pin.agent)
    messages = [(impact["message"], impact["refuses_publishing"]) for impact in upgrade["impact"]]
    return [(message, refuses) for message, refuses in messages if "texts" in message]


@pytest.mark.parametrize("whose", ["This agent's texts", "The tool's texts for all agents"])
def test_an_upgrade_names_the_words_that_would_be_lost(client, forecast, whose):
    pin = make_pin(make_agent(), forecast)
    target = forecast if "all" in whose else pin
    tunings.tune(
        target, actor=make_user(Role.DESIGNER), parameters={"unit": {"description": "Celsius or not"}}
    )
    without_unit(forecast)

    assert lost_words(client, pin) == [(f"This version has no input “unit”. {whose} do not fit.", False)]


@pytest.mark.parametrize("is_everywhere", [True, False])
def test_an_upgrade_after_which_nothing_can_be_published_says_so_everywhere(client, forecast, is_everywhere):
    designer, pin = signed_in(Role.DESIGNER), make_pin(make_agent(slug="desk"), forecast)
    hidden = {"unit": {"hidden": True}}
    tunings.tune(forecast if is_everywhere else pin, actor=make_user(Role.DESIGNER), parameters=hidden)
    with_unit_required(forecast)

    ((message, refuses),) = lost_words(client, pin)
    preview = designer.get(f"/agents/desk/pins/{pin.pk}/preview/?ordinal=2")
    moved = designer.post(
        f"/agents/desk/pins/{pin.pk}/move/", {"ordinal": 2, "from": "upgrades"}, follow=True
    )

    assert refuses
    assert "Publishing is refused until they fit." in message
    assert message in text_of(preview)
    assert message in text_of(moved)
    before = "Failed: “forecast”: “unit” is required. Enter a preset, or let the model see it."
    assert before in text_of(designer.get("/agents/desk/publish/"))
    refused = designer.post("/agents/desk/publish/", {"note": ""})
    assert "“unit” is required. Enter a preset, or let the model see it." in text_of(refused)


def test_the_page_of_upgrades_shows_words_for_all_agents_that_would_be_lost(client, forecast):
    pin = make_pin(make_agent(slug="desk"), forecast)
    tunings.tune(forecast, actor=make_user(Role.DESIGNER), parameters={"unit": {"hidden": True}})
    with_unit_required(forecast)

    page = text_of(signed_in(Role.DESIGNER).get("/agents/desk/upgrades/"))

    assert f"blocks publishing {lost_words(client, pin)[0][0]}" in page


def test_words_that_fit_the_newer_version_are_not_lost(client, forecast):
    pin = make_pin(make_agent(), forecast)
    tunings.tune(
        forecast, actor=make_user(Role.DESIGNER), parameters={"unit": {"hidden": True, "preset": "C"}}
    )
    with_unit_required(forecast)

    assert lost_words(client, pin) == []


def test_a_tool_of_a_vendor_that_the_agent_may_not_use_is_marked_and_never_safe(client):
    agent = make_agent(slug="desk", name="Desk")
    used, barred = make_pin(agent), make_pin(agent)
    for pin in (used, barred):
        make_version(pin.tool, make_signature(pin.tool.name, description="Tomorrow's weather in a city"))
    assert [upgrade["is_safe"] for upgrade in upgrades(client, agent)] == [True, True]
    designer = signed_in(Role.DESIGNER)
    agents.update_agent(agent, actor=make_user(Role.DESIGNER), vendors=[used.tool.endpoint.vendor])

    upgrades_by_pin = {upgrade["pin"]: upgrade for upgrade in upgrades(client, agent)}
    page = designer.get("/agents/desk/upgrades/")
    looked = designer.post("/agents/desk/upgrades/move/", {"do": "look-safe"})

    reason = "a vendor that “Desk” may not use. Unpin it, or allow the vendor on the edit page of “Desk”."
    assert (upgrades_by_pin[used.pk]["is_safe"], upgrades_by_pin[used.pk]["refusal"]) == (True, "")
    assert not upgrades_by_pin[barred.pk]["is_safe"]
    assert upgrades_by_pin[barred.pk]["refusal"].endswith(reason)
    assert "Cannot be updated" in text_of(page)
    assert reason in text_of(page)
    assert f'value="{used.pk}:2"' in page.content.decode()
    assert f'value="{barred.pk}:2"' not in page.content.decode()
    assert "Preview the safe update" in text_of(page)
    assert [row.upgrade.pin.pk for row in looked.context["previews"]] == [used.pk]
    assert f"/pins/{barred.pk}/" not in looked.content.decode()


def test_many_upgrades_cost_no_more_queries(client, django_assert_max_num_queries):
    agent = make_agent()
    for _ in range(8):
        pin = make_pin(agent)
        make_version(pin.tool)
    with django_assert_max_num_queries(8):
        assert len(upgrades(client, agent)) == 8


def test_a_move_is_looked_at_before_it_is_made(client):
    tool = make_tool(make_signature("forecast", description="Old words"))
    pin = make_pin(make_agent(), tool)
    make_version(tool, make_signature("forecast", description="New words", inputs=()))
    url = f"/api/v1/agents/{pin.agent.slug}/pins/{pin.pk}/move/"

    preview = client.get(url).json()

    assert (preview["from"], preview["to"], preview["class"]) == ("1", "2", "breaking")
    assert ("Old words", "New words") in [
        (change["before"], change["after"]) for change in preview["changes"]
    ]
    assert preview["impact"]
    pin.refresh_from_db()
    assert pin.version.label == "1"
    assert client.get(f"{url}?version=1").json()["changes"] == []
    assert client.get(f"{url}?ordinal=2").json()["to"] == "2"
    assert client.get(f"{url}?version=9").json()["code"] == "unknown_version"


def test_a_parent_is_told_of_the_breaking_upgrades_of_its_sub_agents():
    parent = make_agent(slug="front")
    child = make_agent(slug="back", parent=parent)
    broken, safe = make_pin(child), make_pin(child)
    make_version(broken.tool, make_signature(broken.tool.name, inputs=()))
    more = (make_parameter("city"), make_parameter("unit", required=False))
    make_version(safe.tool, make_signature(safe.tool.name, inputs=more))

    page = signed_in(Role.DESIGNER).get("/agents/front/upgrades/")
    (row,) = page.context["breaking_below"].items()
    assert (row[0], [upgrade.pin for upgrade in row[1]]) == (child, [broken])
    assert f'href="/agents/back/pins/{broken.pk}/"' in page.content.decode()


def test_a_sub_agent_that_goes_with_its_parent_has_no_publish_of_its_own_unless_asked_for():
    parent = make_agent(slug="front")
    make_pin(make_agent(slug="back", parent=parent))
    page = signed_in(Role.DESIGNER)
    assert "/agents/back/publish/" not in page.get("/agents/back/").content.decode()
    assert "/agents/front/publish/" in page.get("/agents/back/").content.decode()
    assert "/agents/back/publish/" in page.get("/agents/back/releases/").content.decode()
    # A user requested it, so it has releases of its own from now on.
    page.post("/agents/back/publish/", {"channel": ""})
    assert "/agents/back/changes/" in page.get("/agents/back/").content.decode()


def test_an_upgrade_says_that_calls_will_no_longer_be_confirmed(client):
    tool = make_tool(make_signature("wipe", annotations=Annotations(destructive=True)))
    pin = make_pin(tool=tool)
    make_version(tool, make_signature("wipe", annotations=Annotations(destructive=False)))
    (upgrade,) = upgrades(client, pin.agent)
    assert upgrade["is_safe"] is False
    (impact,) = upgrade["impact"]
    assert impact["breaks"] is False
    assert "no longer be confirmed" in impact["message"]
