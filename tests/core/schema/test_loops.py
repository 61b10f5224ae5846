"""References that lead nowhere or go round in a circle are found; a tree is no circle."""

import pytest

from core.schema import loops

TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}
NEEDED = TREE | {"required": ["children"]}


def schema_at(name, **definitions):
    return {"properties": {"a": {"$ref": f"#/$defs/{name}"}}, "$defs": definitions}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (schema_at("X", X={"$ref": "#/$defs/Y"}, Y={"$ref": "#/$defs/X"}), 3),
        (schema_at("X", X={"$ref": "#/$defs/X"}), 2),
        (schema_at("X", X={"allOf": [{"$ref": "#/$defs/X"}]}), 1),
        (schema_at("X", X={"anyOf": [{"$ref": "#/$defs/X"}, {"type": "string"}]}), 1),
        (schema_at("X", X={"not": {"$ref": "#/$defs/X"}}), 1),
        ({"$ref": "#"}, 1),
        # The search enters the loop in its middle.
        ({"$ref": "#/$defs/A/allOf/0", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}}}, 1),
        (schema_at("T", T=TREE), 0),
        ({"properties": {"a": {"$ref": "#"}}}, 0),
        (schema_at("X", X={"type": "string"}), 0),
    ],
    ids=str,
)
def test_reference_that_leads_back_to_the_same_value_is_endless(document, expected):
    assert len(loops.endless_references(document)) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (schema_at("T", T=NEEDED), 1),
        (schema_at("T", T=TREE), 0),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, 1),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, 0),
        (schema_at("T", T={"additionalProperties": {"$ref": "#/$defs/T"}}), 1),
    ],
    ids=str,
)
def test_recursion_is_required_where_no_optional_property_is_between(document, expected):
    assert len(loops.required_recursions(document)) == expected


@pytest.mark.parametrize("reference", ["#/$defs/gone", "#/properties/a/enum/0", "#nowhere", "other.json"])
def test_reference_to_nothing_or_to_what_is_no_schema_dangles(reference):
    document = {"properties": {"a": {"enum": [1]}, "b": {"$ref": reference}}}
    assert loops.dangling_references(document) == [{"$ref": reference}]


def test_long_chain_of_references_is_walked_without_recursion():
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(20_000)} | {"d20000": {}}
    assert loops.endless_references({"$ref": "#/$defs/d0", "$defs": chain}) == []
