"""A vendor's own schema in an export: as it came, with our words in it and nothing that leads nowhere."""

from urllib.parse import quote

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.canonical_json import canonical
from core.schema import pointers, subschemas
from designer.exports import openai_chat, schema
from designer.exports.base import carried, remarks
from designer.signatures.effective import effective, misfits
from designer.signatures.words import ParameterWords, Words
from protocols import parameters as json_schema
from protocols.signature import Signature
from tests.core.schema import schemas
from tests.designer.exports.formats import FORMATS, REFUSING, SCHEMA_FORMATS, VALIDATORS
from tests.designer.exports.test_exports import export, make_release, schema_in
from tests.designer.strategies import SCHEMAS

REFUSED = openai_chat.CONTRACT.keywords_at_top()
DEFINED = {"$defs": {"unit": {"enum": ["C", "F"]}}}


def signature_of(inputs, outputs=None):
    inputs_read = json_schema.read_schema(inputs, "input", whole_name="input")
    outputs_read = (
        json_schema.read_schema(outputs, "output", whole_name="value") if outputs is not None else None
    )
    return Signature(
        name="forecast",
        description="Tomorrow's weather",
        inputs=inputs_read.parameters,
        schema_rest=inputs_read.rest,
        outputs=outputs_read.parameters if outputs_read else (),
        outputs_rest=outputs_read.rest if outputs_read else None,
    )


def exported(inputs, name="mcp", **words):
    return schema_in(name, make_release(signature_of(inputs), **words))


def is_exact(inputs):
    """Return True if every target may be shown these inputs as the vendor wrote them."""
    properties, required = inputs.get("properties", {}), inputs.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    texts = [
        property_schema.get(m, "")
        for property_schema in properties.values()
        for m in ("title", "description")
        if property_schema
    ]
    return len(set(map(str, required))) == len(required) and all(isinstance(text, str) for text in texts)


NULL = {"type": "null"}
BODY = {"properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    "inputs",
    [
        {"type": "object", "nullable": True},
        {"type": "object", **BODY, "nullable": True},
        {"type": ["object", "null"], **BODY},
        {"type": ["null", "object"], **BODY, "nullable": True},
        {**BODY, "nullable": True},
        {"type": "object", **BODY, "nullable": True, "anyOf": [{"required": ["a"]}, NULL]},
        {"type": "object", "nullable": True, "oneOf": [NULL, {"type": "object", **BODY}]},
        {"type": "object", "nullable": True, "allOf": [{"type": ["object", "null"], **BODY}]},
        {
            "type": "object",
            "nullable": True,
            "$ref": "#/$defs/a",
            "$defs": {"a": {"type": ["object", "null"], **BODY}},
        },
    ],
    ids=str,
)
@pytest.mark.parametrize("name", sorted({*SCHEMA_FORMATS, "gemini", "openai-strict"}))
def test_arguments_are_an_object_and_never_null(name, inputs):
    release = make_release(signature_of(inputs))
    # An object of anything below one property has no strict form.
    if carried(release, FORMATS[name].limits).is_whole:
        shown_schema = schema_in(name, release)
        assert shown_schema["type"] == "object"
        assert "nullable" not in shown_schema
        # Below its one property, the vendor's object is no null either.
        below = shown_schema.get("properties", {}).get("input", {})
        assert "nullable" not in below
        assert below.get("type", "object") == "object"


def test_object_that_stands_for_all_inputs_is_never_null():
    shown_schema = exported({"type": "object", "nullable": True, "properties": {" ": {"type": "string"}}})
    assert shown_schema == {"type": "object", "properties": {" ": {"type": "string"}}}


def test_nullable_root_is_no_rule_that_a_renamed_input_could_break():
    inputs = {"type": "object", "properties": {"due date": {"type": "string"}}, "nullable": True}
    release = make_release(signature_of(inputs))
    assert not schema.has_rules(release.tools[0].signature)
    assert not schema.takes_members({"type": "object", "nullable": True})


legal = st.sampled_from(["a", "b", "due_date", "_x", "City"])
properties = st.dictionaries(
    legal, schemas.schemas.filter(lambda schema: isinstance(schema, dict)), max_size=3
)


