"""The breaks of a newer version of a tool, down to the line of a procedure: over REST and on the page."""

import re

import msgspec
import pytest

from designer.pins import pins, tunings
from designer.procedures import editing
from people.models import AuditEntry, Role, Team
from protocols.signature import AllowedValue
from tests.clients import client_of
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


def channels(*names):
    return tuple(AllowedValue(name=name, description=name) for name in names)


def optional(name, **fields):
    return make_parameter(name, required=False, **fields)


# One tool for each planted change: as it is pinned, and what becomes of it.
INPUTS = (make_parameter("account"), optional("unit"))
OUTPUTS = (optional("status"), optional("eta"))
CHANNEL = optional("channel", type="enum", allowed_values=channels("sms", "fax"))
PLANTED = {
    "input_removed": ({"inputs": INPUTS}, {"inputs": INPUTS[:1]}),
    "input_renamed": ({"inputs": INPUTS}, {"inputs": (INPUTS[0], optional("measure", id="unit"))}),
    "input_required": ({"inputs": INPUTS}, {"inputs": (*INPUTS, make_parameter("branch"))}),
    "input_made_required": ({"inputs": INPUTS}, {"inputs": (INPUTS[0], make_parameter("unit"))}),
    "input_retyped": ({"inputs": INPUTS}, {"inputs": (INPUTS[0], optional("unit", type="int"))}),
    "input_shortened": ({"inputs": INPUTS}, {"inputs": (INPUTS[0], optional("unit", max_length=3))}),
    "value_gone": (
        {"inputs": (INPUTS[0], CHANNEL)},
        {"inputs": (INPUTS[0], msgspec.structs.replace(CHANNEL, allowed_values=channels("sms")))},
    ),
    "value_gone_from_prose": (
        {"inputs": (INPUTS[0], CHANNEL)},
        {"inputs": (INPUTS[0], msgspec.structs.replace(CHANNEL, allowed_values=channels("sms")))},
    ),
    "output_removed": ({"outputs": OUTPUTS}, {"outputs": OUTPUTS[1:]}),
    "output_renamed": ({"outputs": OUTPUTS}, {"outputs": (optional("state", id="status"), OUTPUTS[1])}),
    "output_retyped": ({"outputs": OUTPUTS}, {"outputs": (optional("status", type="int"), OUTPUTS[1])}),
    "tool_renamed": ({}, {"name": "called_otherwise"}),
}
REFILL = """\
## Steps
1. Call input_removed(account), then input_removed(unit).
2. Call input_renamed(account) and input_renamed(unit=metric).
3. Call input_required().
4. With {unit}, call input_made_required().
5. Call input_retyped(unit=30).
6. Call input_retyped(unit="metric").
7. Call input_shortened(unit="km"), or input_shortened(account).
8. Call value_gone(channel=sms), never value_gone_from_prose() here.
9. Call value_gone(channel=fax).
10. Call value_gone_from_prose() and set channel to "fax".
11. Say output_removed().eta and output_renamed().eta.
12. Say output_removed().status.
13. Say output_renamed().status.
14. Say output_retyped().status.
15. Call tool_renamed(), and end.
"""
RETURN = """\
Call input_made_required(account).
Give input_shortened(unit="kilometres").
Call value_gone(account).
Never call input_required() here.
"""
# Line 1 of the text is the heading, so step n is on line n + 1.
EXPECTED = {
    ("desk", "refill", 2, True),
    ("desk", "refill", 3, False),
    ("desk", "refill", 4, True),
    ("desk", "refill", 7, True),
    ("desk", "refill", 10, True),
    ("desk", "refill", 11, True),
    ("desk", "refill", 13, True),
    ("desk", "refill", 14, False),
    ("desk", "refill", 15, True),
    ("desk", "refill", 16, False),
    ("desk", "return", 1, True),
    ("desk", "return", 2, True),
}


@module_data
def designer():
    return make_user(Role.DESIGNER)


@module_data
def desk(designer):
    """An agent with a tool for each planted change, all of them behind by one version, and two procedures."""
    agent = make_agent(slug="desk", name="Desk")
    for name, (before, after) in PLANTED.items():
        tool = make_tool(make_signature(name, **{"inputs": INPUTS, "outputs": OUTPUTS} | before))
        make_pin(agent, tool)
        make_version(tool, make_signature(**{"name": name, "inputs": INPUTS, "outputs": OUTPUTS} | after))
    editing.create_procedure(agent, actor=designer, title="Refill", body=REFILL)
    editing.create_procedure(agent, actor=designer, title="Return", body=RETURN)
    return agent


