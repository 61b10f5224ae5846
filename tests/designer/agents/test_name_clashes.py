"""Two tools of one agent with one name: Pegboard proposes a readable one, and a user decides about it."""

import re

import pytest

from catalog.models import Finding, Tool
from catalog.models.findings import HELD
from designer.models import Pin
from designer.pins import pins
from people.models import Role
from protocols.signature import AllowedValue
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_signature,
    make_tool,
    make_vendor,
    make_version,
)
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
URL = "/api/v1/agents/desk/pins/"
FREE = "bramble_get_store_hours"


@module_data
def desk(alice):
    """An agent with a tool of another vendor, called as one of Bramble's."""
    agent = make_agent(slug="desk", name="Desk")
    pins.pin_tool(agent, actor=alice, tool=make_tool(make_signature("get_store_hours")))
    return agent


@module_data
def bramble():
    return make_endpoint(vendor=make_vendor(name="Bramble Pharmacy", slug="bramble-pharmacy"))


@module_data
def tool(bramble):
    return make_tool(make_signature("get_store_hours"), endpoint=bramble)


@pytest.fixture
def page():
    return signed_in(Role.DESIGNER)


def names_of(agent) -> set[str]:
    return set(agent.pins.live().values_list("name", flat=True))


def test_a_clash_is_answered_with_a_readable_name_and_pins_nothing(api, desk, tool):
    reply = api.post(URL, {"tool": tool.pk}, format="json")

    assert (reply.status_code, reply.json()["code"]) == (409, "name_taken")
    assert f"“{FREE}” is free." in reply.json()["fields"]["alias"]
    assert names_of(desk) == {"get_store_hours"}
    assert api.post(URL, {"tool": tool.pk, "alias": FREE}, format="json").json()["name"] == FREE


def test_several_tools_are_asked_about_one_by_one(api, desk, tool, bramble):
    choices = [{"tool": tool.pk}, {"tool": make_tool(name="refill", endpoint=bramble).pk}]

    clash, pinned = api.post(f"{URL}several/", {"pins": choices}, format="json").json()["results"]

    assert (clash["error"]["code"], pinned["pin"]["name"]) == ("name_taken", "refill")


def test_several_tools_of_one_taken_name_get_proposals_that_can_be_taken_at_once(api, desk, tool, bramble):
    tools = [tool, *(make_tool(name="get_store_hours", endpoint=make_endpoint()) for _ in range(3))]
    refused = api.post(f"{URL}several/", {"pins": [{"tool": tool.pk} for tool in tools]}, format="json")
    errors = [result["error"] for result in refused.json()["results"]]
    assert {error["code"] for error in errors} == {"name_taken"}
    proposals = [re.findall("“([^”]+)” is free", error["fields"]["alias"])[0] for error in errors]
    assert len({proposal.lower() for proposal in proposals}) == len(tools)

    choices = [{"tool": tool.pk, "alias": alias} for tool, alias in zip(tools, proposals, strict=True)]
    results = api.post(f"{URL}several/", {"pins": choices}, format="json").json()["results"]
    assert [result["pin"]["name"] for result in results] == proposals


def test_a_move_to_a_version_of_a_taken_name_asks_and_goes_with_an_alias(api, desk, bramble):
    renamed = make_tool(make_signature("opening_hours"), endpoint=bramble)
    pin = api.post(URL, {"tool": renamed.pk}, format="json").json()["id"]
    make_version(renamed, make_signature("get_store_hours"))

    refused = api.patch(f"{URL}{pin}/", {"version": 2}, format="json")

    assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
    assert Pin.objects.get(pk=pin).version.ordinal == 1
    moved = api.patch(f"{URL}{pin}/", {"version": 2, "alias": FREE}, format="json").json()
    assert moved["name"] == FREE
    assert Pin.objects.get(pk=pin).version.ordinal == 2


def test_the_page_of_a_tool_proposes_in_the_field_and_takes_it_with_the_next_press(page, desk, tool):
    payload = {"agent": "desk", "ordinal": "1", "agent_name": ""}

    response = page.post(f"/tools/{tool.pk}/pin/", payload)

    assert re.search(rf'name="alias" value="{FREE}"', response.content.decode())
    assert "Name this one" in text_of(response)
    assert response.context["form"]["agent"].value() == "desk"
    page.post(f"/tools/{tool.pk}/pin/", payload | {"alias": FREE})
    assert names_of(desk) == {"get_store_hours", FREE}


def test_a_taken_name_that_was_typed_stays_typed(page, desk, tool):
    payload = {"agent": "desk", "ordinal": "1", "alias": "Get_Store_Hours"}

    response = page.post(f"/tools/{tool.pk}/pin/", payload)

    assert 'name="alias" value="Get_Store_Hours"' in response.content.decode()
    assert "bramble_Get_Store_Hours" in text_of(response)


def test_a_press_in_the_list_asks_in_its_row(page, desk, tool):
    url, payload = f"/tools/{tool.pk}/pin/", {"agent": "desk", "ordinal": "1"}

    page_html = page.post(url, payload, headers={"HX-Request": "true"}).content.decode()

    assert f'value="{FREE}"' in page_html
    assert 'name="agent" value="desk"' in page_html
    assert "Pinned" in text_of(page.post(url, payload | {"alias": FREE}, headers={"HX-Request": "true"}))


