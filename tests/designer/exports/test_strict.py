"""OpenAI's strict subset: what a schema becomes, what it loses, and the way back from what is filled in."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.schema import inlining, read_document
from designer import exports
from designer.exports import nulls, openai_strict, strict, wire
from designer.exports.base import carried, remarks
from tests.core.schema import schemas
from tests.designer.exports.formats import VALIDATORS
from tests.designer.exports.test_exports import export, make_release, schema_in
from tests.designer.exports.test_schemas import signature_of
from tests.factories import make_parameter, make_signature

A = {"type": "string"}
NAME = "openai-strict"
LIMITS = openai_strict.LIMITS


def strictly(properties: dict[str, Any], required: Any = (), **members: Any) -> dict[str, Any]:
    inputs = {"type": "object", "properties": properties, "required": list(required), **members}
    return schema_in(NAME, make_release(signature_of(inputs)))["properties"]


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("optional", "widened"),
    [
        (A, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"enum": ["a", "b"]}, {"type": ["string", "null"], "enum": ["a", "b", None]}),
        ({"const": 1}, {"type": ["integer", "null"], "enum": [1, None]}),
        ({"anyOf": [A, {"type": "integer"}]}, {"anyOf": [A, {"type": "integer"}, {"type": "null"}]}),
        ({"oneOf": [A, {"type": "null"}]}, {"anyOf": [A, {"type": "null"}]}),
        ({"$ref": "#/$defs/a", "description": "An a"}, {"type": ["string", "null"], "description": "An a"}),
        ({"type": "array", "items": A}, {"type": ["array", "null"], "items": A}),
        (
            {"type": "object", "properties": {"b": A}},
            closed(b={"type": ["string", "null"]}) | {"type": ["object", "null"]},
        ),
        ({"allOf": [{"$ref": "#/$defs/a"}, {"maximum": 3}]}, {"type": ["string", "null"]}),
    ],
    ids=str,
)
def test_what_may_be_left_out_may_be_null(optional, widened):
    assert strictly({"a": optional, "r": A}, ["r"], **{"$defs": {"a": A}}) == {"a": widened, "r": A}


@pytest.mark.parametrize(
    ("rules", "kept_rules", "lost_rules"),
    [
        (
            {"type": "string", "maxLength": 3, "pattern": "^a"},
            {"type": "string", "pattern": "^a"},
            {"maxLength"},
        ),
        ({"type": "string", "pattern": "^(?!a)"}, {"type": "string"}, {"pattern"}),
        ({"type": "string", "format": "uri"}, {"type": "string"}, {"format"}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}, set()),
        ({"type": "integer", "minimum": 1, "x-unit": "s"}, {"type": "integer", "minimum": 1}, set()),
        ({"type": "number", "exclusiveMinimum": True}, {"type": "number"}, set()),
        (
            {"type": "array", "items": A, "uniqueItems": True, "maxItems": 2},
            {"type": "array", "items": A, "maxItems": 2},
            {"uniqueItems"},
        ),
        (closed(a=A) | {"additionalProperties": True}, closed(a=A), {"additionalProperties"}),
        ({"type": ["string", "object"]}, A, {"type"}),
        ({"anyOf": [A, {"type": "object"}]}, {"anyOf": [A]}, {"anyOf"}),
        ({**A, "not": {"const": "x"}}, A, {"not"}),
    ],
    ids=str,
)
def test_rules_that_the_subset_lacks_are_left_out_and_told(rules, kept_rules, lost_rules):
    release = make_release(signature_of({"type": "object", "properties": {"a": rules}, "required": ["a"]}))
    assert schema_in(NAME, release)["properties"] == {"a": kept_rules}
    warnings = [warning for warning in remarks(release, LIMITS) if warning.code == "keywords_left_out"]
    assert [warning.message for warning in warnings] == (
        [f"“tool_1” goes without these rules of its inputs: {', '.join(lost_rules)}."] if lost_rules else []
    )


@pytest.mark.parametrize(
    ("inputs", "is_open"),
    [
        ({"type": "object"}, True),
        (
            {"type": "object", "properties": {}, "$schema": "https://json-schema.org/draft/2020-12/schema"},
            True,
        ),
        ({"type": "object", "properties": {"a": A}}, False),
        (closed(a={"type": "array", "items": {"type": "object", "properties": {"b": A}}}), False),
        ({"type": "object", "additionalProperties": False}, False),
        (closed(a=closed(b=A)), False),
        ({"type": "object", "properties": {"a": A}, "unevaluatedProperties": False}, False),
    ],
    ids=str,
)
def test_object_that_is_closed_for_the_subset_is_named_as_a_loss(inputs, is_open):
    carried_release = carried(make_release(signature_of(inputs)), LIMITS)
    losses = [(remark.level, remark.code) for remark in carried_release.remarks]
    assert carried_release.is_whole
    assert losses == ([("loses", "accepts_fewer")] if is_open else [])


def test_stated_openness_is_named_once_as_the_keyword_that_is_left_out():
    inputs = {"type": "object", "additionalProperties": True}
    warnings = remarks(make_release(signature_of(inputs)), LIMITS)
    assert [warning.code for warning in warnings] == ["keywords_left_out"]


FREE = [{}, True, {"type": "object"}, {"type": "array"}, {"description": "Anything"}, {"enum": [{"a": 1}]}]


@pytest.mark.parametrize("free", FREE, ids=str)
def test_optional_input_that_may_hold_anything_is_left_out_and_told(free):
    inputs = {"type": "object", "properties": {"a": A, "more": free, "o": {**closed(b=A), "required": ["b"]}}}
    inputs["properties"]["o"]["properties"]["more"] = free
    release = make_release(signature_of(inputs))

    assert list(schema_in(NAME, release)["properties"]) == ["a", "o"]
    (warning,) = [warning for warning in remarks(release, LIMITS) if warning.code == "inputs_left_out"]
    assert warning.message == "“tool_1” goes without inputs that have no strict form: “more”, “o.more”."
    (format_wire,) = exports.wires(release.tools[0].signature, NAME)
    assert list(format_wire.inputs) == ["a", "o"]


@pytest.mark.parametrize("free", FREE, ids=str)
def test_required_input_that_may_hold_anything_leaves_the_tool_out(free):
    nested = {"type": "object", "properties": {"b": free}, "required": ["b"]}
    inputs = {"type": "object", "properties": {"a": nested}, "required": ["a"]}
    fits = signature_of({"type": "object", "properties": {"a": A}})

    carried_release = carried(make_release(signature_of(inputs), fits), LIMITS)

    assert (carried_release.left_out, len(carried_release.fitting.tools)) == (["tool_1"], 1)
    assert [remark.message for remark in carried_release.blocking] == [
        "“tool_1” requires “a.b”, which may hold anything, so it has no strict form."
        " Hide that input, or take another format."
    ]


def test_hidden_input_with_a_preset_keeps_no_tool_out():
    inputs = {"type": "object", "properties": {"a": {}, "b": A}, "required": ["a", "b"]}
    release = make_release(signature_of(inputs), a={"hidden": True, "preset": 1})
    assert carried(release, LIMITS).is_whole


def test_schema_that_leads_back_to_itself_is_cut_where_it_may_be():
    node = {
        "type": "object",
        "properties": {"name": A, "parent": {"$ref": "#/$defs/node"}},
        "required": ["name"],
    }
    properties = strictly({"node": {"$ref": "#/$defs/node"}}, ["node"], **{"$defs": {"node": node}})
    assert properties == {"node": closed(name=A)}


def nest(levels: int) -> dict[str, Any]:
    return closed(a=nest(levels - 1)) if levels else A


@pytest.mark.parametrize(
    ("properties", "expected_text"),
    [
        ({"a": nest(9)}, ""),
        ({"a": nest(10)}, "nested 11 levels deep"),
        ({"a": {"enum": [f"v{n}" for n in range(1000)]}}, ""),
        ({"a": {"enum": [f"v{n}" for n in range(1001)]}}, "lists 1,001 allowed values"),
        ({"a": {"enum": [f"{n:064}" for n in range(251)]}}, "over 15,000 characters"),
        ({f"o{n}": closed(**{f"a{n}": A for n in range(1000)}) for n in range(5)}, "5,005 properties"),
        (
            {f"o{n}": closed(**{f"{n:x>60}": A for n in range(1000)}) for n in range(3)},
            "over 120,000 characters",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_schema_that_is_too_large_is_refused_by_its_size(properties, expected_text):
    carried_release = carried(make_release(signature_of(closed(**properties))), LIMITS)
    assert [expected_text in remark.message for remark in carried_release.blocking] == (
        [True] if expected_text else []
    )


def test_tool_that_takes_nothing_is_strict():
    for inputs in ({"type": "object"}, {"type": "object", "properties": {}}):
        assert schema_in(NAME, make_release(signature_of(inputs))) == closed()
    (tool,) = export(NAME, make_release(make_signature(inputs=(), description="")))
    assert tool == {
        "type": "function",
        "function": {"name": "tool_1", "parameters": closed(), "strict": True},
    }


@settings(max_examples=60)
@given(schemas.objects(), st.dictionaries(st.sampled_from("abc"), schemas.schemas, max_size=3))
@example({"nullable": True}, {})
def test_whatever_a_vendor_writes_is_strict_or_refused(members, own_properties):
    release = make_release(signature_of(members | {"type": "object", "properties": own_properties}))
    if carried(release, LIMITS).is_whole:
        VALIDATORS[NAME].validate(export(NAME, release))


# The strict form loses nothing: a value that fits it fits the vendor's schema without its nulls.

scalars = st.sampled_from(
    [
        A,
        {"type": "integer", "minimum": 0, "maximum": 9},
        {"type": "boolean"},
        {"enum": ["x", "y"]},
        {"type": ["integer", "null"]},
        {"$ref": "#/$defs/row"},
    ]
)


@st.composite
def objects(draw: Any, inside: Any, tag: str = "") -> dict[str, Any]:
    properties = draw(
        st.dictionaries(st.sampled_from(["a", "b", "c d", "é"]), inside, min_size=1, max_size=3)
    )
    required = [name for name in properties if draw(st.booleans())]
    if tag:
        properties, required = {"kind": {"const": tag}, **properties}, ["kind", *required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


lossless = st.recursive(
    scalars,
    lambda inside: st.one_of(
        objects(inside),
        inside.map(lambda items: {"type": "array", "items": items}),
        st.tuples(objects(inside, "one"), objects(inside, "other"), scalars).map(
            lambda schemas: {"anyOf": list(schemas)}
        ),
    ),
    max_leaves=8,
)
ROW = {"type": "object", "properties": {"n": A, "m": {"type": "integer"}}, "required": ["n"]}


@st.composite
def filled(draw: Any, schema: dict[str, Any]) -> Any:
    """A value that fits a strict schema, as a model is made to write it."""
    if "anyOf" in schema:
        return draw(filled(draw(st.sampled_from(schema["anyOf"]))))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    types = schema["type"]
    match draw(st.sampled_from(types if isinstance(types, list) else [types])):
        case "object":
            return {
                name: draw(filled(property_schema)) for name, property_schema in schema["properties"].items()
            }
        case "array":
            return [draw(filled(schema["items"])) for _ in range(draw(st.integers(0, 2)))]
        case "integer":
            return draw(st.integers(0, 9))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
    return draw(st.sampled_from(["", "x"]))


@settings(max_examples=100)
@given(st.data(), objects(lossless))
def test_what_a_model_fills_in_fits_the_vendors_schema_once_its_nulls_are_gone(data, inputs):
    inputs = {**inputs, "$defs": {"row": ROW}}
    form = strict.form(inlining.inlined(inputs)[0], LIMITS.contract.subset)
    assert form.schema
    assert not form.rules
    assert not form.left_out
    value = data.draw(filled(form.schema))
    assert jsonschema_rs.Draft202012Validator(form.schema).is_valid(value)
    assert jsonschema_rs.Draft202012Validator(inputs).is_valid(
        nulls.without_absent(read_document(inputs), value)
    )


NESTED = {
    "type": "object",
    "properties": {
        "to": {"$ref": "#/$defs/place"},
        "due date": {"type": "string"},
        "note": {"type": ["string", "null"]},
        "mark": {"type": ["string", "null"]},
        "tag": {"type": "string"},
    },
    "required": ["to", "mark"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"city": A, "zip": A, "via": {"type": "array", "items": {"$ref": "#/$defs/place"}}},
            "required": ["city"],
        }
    },
}
GIVEN = {
    "to": {"city": "Oslo", "zip": None, "via": [{"city": "Bergen", "zip": None}]},
    "due_date": None,
    "note": None,
    "mark": None,
    "tag": None,
}


def test_null_says_that_an_input_is_not_given_wherever_it_stands():
    tool = make_release(signature_of(NESTED), tag={"preset": "t"}).tools[0].signature
    arguments = wire.arguments_for_the_vendor(tool, exports.wires(tool, NAME), GIVEN)
    assert arguments == {"to": {"city": "Oslo", "via": [{"city": "Bergen"}]}, "mark": None}
    # Unsaid, or in another format, null may be what the vendor's schema means by it.
    for format_name in ("", "mcp"):
        arguments = wire.arguments_for_the_vendor(tool, exports.wires(tool, format_name), GIVEN)
        assert arguments["to"]["zip"] is None


def test_null_below_the_one_input_that_holds_all_is_not_given_either():
    inputs = {
        "type": "object",
        "properties": {"a": A, "b": A},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    tool = make_release(signature_of(inputs)).tools[0].signature
    arguments = {"input": {"a": None, "b": "x"}}
    assert wire.arguments_for_the_vendor(tool, exports.wires(tool, NAME), arguments) == {"b": "x"}


def test_the_way_back_says_that_null_is_not_given_where_something_was_widened():
    for parameter, altered in (
        (make_parameter(required=False), {"null_is_absent": True}),
        (make_parameter(), {}),
    ):
        tool = make_release(make_signature(inputs=(parameter,))).tools[0].signature
        assert exports.wires(tool, NAME)[0].altered() == altered


def test_alternatives_of_a_closed_object_are_closed_themselves():
    text = {"type": "string"}
    alternatives = [{"properties": {name: text}, "required": [name]} for name in "ab"]

    strict_form = strict.form(
        {"type": "object", "unevaluatedProperties": False, "anyOf": alternatives},
        openai_strict.CONTRACT.subset,
    )

    closed = {"type": "object", "additionalProperties": False}
    assert strict_form.schema == {"anyOf": [closed | alternative for alternative in alternatives]}
    assert (strict_form.rules, strict_form.left_out) == (frozenset(), ())