def make_desk_for(tool, designer, *, slug, version, **fields):
    """An agent with the version pinned, and one line that uses an output of it."""
    agent = make_agent(slug=slug, name=slug.title(), **fields)
    make_pin(agent, tool, version=version)
    editing.create_procedure(agent, actor=designer, title="Refill", body="Say tracked().status.")
    return agent


@module_data
def tracked():
    """A tool in three versions, the third of which has no status."""
    tool = make_tool(make_signature("tracked", inputs=INPUTS, outputs=OUTPUTS))
    make_version(tool, make_signature("tracked", inputs=INPUTS, outputs=OUTPUTS, description="New words"))
    make_version(tool, make_signature("tracked", inputs=INPUTS, outputs=OUTPUTS[1:]))
    return tool


def upgrades(user, slug="desk"):
    reply = client_of(user).get(f"/api/v1/agents/{slug}/upgrades/?limit=200")
    assert reply.status_code == 200
    return {row["name"]: row for row in reply.json()["results"]}


def lines(row):
    return [line for line in row["impact"] if line["line"]]


def test_twelve_planted_changes_name_exactly_their_lines(desk, designer):
    upgrades_found = upgrades(designer)

    lines_found = [line for row in upgrades_found.values() for line in lines(row)]
    assert len(upgrades_found) == len(PLANTED) == 12
    assert {
        (line["agent"], line["procedure"], line["line"], line["breaks"]) for line in lines_found
    } == EXPECTED
    assert len(lines_found) == len(EXPECTED)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("input_removed", "“Refill”, line 2 gives the input “unit”, which version 2 does not have."),
        (
            "input_required",
            "“Refill”, line 4 calls “input_required()” without “branch”, which version 2 requires.",
        ),
        ("value_gone", "“Refill”, line 10 gives “channel” the value “fax”, which version 2 does not accept."),
        ("output_removed", "“Refill”, line 13 uses the output “status”, which version 2 does not have."),
        (
            "output_retyped",
            "“Refill”, line 15 uses the output “status”. "
            "In version 2: The type of output “status” is now “integer”; it was “string”.",
        ),
    ],
)
def test_a_line_is_told_in_a_sentence(desk, designer, tool, message):
    assert message in [line["message"] for line in upgrades(designer)[tool]["impact"]]


def test_the_page_leads_to_the_line(desk):
    page = signed_in(Role.VIEWER).get("/agents/desk/upgrades/")

    assert "Refill, line 13 uses the output “status”, which version 2 does not have." in text_of(page)
    assert 'href="/agents/desk/procedures/refill/#line-13"' in page.content.decode()


def test_the_preview_of_a_pin_names_the_line(desk):
    pin = desk.pins.get(name="output_removed")

    page_text = text_of(signed_in(Role.VIEWER).get(f"/agents/desk/pins/{pin.pk}/preview/?ordinal=2"))

    assert "Refill, line 13 uses the output “status”" in page_text


def test_a_preset_supplies_what_a_version_requires(desk, designer):
    pin = desk.pins.get(name="input_made_required")
    tunings.tune(pin, actor=designer, parameters={"unit": {"preset": "metric"}})

    assert lines(upgrades(designer)["input_made_required"]) == []


def test_an_alias_keeps_the_name_in_the_text(desk, designer):
    pins.set_alias(desk.pins.get(name="tool_renamed"), actor=designer, alias="ours")

    assert lines(upgrades(designer)["ours"]) == []


def test_a_removed_procedure_is_not_named(desk, designer):
    editing.remove_procedure(desk.procedures.get(slug="refill"), actor=designer)

    lines_found = [line for row in upgrades(designer).values() for line in lines(row)]
    assert {line["procedure"] for line in lines_found} == {"return"}


def test_a_version_that_only_adds_is_safe(desk, designer):
    tool = make_tool(make_signature("adds", inputs=INPUTS))
    make_pin(desk, tool)
    make_version(tool, make_signature("adds", inputs=(*INPUTS, optional("more"))))

    assert [name for name, row in upgrades(designer).items() if row["is_safe"]] == ["adds"]


