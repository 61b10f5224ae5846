"""Small inputs and the exact results of functions that exports consist of."""

import pytest
from msgspec import structs

from designer import exports
from designer.exports import json_schema, skill, tool_system, transfers, wire
from designer.exports.base import carried
from designer.exports.document import (
    ReleasedConfiguration,
    ReleasedSubAgent,
    ReleasedTransfer,
    ReleasedVersion,
)
from designer.exports.inputs import write as write_inputs
from designer.signatures.effective import effective
from designer.signatures.words import OutputWords, ParameterWords, Words
from tests.designer.exports.written import ANSWER, PROCEDURE, TEXT, mcp, object_schema, release

RELEASE = release("plain")
TRANSFER = ReleasedTransfer(agent="desk", name="to_desk", description="Hands over.")


def tool(inputs, returned=None, **words):
    return effective(mcp(inputs, returned), name="look_up", agent_tuning=Words(**words))


def test_transfer_is_written_as_a_tool():
    (written,) = transfers.with_transfers_as_tools(
        structs.replace(RELEASE, tools=(), transfers=(TRANSFER,))
    ).tools
    assert structs.asdict(written) == structs.asdict(RELEASE.tools[0]) | {
        "id": 0,
        "tool_id": "desk",
        "vendor": "pegboard",
        "endpoint": "urn:pegboard:agent:public",
        "protocol": "",
        "version": ReleasedVersion(ordinal=1, label="", digest=""),
        "signature": transfers.signature_of(TRANSFER),
        "tuning": {},
    }
    assert transfers.reverse_mapping(written.signature, wire.Wire()) == {"kind": "transfer", "agent": "desk"}


def test_a2t_names_a_transfer_in_the_tags():
    document = structs.replace(RELEASE, transfers=(TRANSFER,))
    written = exports.get("a2t").write(carried(document, exports.get("a2t").limits).fitting)
    tools = next(value for value in written.values() if isinstance(value, list))
    assert [document.get("tags", []) for document in tools] == [[], ["transfer"]]


def test_part_of_a_sub_agent_is_a_release():
    sub_agent = ReleasedSubAgent(
        id=5,
        slug="desk",
        name="Desk",
        description="Answers.",
        parent="public",
        tools=RELEASE.tools,
        procedures=(PROCEDURE,),
        transfers=(TRANSFER,),
        context=RELEASE.tools,
    )
    sub_agents_release = structs.replace(RELEASE, tools=(), procedures=(), agents=(sub_agent,))
    part = sub_agents_release.for_agent("desk")
    assert structs.asdict(part.agent) == {"slug": "desk", "name": "Desk", "description": "Answers."}
    assert (part.schema, part.number, part.agents) == (
        sub_agents_release.schema,
        sub_agents_release.number,
        (),
    )
    assert (part.tools, part.procedures, part.transfers, part.context) == (
        RELEASE.tools,
        (PROCEDURE,),
        (TRANSFER,),
        RELEASE.tools,
    )
    assert sub_agents_release.for_agent("none") is None


@pytest.mark.parametrize(("activity", "required"), [("web", ["_tool", "a"]), ("", ["_tool", "a", "_output"])])
def test_tool_system_names_the_activity(activity, required):
    branch = tool_system.write_tool(tool(object_schema("a", a=TEXT)))
    tool_system.resolve(branch, activity)
    assert branch["required"] == required
    assert branch["properties"]["_activity"] == {"type": "string", "const": activity}


def test_skill_without_references_lists_no_tools():
    procedure = structs.replace(PROCEDURE, references=())
    assert skill._write_skill("find", procedure, {}).splitlines()[-1] == "1. Call look_up."
    assert skill._write_skill("find", PROCEDURE, {}).endswith(
        "\n## Tools\n\n- `to_desk`: hands over to another agent\n"
    )


def test_long_description_of_a_skill_is_one_line():
    procedure = structs.replace(PROCEDURE, text="# Goal\n\n" + "Finds words. " * 200)
    lines = skill._write_skill("find", procedure, {}).splitlines()
    (line,) = [line for line in lines if line.startswith("description:")]
    assert len(line) > 900


RENAMED = {"town": ParameterWords(name="city"), "key": ParameterWords(hidden=True, preset="x")}
TOWN = object_schema("town", town=TEXT, key=TEXT)
UNKNOWN = wire.UNKNOWN


@pytest.mark.parametrize(
    ("inputs", "words", "arguments", "expected"),
    [
        (object_schema(town=TEXT), {}, {"town": "Ulm"}, {"town": "Ulm"}),
        (object_schema(town=TEXT), {}, {"town": "Ulm", "other": 1}, {"town": "Ulm", "other": 1}),
        (object_schema(town=TEXT), {}, {"other": 1, "more": 2}, {"other": 1, "more": 2}),
        (TOWN, RENAMED, {"city": "Ulm"}, {"town": "Ulm"}),
        (TOWN, RENAMED, {"city": "Ulm", "key": "y"}, {"key": UNKNOWN}),
        (TOWN, RENAMED, {"town": "Ulm"}, {"town": UNKNOWN}),
        (TOWN, RENAMED, {"city": "Ulm", "other": 1}, {"town": "Ulm", "other": 1}),
    ],
)
def test_arguments_get_the_names_of_the_vendor(inputs, words, arguments, expected):
    effective_tool = tool(inputs, parameters=words)
    try:
        result = wire.arguments_for_the_vendor(effective_tool, [wire.by_alias(effective_tool)], arguments)
    except wire.UnfitError as error:
        result = error.fields
    assert result == expected