def test_pinning_several_asks_for_the_names_that_are_taken(page, desk, tool, bramble):
    fine = make_tool(name="refill", endpoint=bramble)

    response = page.post("/tools/pin/", {"agent": "desk", "tool": [tool.pk, fine.pk]}, follow=True)

    assert names_of(desk) == {"get_store_hours", "refill"}
    assert f'name="alias-{tool.pk}" value="{FREE}"' in response.content.decode()
    assert "1 tool is pinned" in text_of(response)
    url, pressed = "/agents/desk/add-tools/", {"do": "pin", "tool": tool.pk}
    assert response.redirect_chain == [(f"{url}?tool={tool.pk}", 302)]
    wrong = page.post(url, {**pressed, f"alias-{tool.pk}": "no spaces"})
    assert 'value="no spaces"' in wrong.content.decode()
    assert "A name starts with a letter" in text_of(wrong)
    done = page.post(url, {**pressed, f"alias-{tool.pk}": FREE}, follow=True)
    assert done.redirect_chain
    assert names_of(desk) == {"get_store_hours", "refill", FREE}


@pytest.mark.parametrize(
    ("typed", "expected_text"),
    [("no spaces", "A name starts with"), ("get_store_hours", f"“{FREE}” is free")],
)
def test_a_refused_rename_keeps_what_was_typed(page, alice, desk, bramble, typed, expected_text):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="refill", endpoint=bramble))

    refused = page.post(f"/agents/desk/pins/{pin.pk}/rename/", {"alias": typed})

    assert f'name="alias" value="{typed}"' in refused.content.decode()
    assert expected_text in text_of(refused)


def test_a_refused_move_proposes_a_name_on_the_page_of_the_pin(page, alice, desk, bramble):
    renamed = make_tool(make_signature("opening_hours"), endpoint=bramble)
    pin = pins.pin_tool(desk, actor=alice, tool=renamed)
    make_version(renamed, make_signature("get_store_hours"))

    response = page.post(f"/agents/desk/pins/{pin.pk}/move/", {"ordinal": "2", "from": "upgrades"})

    assert f'name="alias" value="{FREE}"' in response.content.decode()
    assert "The version was not changed." in text_of(response)


def test_an_empty_alias_is_told_that_the_vendors_name_is_taken_while_it_is_typed(page, alice, desk, tool):
    pin = pins.pin_tool(desk, actor=alice, tool=tool, alias=FREE)

    page_text = text_of(page.get(f"/agents/desk/pins/{pin.pk}/alias/", {"alias": ""}))

    assert f"the name that the vendor gives it. {FREE} is free" in page_text


def stop(tool, version, state="open"):
    Finding.objects.create(
        endpoint=tool.endpoint,
        tool=tool,
        version=version,
        code=HELD,
        subject=version.digest,
        severity="high",
        state=state,
    )


def chosen_option(page, tool) -> str:
    """The version that the form to pin begins with, as a browser shows it."""
    select = re.search(
        r'<select name="ordinal".*?</select>', page.get(f"/tools/{tool.pk}/").content.decode(), re.S
    )
    options = re.findall(r'<option value="(\d*)"( selected)?>', select.group(0))
    return next((value for value, is_selected in options if is_selected), options[0][0])


@pytest.mark.parametrize("state", ["open", "blocked"])
def test_a_version_that_cannot_be_pinned_is_never_chosen_beforehand(page, tool, state):
    stop(tool, tool.current, state)
    Tool.objects.update(stopped=tool.current)

    assert chosen_option(page, tool) == ""


def test_the_newest_version_that_may_be_pinned_is_chosen_beforehand(page, tool):
    make_version(tool)
    assert chosen_option(page, tool) == "2"

    stop(tool, tool.current)

    assert chosen_option(page, tool) == "1"


def test_a_preset_of_an_enum_or_a_yes_and_no_is_a_choice(page, alice):
    allowed = (AllowedValue("METRIC", "Celsius"), AllowedValue("US"))
    units = make_parameter("units", type="enum", required=False, allowed_values=allowed)
    inputs = (units, make_parameter("wind", type="boolean", required=False), make_parameter("city"))
    pin = pins.pin_tool(make_agent(slug="desk"), actor=alice, tool=make_tool(make_signature(inputs=inputs)))

    page_html = page.get(f"/agents/desk/pins/{pin.pk}/").content.decode()

    assert re.search(r'<select name="preset-0".*?METRIC.*?US.*?</select>', page_html, re.DOTALL)
    assert re.search(r'<select name="preset-1".*?true.*?false.*?</select>', page_html, re.DOTALL)
    assert re.search(r'<input type="text" name="preset-2"', page_html)
    untouched = {
        "version": "1",
        "description": pin.version.decoded().description,
        "description-1": "The wind",
    }
    typed = untouched | {
        "description-0": "x",
        "description-2": "The city",
        "preset-0": "US",
        "preset-1": "false",
    }
    page.post(f"/agents/desk/pins/{pin.pk}/", typed)
    pin.refresh_from_db()
    assert pin.tuning.parameters["units"]["preset"] == "US"
    assert pin.tuning.parameters["wind"]["preset"] is False