@settings(max_examples=60)
@given(schemas.objects(), properties)
def test_what_was_not_tuned_is_exported_as_it_came(members, own_properties):
    inputs = members | {
        "type": "object",
        "properties": own_properties,
        "required": sorted(own_properties)[:2],
    }
    if is_exact(inputs):
        shown_signature = effective(signature_of(inputs), name="forecast")
        # Arguments are an object, even if the root allows null.
        expected = {key: value for key, value in inputs.items() if (key, value) != ("nullable", True)}
        assert canonical(schema.as_the_vendor_does(shown_signature)) == canonical(expected)


@settings(max_examples=50)
@given(properties)
def test_output_schemas_are_exported_as_they_came(own_properties):
    outputs = {"type": "object", "properties": own_properties, "required": sorted(own_properties)}
    if is_exact(outputs):
        tool = effective(signature_of({"type": "object"}, outputs), name="forecast")
        assert canonical(schema.of_outputs(tool)) == canonical(outputs)


@pytest.mark.parametrize("inputs", [*SCHEMAS[:4], *SCHEMAS[6:8]], ids=str)
def test_mcp_tools_go_out_as_they_came_in(inputs):
    assert exported(inputs) == inputs


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
def test_definitions_stay_when_an_input_is_hidden_or_renamed(name):
    inputs = {
        "type": "object",
        "properties": {"due date": {"$ref": "#/$defs/unit"}, "key": {"type": "string"}},
        "required": ["key", "due date"],
        "dependentRequired": {"key": ["due date"]},
        **DEFINED,
    }

    out = exported(inputs, name, key={"hidden": True, "preset": "k"})

    assert out["$defs"] == DEFINED["$defs"]
    assert out["properties"] == {"due_date": {"$ref": "#/$defs/unit"}}
    assert out["required"] == ["due_date"]
    assert "dependentRequired" not in out


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
def test_tuned_words_win_inside_the_schema(name):
    inputs = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^a", "description": "Theirs", "title": "A"},
            "b": {"anyOf": [{"type": "integer", "description": "Inner"}, {"type": "null"}]},
            "c": {"type": "array", "items": {}, "default": [1]},
        },
    }

    out = exported(inputs, name, a={"description": "Ours"}, b={"description": "Ours"}, c={"preset": []})

    assert out["properties"]["a"] == {"type": "string", "pattern": "^a", "description": "Ours", "title": "A"}
    assert out["properties"]["b"] == inputs["properties"]["b"] | {"description": "Ours"}
    assert out["properties"]["c"] == {"type": "array", "items": {}, "default": []}


def test_description_may_be_tuned_away():
    inputs = {"type": "object", "properties": {"a": {"pattern": "^a", "description": "Theirs"}}}

    assert exported(inputs, a={"description": ""})["properties"] == {"a": {"pattern": "^a"}}


