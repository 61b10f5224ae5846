"""An export contains nothing that its target refuses: it is written otherwise, left out and named, or blocks
the one tool. The cases of public bug reports, and others of their kind."""

from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings

from core.schema import spelling, subschemas
from designer import exports
from designer.exports import contracts, judge
from designer.exports.base import carried
from tests.core.schema import schemas
from tests.designer.exports.formats import FORMATS, TARGETS
from tests.designer.exports.test_exports import export, make_release, schema_in
from tests.designer.exports.test_schemas import signature_of

OPENAI = ("openai-chat", "openai-responses")
PROVIDERS = (*OPENAI, "anthropic", "gemini")
A = {"type": "string"}
TREE = {"type": "object", "properties": {"name": A, "parent": {"$ref": "#/$defs/T"}}}


def inputs_of(properties: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **members}


def exported(name: str, inputs: dict[str, Any]) -> tuple[Any, list[tuple[str, str]]]:
    """The inputs as the format writes them, None where it leaves the tool out, and the remarks."""
    release = make_release(signature_of(deepcopy(inputs)))
    result = carried(release, FORMATS[name].limits)
    remarks = [(warning.level, warning.code) for warning in result.remarks if warning.code != "output_added"]
    return (schema_in(name, result.fitting) if result.fitting.tools else None), remarks


@pytest.mark.parametrize("format_", exports.FORMATS, ids=lambda format_: format_.name)
def test_every_rule_has_its_source_and_its_date(format_):
    if format_.limits.of == "tools":
        contract = contracts.load(format_.name)
        assert contract == format_.limits.contract
        assert contract.target
        assert all(rule.source and rule.date.year >= 2026 for rule in contract.rules)


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "gemini", "tool-system"])
@pytest.mark.parametrize(
    "place",
    [
        {"type": "array"},
        {"type": ["array", "null"]},
        {"type": "array", "prefixItems": [A]},
        {"type": "object", "properties": {"deep": {"type": "array"}}},
        {"anyOf": [A, {"type": "array"}]},
        {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}},
        {"type": "array", "items": {"type": "array"}},
    ],
    ids=str,
)
def test_array_without_items_is_given_items_of_anything(name, place):
    out, remarks = exported(name, inputs_of({"a": place}))
    assert not any(spelling.is_array_without_items(schema) for schema in schemas_in(out))
    assert remarks == []
    assert out["properties"]["a"] != place
    assert without_items(out["properties"]["a"]) == place


def schemas_in(schema: Any) -> list[dict[str, Any]]:
    return list(subschemas.walk(schema))


def without_items(schema: Any) -> Any:
    return subschemas.mapped(
        schema,
        lambda schema: {word: value for word, value in schema.items() if (word, value) != ("items", {})},
    )


def test_clients_of_mcp_that_refuse_an_array_without_items_are_warned_of():
    out, remarks = exported("mcp", inputs_of({"a": {"type": "array"}}))
    assert out["properties"] == {"a": {"type": "array"}}
    assert remarks == [("warns", "array_without_items_refused")]


@pytest.mark.parametrize(
    ("pattern", "kept_by"),
    [
        ("([", set()),
        (r"^\p{L}+$", {"anthropic", "gemini", "tool-system"}),
        ("^(?!a)", {*OPENAI, "anthropic", "tool-system"}),
        (r"(a)\1", {*OPENAI, "anthropic", "tool-system"}),
        ("^[a-z]{2}$", {*PROVIDERS, "openai-strict", "tool-system"}),
    ],
)
@pytest.mark.parametrize("name", [*PROVIDERS, "openai-strict", "tool-system"])
def test_pattern_that_a_target_cannot_read_is_left_out_and_named(name, pattern, kept_by):
    for place in ({"a": A | {"pattern": pattern}}, {"a": inputs_of({"b": A | {"pattern": pattern}})}):
        out, remarks = exported(name, inputs_of(place))
        assert (pattern in patterns_in(out)) == (name in kept_by)
        assert (("loses", "keywords_left_out") in remarks) != (name in kept_by)


@pytest.mark.parametrize("name", PROVIDERS)
def test_name_of_pattern_properties_that_cannot_be_read_opens_the_object(name):
    place = {"type": "object", "patternProperties": {"([": A, "^x": A}, "additionalProperties": False}
    out, remarks = exported(name, inputs_of({"a": place}))
    assert out["properties"]["a"] == {"type": "object", "patternProperties": {"^x": A}}
    assert remarks == [("loses", "keywords_left_out")]


