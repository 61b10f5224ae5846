"""A model's arguments reach the vendor in every format, or the format reports the loss."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from core.schema import samples, validation
from designer import exports
from designer.exports import inputs, round_trip, schema
from designer.exports.base import carried
from designer.exports.round_trip import Exported
from designer.exports.wire import arguments_for_the_vendor
from protocols.list_pages import UnreadableItemError
from tests.designer.exports import real_tools
from tests.designer.exports.formats import FORMATS
from tests.designer.exports.public_schemas import public_schemas
from tests.designer.exports.test_exports import make_release, schema_in
from tests.designer.exports.test_schemas import signature_of

A, B = {"type": "string"}, {"type": "integer"}
LISTED = [name for name in FORMATS if name not in ("a2t", "skill")]


def inputs_of(properties: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **members}


# A `$ref` with rules beside it, a union, a condition and an `allOf` whose parts differ: an object that is
# closed without the members that these give it refuses every call.
T = inputs_of({"a": A, "b": B}, required=["b"])
MORE_MEMBERS = [
    {"$ref": "#/$defs/T", "required": ["a"], "properties": {"a": A | {"minLength": 2}}},
    {"$ref": "#/$defs/T", "properties": {"c": A}},
    inputs_of({"a": A}, anyOf=[inputs_of({"b": B}, required=["b"]), inputs_of({"c": B}, required=["c"])]),
    inputs_of({"a": A}, oneOf=[{"required": ["b"]}, {"required": ["c"]}]),
    {
        "allOf": [
            inputs_of({"a": A | {"pattern": "^[a-z]"}}),
            T | {"properties": {"a": {"pattern": "[a-z]$"}, "b": B}},
        ]
    },
    {"allOf": [{"$ref": "#/$defs/T"}, inputs_of({"d": A}, required=["d"])]},
    inputs_of(
        {"k": A}, **{"if": {"required": ["k"]}, "then": {"required": ["z"]}, "else": {"required": ["y"]}}
    ),
    inputs_of({"k": A}, required=["k"], dependentSchemas={"k": {"required": ["z"], "properties": {"z": B}}}),
    {"type": "object", "patternProperties": {"^x": A}, "minProperties": 1},
    inputs_of({}, required=["gone"]),
]


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("place", MORE_MEMBERS, ids=str)
@pytest.mark.parametrize("is_required", [True, False])
def test_object_is_never_closed_without_members_that_a_rule_gives_it(name, place, is_required):
    vendors = inputs_of({"n": place, "m": A}, required=["n"] if is_required else [], **{"$defs": {"T": T}})
    release = make_release(signature_of(vendors))
    result = carried(release, FORMATS[name].limits)
    if not result.fitting.tools:
        assert result.blocking
        return
    tool, out = release.tools[0].signature, schema_in(name, result.fitting)
    judge = jsonschema_rs.Draft202012Validator(vendors)
    verdicts = []
    for seed in range(12):
        arguments = samples.generate(out, seed)
        sent_arguments = arguments_for_the_vendor(tool, exports.wires(tool, name), arguments)
        verdicts.append(judge.is_valid(sent_arguments))
    assert any(verdicts)


def test_strict_object_holds_the_members_of_a_reference_with_rules_beside_it():
    vendors = inputs_of({"n": MORE_MEMBERS[0]}, required=["n"], **{"$defs": {"T": T}})
    out = schema_in("openai-strict", make_release(signature_of(vendors)))
    assert out["properties"]["n"]["properties"] == {"a": A, "b": B}


def check(name: str, vendors: dict[str, Any], *, is_quick: bool = False) -> round_trip.RoundTrip:
    tool = make_release(signature_of(vendors)).tools[0].signature
    shown_inputs = inputs.write(tool, FORMATS[name].limits.contract)
    return round_trip.check(
        shown_inputs.tool, Exported(shown_inputs.schema, inputs.names_in(shown_inputs)), is_quick=is_quick
    )


def test_arguments_that_the_vendor_refuses_are_told():
    outcome = check("openai-strict", inputs_of({"a": A | {"maxLength": 3}}, required=["a"]))
    assert outcome.has_common
    assert outcome.refused


def test_arguments_that_the_format_has_no_place_for_are_told():
    narrow = Exported(inputs_of({"a": A}, additionalProperties=False), exports.wires(tool_of(T))[0])
    outcome = round_trip.check(tool_of(T), narrow, is_quick=False)
    assert (outcome.has_common, outcome.is_expressible) == (False, False)


def tool_of(vendors: dict[str, Any]) -> Any:
    return make_release(signature_of(vendors)).tools[0].signature


def test_nothing_is_claimed_where_no_arguments_can_be_made_up():
    # A negative lookahead cannot be generated from left to right.
    vendors = inputs_of({"a": A | {"pattern": "^(?=.*[0-9])(?=.*[a-z])[a-z0-9]{12}$"}}, required=["a"])
    assert check("gemini", vendors).has_common is not False
    assert carried(make_release(signature_of(vendors)), FORMATS["gemini"].limits).is_whole


@pytest.mark.parametrize("name", ["a2t", "openai-strict"])
def test_tool_without_common_arguments_is_left_out_with_the_reason(name):
    vendors = inputs_of({"a": A, "b": A}, minProperties=3, patternProperties={"^x": A})
    result = carried(make_release(signature_of(vendors)), FORMATS[name].limits)
    assert [(remark.level, remark.code) for remark in result.blocking] == [("blocks", "no_common_arguments")]


def test_a_tool_that_is_too_large_is_not_called_checked():
    vendors = {"type": "object", "allOf": [{"properties": {f"p{n}": A}} for n in range(round_trip.MAX_WORK)]}
    outcome = check("gemini", vendors)
    assert (outcome.has_common, outcome.is_limited) == (None, True)
    result = carried(make_release(signature_of(vendors)), FORMATS["gemini"].limits)
    assert ("warns", "not_checked") in [(remark.level, remark.code) for remark in result.remarks]


def test_values_are_the_same_whichever_format_reads_them_first():
    series, other = round_trip.SampleSeries(T), round_trip.SampleSeries(T)
    ready = validation.checked(T)
    last = list(series.read(round_trip.MORE_TRIES, ready))
    values = [list(other.read(tries, ready)) for tries in (round_trip.USUAL_TRIES, round_trip.MORE_TRIES)]
    assert [list(series.read(round_trip.USUAL_TRIES, ready)), last] == values
    assert len(last) == len(round_trip.MORE_TRIES)


def test_same_tool_gives_the_same_outcome():
    assert check("openai-strict", T) == check("openai-strict", T)


def breaches(vendors: dict[str, Any]) -> list[str]:
    """Return the formats in which no call that a model can write reaches the vendor, and those whose remarks
    do not report the loss, for one schema of inputs."""
    try:
        release = make_release(signature_of(vendors))
    except UnreadableItemError:
        return []
    tool, problems = release.tools[0].signature, []
    for name in LISTED:
        limits = FORMATS[name].limits
        result = carried(release, limits)
        shown_inputs = inputs.write(tool, limits.contract)
        if not result.fitting.tools or limits.shows_vendors_schema:
            continue
        outcome = round_trip.check(
            shown_inputs.tool, Exported(shown_inputs.schema, inputs.names_in(shown_inputs)), is_quick=False
        )
        codes = {warning.code for warning in result.remarks}
        more = {"keywords_left_out", "references_cut", "rules_left_out", "accepts_more", "inputs_left_out"}
        if outcome.has_common is False:
            problems.append(f"{name}: no common arguments")
        if outcome.refused and not codes & more and shown_inputs.schema != schema.of_inputs(tool):
            problems.append(f"{name}: {outcome.refused}")
    return problems


def test_tools_of_others_keep_the_law():
    release = real_tools.release_of(real_tools.signatures())
    for name in LISTED:
        result = carried(release, FORMATS[name].limits)
        codes = [warning.code for warning in result.remarks]
        assert "no_common_arguments" not in codes
        assert "accepts_more" not in codes


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "tests/fixtures/mcp").glob("list.json")))
def test_recorded_inputs_keep_the_law(path):
    text = json.loads(path.read_text())
    listed_tools = [tool for exchange in text["exchanges"] for tool in tools_in(exchange)]
    assert [breach for tool in listed_tools for breach in breaches(tool["inputSchema"])] == []


def tools_in(exchange: Any) -> list[Any]:
    if isinstance(exchange, dict):
        own_tools = [exchange] if "inputSchema" in exchange else []
        return own_tools + [tool for child in exchange.values() for tool in tools_in(child)]
    return [tool for child in exchange for tool in tools_in(child)] if isinstance(exchange, list) else []


def test_public_schemas_keep_the_law():
    problems_by_source = {}
    for where, public_schema in public_schemas(count=150):
        vendors = inputs_of({"value": {"type": "object", **public_schema}}, required=["value"])
        if problems := breaches(vendors):
            problems_by_source[where] = problems
    assert problems_by_source == {}
