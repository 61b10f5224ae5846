"""The Tool System's calls: one branch for each tool, its own members around the inputs, and the way back."""

import jsonschema_rs
import pytest

from designer import exports
from designer.exports import tool_system, wire
from designer.exports.base import carried, remarks
from designer.signatures.effective import effective
from tests.designer.exports.formats import NO_INPUTS, OF_TOOLS
from tests.designer.exports.test_exports import export, make_release
from tests.designer.exports.test_schemas import signature_of
from tests.factories import make_parameter, make_signature

NAME = "tool-system"
ANY = {"type": "object", "properties": {}}


def branches(release):
    return export(NAME, release)["calls"]["items"]["anyOf"]


def branch_of(inputs, outputs=None, **words):
    (branch,) = branches(make_release(signature_of(inputs, outputs), **words))
    return branch


def test_a_release_is_an_array_of_calls():
    weather = make_signature(
        title="Weather",
        inputs=(make_parameter("city"), make_parameter("days", type="int", required=False, min=1)),
        outputs=(make_parameter("degrees", type="number"),),
    )

    document = export(NAME, make_release(weather, make_signature(inputs=())))

    assert document == {"calls": {"type": "array", "items": {"anyOf": document["calls"]["items"]["anyOf"]}}}
    first, second = branches(make_release(weather, make_signature(inputs=())))
    assert first == {
        "type": "object",
        "title": "Weather",
        "description": weather.description,
        "properties": {
            "_tool": {"type": "string", "const": "tool_1"},
            "_activity": {"type": "string", "const": "tool_1"},
            "_reasoningForCall": {"type": "string", "description": "Why this call is made."},
            "city": {"type": "string", "description": "The city"},
            "days": {"type": "integer", "description": "The days", "minimum": 1},
            "_output": {
                "type": "object",
                "properties": {"degrees": {"type": "number", "description": "The degrees"}},
            },
        },
        "required": ["_tool", "city"],
        "additionalProperties": False,
    }
    assert list(first["properties"]) == ["_tool", "_activity", "_reasoningForCall", "city", "days", "_output"]
    assert (second["required"], second["properties"]["_output"]) == (["_tool"], ANY)


def test_each_call_fits_the_branch_of_its_tool_alone():
    release = make_release(make_signature(), make_signature(inputs=(make_parameter("zip"),)))
    judge = jsonschema_rs.Draft202012Validator({"type": "object", "properties": export(NAME, release)})
    for tool, members, fits in (
        ("tool_1", {"city": "Oslo"}, True),
        ("tool_1", {"city": "Oslo", "_output": {"any": 1}, "_reasoningForCall": "It was asked for."}, True),
        ("tool_1", {"zip": "0150"}, False),
        ("tool_2", {"zip": "0150"}, True),
        ("tool_3", {"zip": "0150"}, False),
    ):
        assert judge.is_valid({"calls": [{"_tool": tool, **members}]}) is fits


@pytest.mark.parametrize(
    ("names", "expected_names"),
    [
        (["_tool", "city"], ["tool", "city"]),
        (["_city", "city", "__city"], ["city_3", "city", "city_2"]),
        (["9lives", "_9lives"], None),
        (["_"], ["input_"]),
        (["_" * 70], None),
    ],
    ids=str,
)
def test_names_with_an_underscore_before_them_go_by_others(names, expected_names):
    signature = make_signature(inputs=tuple(make_parameter(name) for name in names))
    release = make_release(signature)
    (branch,), tool = branches(release), release.tools[0].signature
    own_names = [name for name in branch["properties"] if not name.startswith("_")]
    assert own_names == (expected_names or own_names)
    assert len({name.lower() for name in own_names}) == len(names)
    arguments = dict(zip(own_names, names, strict=True))
    for format_name in (NAME, ""):
        assert wire.arguments_for_the_vendor(tool, exports.wires(tool, format_name), arguments) == {
            name: name for name in names
        }


def test_a_name_that_another_input_has_in_any_format_is_not_taken():
    """“due-date” is “due_date” elsewhere, which “_due_date” may not become here."""
    tool = effective(
        make_signature(inputs=tuple(make_parameter(n) for n in ("due-date", "_due_date", "_Due_Date"))),
        name="t",
    )
    parameters_by_name: dict[str, str] = {}
    for format_ in exports.FORMATS:
        for name, vendor_name in format_.wire(tool).inputs.items():
            assert parameters_by_name.setdefault(name, vendor_name) == vendor_name


def test_call_is_taken_as_a_model_wrote_it():
    tool = make_release(make_signature()).tools[0].signature
    call = {"_tool": "tool_1", "_activity": "tool_1", "_reasoningForCall": "Asked.", "city": "Oslo"}
    assert wire.arguments_for_the_vendor(tool, exports.wires(tool, NAME), call) == {"city": "Oslo"}


@pytest.mark.parametrize(
    "rule",
    [
        {"maxProperties": 1},
        {"propertyNames": {"pattern": "^[a-z]$"}},
        {"patternProperties": {"^_": False}},
        {
            "anyOf": [
                {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
                {"maxProperties": 0},
            ]
        },
        {"not": {"required": ["_tool"]}},
    ],
    ids=str,
)
def test_rules_that_would_judge_the_members_beside_the_inputs_go_below_one(rule):
    inputs = {"type": "object", "properties": {"a": {"type": "string"}}, **rule}
    release = make_release(signature_of(inputs))
    branch = branches(release)[0]
    assert branch["properties"]["input"] == inputs
    assert branch["required"] == ["_tool", "input"]
    assert "inputs_below" in [warning.code for warning in remarks(release, tool_system.LIMITS)]
    judge = jsonschema_rs.Draft202012Validator(branch)
    assert judge.is_valid({"_tool": "tool_1", "_activity": "tool_1", "input": {"a": "x"}})


def test_references_are_replaced_since_a_branch_stands_inside_another_schema():
    row = {"type": "object", "properties": {"next": {"$ref": "#/$defs/row"}, "b": {"$ref": "#/properties/b"}}}
    inputs = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/row", "description": "A row"}, "b": {"type": "string"}},
        "$defs": {"row": row},
    }
    release = make_release(signature_of(inputs, {"type": "object", "properties": {"r": {"$ref": "#"}}}))

    properties = branches(release)[0]["properties"]

    assert properties["a"] == {
        "type": "object",
        "properties": {"next": {}, "b": {"type": "string"}},
        "description": "A row",
    }
    assert properties["_output"]["properties"] == {"r": {}}
    assert [warning.code for warning in remarks(release, tool_system.LIMITS)] == ["references_cut"]


def test_output_that_is_no_object_goes_below_one_member():
    assert branch_of(NO_INPUTS, {"type": "array"})["properties"]["_output"] == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {}}},
    }


def test_two_tools_of_one_name_are_refused_in_every_format():
    one = make_release(make_signature())
    twice = type(one)(schema=one.schema, agent=one.agent, number=1, tools=one.tools * 2)
    for format_ in OF_TOOLS:
        carried_release = carried(twice, format_.limits)
        assert "duplicate_name" in [remark.code for remark in carried_release.blocking]
        assert not carried_release.fitting.tools