def patterns_in(schema: Any) -> list[str]:
    return [pattern for subschema in schemas_in(schema) for _, pattern in spelling.patterns_of(subschema)]


@pytest.mark.parametrize("name", [*PROVIDERS, "mcp", "json-schema", "oxp", "tool-system"])
@pytest.mark.parametrize(
    "definitions",
    [
        {"X": {"$ref": "#/$defs/Y"}, "Y": {"$ref": "#/$defs/X"}},
        {"X": {"$ref": "#/$defs/X"}},
        {"X": {"allOf": [{"$ref": "#/$defs/X"}]}},
        {"X": {"$ref": "#/$defs/gone"}},
        {"X": {"anyOf": [{"$ref": "#/$defs/X"}, A]}},
    ],
    ids=str,
)
def test_reference_to_nothing_or_to_itself_alone_is_cut_and_named(name, definitions):
    out, remarks = exported(name, inputs_of({"a": {"$ref": "#/$defs/X"}, "b": A}, **{"$defs": definitions}))
    assert ("loses", "references_cut") in remarks
    assert judge.broken_rules(out, contracts.load("json-schema")) == []
    jsonschema_rs.validator_for(out).is_valid({"a": 1})


@pytest.mark.parametrize("name", [*PROVIDERS, "mcp", "json-schema"])
def test_tree_keeps_its_references(name):
    out, remarks = exported(name, inputs_of({"a": {"$ref": "#/$defs/T"}}, **{"$defs": {"T": TREE}}))
    assert (out["properties"]["a"], out["$defs"]["T"]) == ({"$ref": "#/$defs/T"}, TREE)
    assert remarks == []


@pytest.mark.parametrize(
    ("siblings", "expected"),
    [
        ({"description": "Where to."}, {"description": "Where to."}),
        ({"title": "Home", "default": {}}, {"title": "Home", "default": {}}),
    ],
    ids=str,
)
def test_gemini_is_shown_the_target_in_place_of_a_reference_with_words(siblings, expected):
    place = inputs_of({"city": A}, description="A place.")
    home = {"$ref": "#/$defs/Place", **siblings}
    out, remarks = exported("gemini", inputs_of({"home": home}, **{"$defs": {"Place": place}}))
    assert out["properties"]["home"] == {**place, **expected}
    assert remarks == []


def test_gemini_is_shown_the_rules_beside_a_reference_in_one_schema_or_beside_it():
    rules = {"$ref": "#/$defs/Place", "required": ["city"]}
    out, remarks = exported(
        "gemini", inputs_of({"home": rules}, **{"$defs": {"Place": inputs_of({"city": A})}})
    )
    assert out["properties"]["home"] == inputs_of({"city": A}, required=["city"])
    assert remarks == []


def test_gemini_loses_the_words_beside_a_reference_to_a_tree():
    node = {"$ref": "#/$defs/T", "description": "The first."}
    out, remarks = exported("gemini", inputs_of({"a": node}, **{"$defs": {"T": TREE}}))
    assert out["properties"]["a"] == {"$ref": "#/$defs/T"}
    assert remarks == [("loses", "keywords_left_out")]


def test_gemini_is_shown_no_recursion_that_is_required():
    tree = inputs_of({"children": {"type": "array", "items": {"$ref": "#/$defs/T"}}}, required=["children"])
    out, remarks = exported("gemini", inputs_of({"a": {"$ref": "#/$defs/T"}}, **{"$defs": {"T": tree}}))
    assert out["$defs"]["T"]["properties"]["children"]["items"] == {}
    assert remarks == [("loses", "references_cut")]


@pytest.mark.parametrize(
    ("place", "added"),
    [
        (inputs_of({"a": A}, required=["a", "gone"]), {}),
        (inputs_of({}, required=["gone"], additionalProperties={"type": "integer"}), {"type": "integer"}),
    ],
    ids=str,
)
def test_gemini_is_shown_every_property_that_is_required(place, added):
    for inputs, path in ((place, ()), (inputs_of({"o": place}), ("properties", "o"))):
        out, remarks = exported("gemini", inputs)
        for step in path:
            out = out[step]
        assert out["properties"]["gone"] == added
        assert remarks == []


def test_gemini_leaves_out_the_tool_whose_closed_object_requires_what_it_does_not_list():
    out, remarks = exported("gemini", inputs_of({"a": A}, required=["gone"], additionalProperties=False))
    assert out is None
    assert remarks == [("blocks", "undeclared_required_refused")]