@pytest.mark.parametrize(
    ("format_name", "hides", "outputs", "expected"),
    [
        ("json-schema", False, {"degrees": 1, "noise": "x", "more": 2}, {"warm": 1, "noise": "x", "more": 2}),
        ("json-schema", True, {"degrees": 1, "noise": "x", "more": 2}, {"warm": 1}),
        ("json-schema", True, {"noise": "x"}, {}),
        ("tool-system", False, {"degrees": 1}, {"warm": 1}),
    ],
)
def test_outputs_get_the_names_of_the_format(format_name, hides, outputs, expected):
    effective_tool = tool(
        object_schema(town=TEXT), ANSWER, outputs={"noise": OutputWords(hidden=True)} if hides else {}
    )
    outputs_by_name = {"warm": "degrees", "noise": "noise"}
    names = structs.replace(exports.get(format_name).wire(effective_tool), outputs=outputs_by_name)
    assert wire.outputs_for_the_caller(effective_tool, names, outputs) == expected


@pytest.mark.parametrize(
    ("whole_output", "outputs", "expected"),
    [
        ("all", {"all": {"warm": 1, "x": 2}, "noise": "n"}, {"noise": "n", "degrees": 1, "x": 2}),
        ("all", {"warm": 1}, {"degrees": 1}),
        ("", {"all": {"warm": 1}}, {"all": {"warm": 1}}),
    ],
)
def test_outputs_of_a_model_get_the_names_of_the_vendor(whole_output, outputs, expected):
    effective_tool = tool(object_schema(town=TEXT), ANSWER)
    names = wire.Wire(outputs={"warm": "degrees"}, whole_output=whole_output)
    assert wire.outputs_of_the_caller(effective_tool, names, outputs) == expected


@pytest.mark.parametrize(
    ("format_name", "name", "description", "expected"),
    [
        ("openai-chat", "look.up", "Looks it up.", [("blocks", "name_refused", "look.up")]),
        ("anthropic", "look.up", "Looks it up.", [("blocks", "name_refused", "look.up")]),
        ("mcp", "look.up", "Looks it up.", []),
        ("openai-chat", "look_up", "x" * 5000, [("warns", "description_long", "look_up")]),
        (
            *("a2t", "look_up", "x" * 5000),
            [("blocks", "description_too_long", "look_up"), ("loses", "output_added", "look_up")],
        ),
    ],
)
def test_remarks_on_names_and_descriptions(format_name, name, description, expected):
    effective_tool = effective(
        mcp(object_schema(town=TEXT), description=description), name=name, agent_tuning=Words()
    )
    remarks = exports.get(format_name).limits.remarks_on(effective_tool)
    assert [(remark.level, remark.code, remark.tool) for remark in remarks] == expected


@pytest.mark.parametrize(
    ("format_name", "inputs", "words", "expected"),
    [
        (
            "json-schema",
            object_schema("town", town={"$ref": "#/properties/key"}, key=TEXT),
            {"key": ParameterWords(hidden=True, preset="x")},
            object_schema("town", town={"$ref": "#/$defs/hidden%20key"})
            | {"additionalProperties": False, "$defs": {"hidden key": TEXT}},
        ),
        (
            "json-schema",
            object_schema("town", town=TEXT | {"title": "Town"}),
            {},
            object_schema("town", town=TEXT | {"title": "Town"}),
        ),
        (
            "openai-strict",
            object_schema("item", item={"type": ["string", "null"], "title": "Item", "description": "It."}),
            {},
            object_schema("item", item={"type": ["string", "null"], "title": "Item", "description": "It."})
            | {"additionalProperties": False},
        ),
    ],
)
def test_inputs_are_written_with_titles_and_hidden_targets(format_name, inputs, words, expected):
    effective_tool = tool(inputs, parameters=words)
    assert write_inputs(effective_tool, exports.get(format_name).limits.contract).schema == expected


def test_wire_names_the_configuration():
    configuration = ReleasedConfiguration(name="Fast", number=3)
    (released,) = RELEASE.tools
    names = json_schema.write_tool(structs.replace(released, configuration=configuration))["wire"]
    assert names["configuration"] == "Fast@3"


def test_arguments_that_only_the_format_accepts_are_a_loss():
    alternatives = [{"properties": {"x": {"enum": ["a", "b", "c"]}}}, {"required": ["other"]}]
    vendor_schema = object_schema("x", x={"enum": list("abcdefgh")})
    limits = exports.get("json-schema").limits
    written = write_inputs(tool(vendor_schema | {"anyOf": alternatives}), limits.contract)
    written = written._replace(schema=vendor_schema | {"additionalProperties": False})

    remarks = limits.remarks_on_round_trip(written, has_other_warning=False)

    levels_and_codes = [(remark.level, remark.code, remark.tool) for remark in remarks]
    assert levels_and_codes == [("loses", "accepts_more", "look_up"), ("loses", "accepts_fewer", "look_up")]