def test_references_to_renamed_and_hidden_inputs_lead_on():
    inputs = {
        "type": "object",
        "properties": {
            "a/b": {"minLength": 1},
            "key": {"items": {"$ref": "#/properties/other"}},
            "other": {"maxLength": 9},
            "c": {"anyOf": [{"$ref": "#/properties/a~1b"}, {"$ref": "#/properties/key/items"}]},
        },
    }

    out = exported(inputs, key={"hidden": True}, other={"hidden": True})

    assert set(out["properties"]) == {"a_b", "c"}
    for reference in subschemas.references(out):
        assert pointers.resolve_reference(out, reference) is not None
    judge = jsonschema_rs.Draft202012Validator(out)
    assert judge.is_valid({"c": "four"})
    assert not judge.is_valid({"c": "much too long for both"} | {"a_b": ""})


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
def test_input_that_is_no_object_becomes_the_only_property(name):
    inputs = {
        "type": "array",
        "items": {"$ref": "#/$defs/row"},
        "$defs": {"row": {"type": "object", "properties": {"rows": {"$ref": "#"}}}},
    }

    out = exported(inputs, name)

    assert out == {
        "type": "object",
        "properties": {"input": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "required": ["input"],
        "additionalProperties": False,
        "$defs": {"row": {"type": "object", "properties": {"rows": {"$ref": "#/properties/input"}}}},
    }
    judge = jsonschema_rs.Draft202012Validator(out)
    assert judge.is_valid({"input": [{"rows": [{}]}]})
    assert not judge.is_valid({"input": [{"rows": 1}]})


def test_the_way_back_says_which_input_stands_for_all():
    (tool,) = export("json-schema", make_release(signature_of({"type": "array"})))["tools"]

    assert tool["wire"]["whole"] == "input"
    assert tool["outputs"] == {"type": "object", "properties": {}}


names = st.sampled_from(["a", "b c", "b-c", "d/e", "~", "$defs", "ü", "%20", "properties"])


@st.composite
def linked(draw):
    """Properties that refer to each other, and which of them are hidden."""
    chosen_names = draw(st.lists(names, unique=True, min_size=1))
    pointers = [
        "#",
        *(f"#/properties/{quote(name.replace('~', '~0').replace('/', '~1'))}" for name in chosen_names),
    ]
    one = st.fixed_dictionaries({}, optional={"$ref": st.sampled_from(pointers), "minLength": st.just(1)})
    schema_of_one = (
        one | st.fixed_dictionaries({"items": one}) | st.fixed_dictionaries({"anyOf": st.lists(one)})
    )
    inputs = {"type": "object", "properties": {name: draw(schema_of_one) for name in chosen_names}}
    return inputs, draw(st.sets(st.sampled_from(chosen_names)))


@given(linked())
def test_no_reference_ever_leads_nowhere(case):
    inputs, hidden = case
    assert all(
        pointers.resolve_reference(inputs, reference) is not None
        for reference in subschemas.references(inputs)
    )

    out = exported(inputs, **{name: {"hidden": True} for name in hidden})

    assert len(out.get("properties", {})) == len(inputs["properties"]) - len(hidden)
    for reference in subschemas.references(out):
        assert pointers.resolve_reference(out, reference) is not None


@pytest.mark.parametrize("outputs", [{"type": "array"}, {"type": "string", "enum": ["a"]}, {}])
def test_mcp_output_that_is_no_object_goes_below_one_member(outputs):
    release = make_release(signature_of({"type": "object"}, outputs))

    document = export("mcp", release)

    (tool,) = document["tools"]
    assert tool["outputSchema"] == {"type": "object", "properties": {"value": outputs}}
    assert tool["_meta"] == {"pegboard/wire": {"whole_output": "value"}}
    assert [(r.level, r.code) for r in remarks(release, FORMATS["mcp"].limits)] == [("loses", "output_below")]
    VALIDATORS["mcp"].validate(document)


def test_mcp_output_that_may_be_null_goes_below_one_member():
    outputs = {"type": ["object", "null"], "properties": {"value": {"type": "integer"}}}

    (tool,) = export("mcp", make_release(signature_of({"type": "object"}, outputs)))["tools"]

    assert tool["outputSchema"] == {"type": "object", "properties": {"value_": outputs}}
    assert tool["_meta"] == {"pegboard/wire": {"whole_output": "value_"}}


def test_plain_format_puts_whatever_stands_for_all_below_itself():
    outputs = {"$ref": "#/$defs/row", "$defs": {"row": {"type": "object"}}}

    (tool,) = export("json-schema", make_release(signature_of({"type": "array"}, outputs)))["tools"]

    assert tool["outputs"]["properties"] == {"value": {"type": "object", "$ref": "#/$defs/row"}}
    assert (tool["wire"]["whole"], tool["wire"]["whole_output"]) == ("input", "value")


@pytest.mark.parametrize(
    ("defined", "type_"),
    [
        ({"type": "object"}, "object"),
        ({"$ref": "#/$defs/other"}, "object"),
        ({"allOf": [{"minProperties": 1}, {"$ref": "#/$defs/other"}]}, "object"),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
        ({"type": "array"}, None),
        ({"$ref": 5}, None),
        (True, None),
    ],
)
def test_output_that_is_a_reference_to_an_object_says_so_at_the_top(defined, type_):
    outputs = {"$ref": "#/$defs/row", "$defs": {"row": defined, "other": {"type": "object"}}}
    (tool,) = export("mcp", make_release(signature_of({"type": "object"}, outputs)))["tools"]

    if type_:
        assert tool["outputSchema"] == outputs | {"type": type_}
    else:
        assert tool["outputSchema"]["properties"] == {"value": {"$ref": "#/$defs/row"}}


def test_mcp_keeps_an_output_schema_without_properties():
    (tool,) = export("mcp", make_release(signature_of({"type": "object"}, {"type": "object"})))["tools"]

    assert tool["outputSchema"] == {"type": "object"}


def test_outputs_are_required_and_closed_only_as_the_vendor_says():
    outputs = {
        "type": "object",
        "properties": {"t": {"type": "integer"}},
        "required": ["t"],
        "additionalProperties": False,
    }
    (tool,) = export("mcp", make_release(signature_of({"type": "object"}, outputs)))["tools"]

    assert tool["outputSchema"] == outputs


def test_names_that_are_required_of_no_property_stay_required():
    inputs = {"type": "object", "properties": {"a b": {}, "k": {}}, "required": ["x", "k", "a b"]}

    assert exported(inputs, k={"preset": 1})["required"] == ["x", "a_b"]


def test_a2t_names_the_rules_it_has_no_place_for():
    inputs = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}}
    release = make_release(signature_of(inputs, {"type": "object", "properties": {"b": {}}}))

    (tool,) = export("a2t", release)["items"]

    assert [(p["name"], p["type"]) for p in tool["input_parameters"]] == [("a", "string")]
    assert [r.code for r in remarks(release, FORMATS["a2t"].limits)] == ["no_schemas"]