@pytest.mark.parametrize("name", [*PROVIDERS])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"items": [A], "additionalItems": A}, {"prefixItems": [A], "items": A}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        (inputs_of({"b": A}, required=["b", "b"]), inputs_of({"b": A}, required=["b"])),
    ],
    ids=str,
)
def test_keyword_of_an_older_draft_is_written_as_the_newest_has_it(name, old, new):
    out, remarks = exported(name, inputs_of({"a": old}))
    assert out["properties"]["a"] == new
    assert remarks == []


@pytest.mark.parametrize("name", [*PROVIDERS])
@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        ({"type": "any"}, {}),
        (A | {"required": True}, A),
        (A | {"minLength": "2"}, A),
        (inputs_of({"b": "string", "c": A}), inputs_of({"b": {}, "c": A})),
        ({"anyOf": [A, "x"]}, {"anyOf": [A, {}]}),
        ({"type": "array", "items": "string"}, {"type": "array", "items": {}}),
        ({"enum": "x"}, {}),
    ],
    ids=str,
)
def test_what_is_no_json_schema_is_left_out_and_named(name, broken, repaired):
    out, remarks = exported(name, inputs_of({"a": broken}))
    assert out["properties"]["a"] == repaired
    assert remarks == [("loses", "keywords_left_out")]


def test_one_tool_that_a_target_refuses_silences_no_other():
    refused = inputs_of({"a": A}, required=["gone"], additionalProperties=False)
    release = make_release(signature_of(refused), signature_of(inputs_of({"a": A})))
    result = carried(release, FORMATS["gemini"].limits)
    assert result.left_out == ["tool_1"]
    assert [tool.signature.name for tool in result.fitting.tools] == ["tool_2"]
    assert export("gemini", result.fitting)


# Inputs that are declared elsewhere than among the properties.
MORE = {"type": "object", "title": "More", "properties": {"a": A}, "required": ["a"]}
ELSEWHERE = [
    {"$ref": "#/$defs/M", "$defs": {"M": MORE}},
    {"$ref": "#/$defs/M", "$defs": {"M": MORE | {"additionalProperties": False}}},
    {"$ref": "#/$defs/M", "$defs": {"M": {"allOf": [{"$ref": "#/$defs/N"}]}, "N": MORE}},
    {"$ref": "#/$defs/M", "properties": {"b": A}, "$defs": {"M": MORE}},
    {"$ref": "#/definitions/M", "definitions": {"M": MORE}},
]
RULES = [
    {"patternProperties": {"^x-": A}},
    {"patternProperties": {"^x-": A}, "additionalProperties": False},
    {"dependentSchemas": {"a": {"minProperties": 2}}},
    {"minProperties": 1},
    {"propertyNames": {"pattern": "^x"}},
    {"additionalProperties": A},
]


@pytest.mark.parametrize("name", [*TARGETS])
@pytest.mark.parametrize("members", ELSEWHERE, ids=str)
def test_inputs_that_the_top_refers_to_are_shown(name, members):
    out, remarks = exported(name, {"type": "object", **members})
    if name == "a2t":
        assert ("a", True) in [(parameter["name"], parameter["required"]) for parameter in out]
    elif name not in ("mcp", "json-schema"):
        assert out["properties"]["a"] == A
        assert "a" in out["required"]
        assert "$ref" not in out
    assert "blocks" not in [level for level, _ in remarks]


@pytest.mark.parametrize("name", [*TARGETS])
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_tool_whose_inputs_a_rule_describes_never_takes_nothing_in_silence(name, rules):
    out, remarks = exported(name, {"type": "object", **rules})
    if out is None:
        assert "blocks" in [level for level, _ in remarks]
    elif name == "openai-strict":
        assert ("loses", "keywords_left_out") in remarks
    else:
        assert (
            rules.items()
            <= next(subschema for subschema in schemas_in(out) if rules.keys() <= subschema.keys()).items()
        )


@settings(max_examples=60)
@given(schemas.objects())
def test_no_target_is_sent_what_its_contract_refuses(members):
    release = make_release(signature_of(members | {"type": "object"}))
    for name in PROVIDERS:
        result = carried(release, FORMATS[name].limits)
        if result.fitting.tools:
            out = schema_in(name, result.fitting)
            broken = judge.broken_rules(out, FORMATS[name].limits.contract)
            assert [breach for breach in broken if breach.rule.effect != "warns"] == []