def test_lines_cost_no_query_for_each_pin(desk, designer, django_assert_max_num_queries):
    client = client_of(designer)
    with django_assert_max_num_queries(10):
        client.get("/api/v1/agents/desk/upgrades/?limit=200")


def impact_of(user, tool, **query):
    return client_of(user).get(f"/api/v1/tools/{tool.pk}/impact/", query).json()


def test_all_agents_that_use_a_tool_are_named_the_broken_first(tracked, designer):
    first, second, third = tracked.versions.order_by("ordinal")
    make_pin(make_agent(slug="aside", name="Aside"), tracked, version=first)
    make_desk_for(tracked, designer, slug="north", version=first)
    make_desk_for(tracked, designer, slug="south", version=second)
    make_pin(make_agent(slug="there", name="There"), tracked, version=third)

    impact_found = impact_of(designer, tracked)

    assert (impact_found["to"], impact_found["pins"], impact_found["broken"], impact_found["left_off"]) == (
        "3",
        3,
        2,
        0,
    )
    assert [(row["agent"], row["from"]) for row in impact_found["results"]] == [
        ("north", "1"),
        ("south", "2"),
        ("aside", "1"),
    ]
    told_lines = [
        (line["agent"], line["procedure"], line["line"])
        for row in impact_found["results"]
        for line in lines(row)
    ]
    assert told_lines == [("north", "refill", 1), ("south", "refill", 1)]
    older = impact_of(designer, tracked, to="2")["results"]
    assert [row["agent"] for row in older] == ["aside", "north", "there"]
    assert impact_of(designer, tracked, to_ordinal=2)["broken"] == 0
    assert impact_of(designer, tracked, to="9")["code"] == "unknown_version"


def test_agents_of_other_teams_are_only_counted(tracked, designer):
    first = tracked.versions.get(ordinal=1)
    other_team = Team.objects.create(name="Theirs", slug="theirs")
    make_desk_for(tracked, make_user(Role.ADMIN), slug="hidden", version=first, team=other_team)

    impact_found = impact_of(designer, tracked)

    assert (impact_found["results"], impact_found["pins"], impact_found["used_by_others"]) == ([], 0, 1)


def test_more_agents_cost_no_more_queries(tracked, designer, django_assert_max_num_queries):
    first = tracked.versions.get(ordinal=1)
    for number in range(6):
        make_desk_for(tracked, designer, slug=f"desk-{number}", version=first)
    client = client_of(designer)
    with django_assert_max_num_queries(10):
        assert client.get(f"/api/v1/tools/{tracked.pk}/impact/").json()["broken"] == 6


def test_the_page_of_a_tool_says_whose_lines_break(tracked, designer):
    make_desk_for(tracked, designer, slug="north", version=tracked.versions.get(ordinal=1))

    page = signed_in(Role.VIEWER).get(f"/tools/{tracked.pk}/used-by/")

    assert "What version 3 would break 1 of 1 agent on another version" in text_of(page)
    assert "Refill, line 1 uses the output “status”, which version 3 does not have." in text_of(page)
    assert 'href="/agents/north/procedures/refill/#line-1"' in page.content.decode()


def test_the_page_of_a_tool_says_that_nothing_breaks(tracked):
    make_pin(make_agent(), tracked, version=tracked.versions.get(ordinal=1))

    assert "breaks no procedure" in text_of(signed_in(Role.VIEWER).get(f"/tools/{tracked.pk}/used-by/"))


MOVES = "/agents/mixed/upgrades/move/"


@module_data
def mixed():
    """Two pins that are behind and safe to move, and one that is not."""
    agent = make_agent(slug="mixed", name="Mixed")
    for name in ("adds", "words", "loses"):
        tool = make_tool(make_signature(name, inputs=INPUTS))
        make_pin(agent, tool)
        after = {"adds": (*INPUTS, optional("more")), "words": INPUTS, "loses": INPUTS[:1]}[name]
        make_version(tool, make_signature(name, inputs=after, description="New words"))
    return agent


def versions_of(agent):
    return dict(agent.pins.live().values_list("name", "version__ordinal"))