@pytest.mark.parametrize(
    "inputs", [{"type": "array"}, {"type": "object", "properties": {"a": {"type": "object"}}}]
)
def test_a2t_refuses_inputs_that_are_json(inputs):
    carried_release = carried(make_release(signature_of(inputs)), FORMATS["a2t"].limits)

    assert not carried_release.fitting.tools
    assert [remark.code for remark in carried_release.blocking] == ["type_not_carried"]


@pytest.mark.parametrize(
    ("members", "is_strict"),
    [
        ({"additionalProperties": False}, True),
        ({}, False),
        ({"additionalProperties": False, "$defs": {}}, False),
        ({"additionalProperties": False, "minProperties": 1}, False),
    ],
)
def test_closed_schemas_of_vendors_are_strict(members, is_strict):
    inputs = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], **members}
    document = export("openai-chat", make_release(signature_of(inputs)))

    assert document[0]["function"]["strict"] is is_strict
    VALIDATORS["openai-chat"].validate(document)


@pytest.mark.parametrize(("preset", "fits"), [("abc", True), ("x", False), (1, False), (None, False)])
def test_preset_has_to_fit_the_vendors_schema(preset, fits):
    inputs = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "string", "pattern": "^a"}},
    }
    words = Words(parameters={"a": ParameterWords(preset=preset)})

    assert (misfits(signature_of(inputs), words) == []) is fits


def test_preset_may_be_null_where_null_is_a_value():
    inputs = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}

    assert exported(inputs, a={"preset": None})["properties"]["a"]["default"] is None


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
def test_schema_that_is_broken_is_repaired_or_warned_of(name):
    release = make_release(signature_of({"type": "object", "properties": {"a": {"type": "file"}}}))
    codes = [r.code for r in remarks(release, FORMATS[name].limits)]
    inputs = schema_in(name, release)

    if FORMATS[name].limits.contract.rule("invalid_schema"):
        assert inputs["properties"] == {"a": {}}
        assert "keywords_left_out" in codes
    else:
        assert inputs["properties"] == {"a": {"type": "file"}}
        assert "schema_broken" in codes


def test_agents_are_exported_as_tools():
    signature = Signature(name="trip_planner", description="Plans", kind="agent")

    assert export("anthropic", make_release(signature))[0]["name"] == "tool_1"
    assert effective(signature, name="t").kind == "agent"


A, B = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize("name", REFUSING)
@pytest.mark.parametrize(
    ("members", "equal"),
    [
        ({"allOf": [{"properties": {"b": B}, "required": ["b"]}]}, {"a": A, "b": B}),
        (
            {"allOf": [{"$ref": "#/$defs/more"}], "$defs": {"more": {"properties": {"b": B}}}},
            {"a": A, "b": B},
        ),
        ({"anyOf": [{"type": "object", "required": ["a"]}]}, {"a": A}),
        ({"oneOf": [{"properties": {"a": {"minLength": 1}}}]}, {"a": {"allOf": [A, {"minLength": 1}]}}),
        ({"anyOf": [{"required": ["a"]}, {}]}, {"a": A}),
        ({"allOf": [True, {"properties": {"a": A, "c": True}}]}, {"a": A, "c": {}}),
        ({"allOf": [{"required": ["a"], "minProperties": 2}]}, {"a": A}),
        (
            {
                "allOf": [{"minProperties": 1}, {"$ref": "#/$defs/more"}],
                "$defs": {"more": {"required": ["a"]}},
            },
            {"a": A},
        ),
        # The closed object refuses the property that the part lists.
        ({"allOf": [{"properties": {"c": B}}], "additionalProperties": False}, {"a": A}),
        ({"if": {"required": ["a"]}}, {"a": A}),
        ({"then": {"required": ["a"]}}, {"a": A}),
        # A reference that leads nowhere, or back to itself alone, judges nothing.
        ({"allOf": [{"$ref": "#/nowhere"}]}, {"a": A}),
    ],
    ids=str,
)
def test_rules_at_the_top_are_written_without_them_where_that_says_the_same(name, members, equal):
    inputs = {"type": "object", "properties": {"a": A}, **members}
    release = make_release(signature_of(inputs))

    out = schema_in(name, release)

    assert out["properties"] == equal
    assert not REFUSED & out.keys()
    assert "inputs_below" not in [r.code for r in remarks(release, FORMATS[name].limits)]
    if "#/nowhere" in str(members):
        return  # the vendor's schema cannot be compiled
    judges = [jsonschema_rs.Draft202012Validator(schema) for schema in (inputs, out)]
    for value in (
        {},
        {"a": "x"},
        {"a": ""},
        {"b": 1},
        {"a": "x", "b": "y"},
        {"a": 1},
        {"a": "x", "b": 1, "c": 0},
    ):
        assert judges[0].is_valid(value) == judges[1].is_valid(value)


@pytest.mark.parametrize("name", REFUSING)
@pytest.mark.parametrize(
    "members",
    [
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"oneOf": [{}, {"required": ["a"]}]},
        {"allOf": [{"type": "string"}]},
        {"allOf": [{"properties": {"due date": B}}]},
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"not": {"required": ["a", "b"]}},
        {"enum": [{"a": "x"}]},
        {"const": {"a": "x"}},
    ],
    ids=str,
)
def test_rules_that_have_to_stay_go_below_one_property_and_that_is_told(name, members):
    inputs = {"type": "object", "properties": {"a": A, "b": {"$ref": "#/properties/a"}}, **members}
    release = make_release(signature_of(inputs))

    out = schema_in(name, release)

    assert (out["required"], list(out["properties"])) == (["input"], ["input"])
    assert not REFUSED & out.keys()
    below = [r for r in remarks(release, FORMATS[name].limits) if r.code == "inputs_below"]
    assert [(r.level, r.tool) for r in below] == [("loses", "tool_1")]
    assert FORMATS[name].wire(release.tools[0].signature).altered() == {"whole": "input"}
    judges = [jsonschema_rs.Draft202012Validator(schema) for schema in (inputs, out)]
    for value in ({}, {"a": "x"}, {"b": "x"}, {"a": "x", "b": "y"}, {"a": 1}, {"c": 1}):
        assert judges[0].is_valid(value) == judges[1].is_valid({"input": value})
    assert not judges[1].is_valid({})


def test_the_one_property_has_a_name_of_its_own():
    inputs = {"type": "object", "properties": {"input": A, "input_": A}, "not": {"required": ["input"]}}
    assert list(schema_in("anthropic", make_release(signature_of(inputs)))["properties"]) == ["input__"]


@settings(max_examples=50)
@given(schemas.objects(), properties)
def test_no_target_is_sent_a_rule_at_the_top_that_it_refuses(members, own_properties):
    release = make_release(signature_of(members | {"type": "object", "properties": own_properties}))
    for name in REFUSING:
        assert not REFUSED & schema_in(name, release).keys()