def test_all_safe_moves_are_looked_at_made_and_taken_back_in_one_press_each(mixed):
    page = signed_in(Role.DESIGNER)
    assert "3 updates are available. 2 of them are safe." in text_of(page.get("/agents/mixed/upgrades/"))

    looked = page.post(MOVES, {"do": "look-safe"})

    assert "Nothing has changed yet" in text_of(looked)
    assert "Update 2 tools" in text_of(looked)
    assert versions_of(mixed) == {"adds": 1, "words": 1, "loses": 1}
    assert not AuditEntry.objects.filter(action="move").exists()
    moves = re.findall(r'name="move" value="([^"]+)"', looked.content.decode())

    moved = page.post(MOVES, {"do": "move", "move": moves}, follow=True)

    assert versions_of(mixed) == {"adds": 2, "words": 2, "loses": 1}
    assert "2 tools were updated." in text_of(moved)
    assert "You can undo this." in text_of(moved)
    back = re.findall(r'type="hidden" name="move" value="([^"]+)"', moved.content.decode())

    returned = page.post(MOVES, {"do": "move", "move": back, "undo": "1"}, follow=True)

    assert "Undone: “adds”, “words”." in text_of(returned)
    assert "You can undo this." not in text_of(returned)
    assert versions_of(mixed) == {"adds": 1, "words": 1, "loses": 1}
    assert AuditEntry.objects.filter(action="move").count() == 4


def test_what_is_ticked_moves_alone(mixed):
    pin = mixed.pins.get(name="loses")
    page = signed_in(Role.DESIGNER)

    looked = text_of(page.post(MOVES, {"do": "look", "move": f"{pin.pk}:2"}))
    page.post(MOVES, {"do": "move", "move": f"{pin.pk}:2"})

    assert "The input “unit” was removed." in looked
    assert versions_of(mixed) == {"adds": 1, "words": 1, "loses": 2}


@pytest.mark.parametrize("move", ["", "x", "1", "999999:1", "PIN:99"])
def test_a_move_of_nothing_says_so(mixed, move):
    pin = mixed.pins.first()

    page_text = text_of(
        signed_in(Role.DESIGNER).post(
            MOVES, {"do": "move", "move": move.replace("PIN", str(pin.pk))}, follow=True
        )
    )

    assert any(words in page_text for words in ("Select updates", "has no pin", "has no version"))
    assert set(versions_of(mixed).values()) == {1}


def test_a_dry_run_says_what_is_refused_and_moves_nothing(mixed, designer):
    pin = mixed.pins.get(name="adds")
    make_version(pin.tool, make_signature("words", inputs=INPUTS))
    body = {"moves": [{"pin": pin.pk}], "all_safe": True, "dry_run": True}

    result = client_of(designer).post("/api/v1/agents/mixed/upgrades/", body, format="json").json()
    page = text_of(signed_in(Role.DESIGNER).post(MOVES, {"do": "look", "move": f"{pin.pk}:3"}))

    assert result["dry_run"]
    rows_by_name = {row["name"]: row for row in result["results"]}
    assert {name: row["moved"] for name, row in rows_by_name.items()} == {"adds": False, "words": True}
    assert rows_by_name["adds"]["error"]["code"] == "name_taken"
    assert "Cannot be updated" in page
    assert versions_of(mixed) == {"adds": 1, "words": 1, "loses": 1}


def test_moves_over_rest(mixed, designer):
    url, pin = "/api/v1/agents/mixed/upgrades/", mixed.pins.get(name="loses")
    client = client_of(designer)

    moved = client.post(url, {"moves": [{"pin": pin.pk, "version": "2"}]}, format="json").json()["results"]
    back = client.post(url, {"moves": [{"pin": pin.pk, "ordinal": 1}]}, format="json").json()["results"]

    assert [(row["name"], row["from"], row["to"], row["moved"]) for row in moved] == [
        ("loses", "1", "2", True)
    ]
    assert [(row["from"], row["to"], row["error"]) for row in back] == [("2", "1", None)]
    assert client.post(url, {}, format="json").json()["code"] == "invalid"
    assert client.post(url, {"moves": [{"pin": 2**40}]}, format="json").json()["code"] == "unknown_pin"
    unknown = client.post(url, {"moves": [{"pin": pin.pk, "version": "9"}]}, format="json")
    assert unknown.json()["code"] == "unknown_version"
