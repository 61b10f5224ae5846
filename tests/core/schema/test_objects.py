"""Members, required names and openness of an object, however its schema spells them."""

from typing import Any

import pytest

from core.schema import directions, read_document, read_object
from core.schema.objects import alternative_names

BASE = {
    "type": "object",
    "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}},
    "required": ["id", "name"],
}


def object_of(schema, **options):
    document = read_document(schema)
    return read_object(document, document.root, **options)


@pytest.mark.parametrize(
    "schema",
    [
        BASE,
        {"$ref": "#/$defs/B", "$defs": {"B": BASE}},
        {"$ref": "#b", "$defs": {"B": {**BASE, "$anchor": "b"}}},
        {"allOf": [{"$ref": "#/definitions/B"}, {"type": "object"}], "definitions": {"B": BASE}},
        {"allOf": [{"properties": BASE["properties"]}, {"required": ["id", "name"]}]},
        {"properties": {"id": {"$ref": "#/$defs/I"}, "name": {"required": True}}, "required": ["id"],
         "$defs": {"I": {"allOf": [{"readOnly": True}]}}},
    ],
)  # fmt: skip
def test_members_come_through_references_and_all_of(schema):
    object_members = object_of(schema)
    assert [(m.name, m.is_required, m.direction) for m in object_members.members.values()] == [
        ("id", True, "response"),
        ("name", True, "both"),
    ]
    assert set(object_members.required) == {"id", "name"}
    assert object_members.is_open


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"allOf": [{"additionalProperties": False}, {"properties": {"a": True}}]},
        {"properties": {"a": True}, "unevaluatedProperties": False},
        {"allOf": [{"properties": {"a": True}, "unevaluatedProperties": False}], "properties": {"b": True}},
        {
            "anyOf": [
                {"additionalProperties": False},
                {"additionalProperties": False, "properties": {"a": True}},
            ]
        },
    ],
)
def test_an_object_is_closed_where_its_schema_closes_it(schema):
    assert not object_of(schema).is_open


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "minProperties": 1},
        {"required": ["ghost"]},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x": True}, "additionalProperties": False},
        {"anyOf": [{"additionalProperties": False}, {"properties": {"a": True}}]},
    ],
)
def test_an_object_is_open_where_nothing_closes_it(schema):
    assert object_of(schema).is_open


def test_a_name_that_is_required_and_not_listed_stays_required():
    object_members = object_of({"type": "object", "required": ["ghost"]})
    assert (object_members.required, dict(object_members.members)) == (("ghost",), {})


def test_names_of_alternatives_are_found_at_any_depth():
    schema = {
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "size": {"type": "integer"}}, "required": ["size"]},
            {"anyOf": [{"properties": {"depth": {"type": "null"}}}, {"$ref": "#"}]},
        ],
        "dependentSchemas": {"kind": {"properties": {"why": {"type": "string"}}}},
    }
    assert list(object_of(schema).members) == ["kind"]
    document = read_document(schema)
    assert alternative_names(document, document.root) == {"kind", "size", "depth", "why"}


@pytest.mark.parametrize("schema", [{"type": "string"}, {"enum": [1]}, {"const": None}, False])
def test_what_takes_no_object_has_no_members(schema):
    assert object_of(schema) is None


def test_references_in_a_cycle_add_no_schemas_without_end():
    """Each of the schemas joins rules of two others, which gives new schemas in each round."""

    def definition(number: int) -> dict[str, Any]:
        following = [{"$ref": f"#/$defs/{(number + step) % 30}"} for step in (1, 2, 3)]
        return {
            "properties": {f"p{number}": {"readOnly": True}},
            "dependentSchemas": {"a": following[0], "b": following[1]},
            "allOf": [{"dependentSchemas": {"a": following[2]}}],
        }

    schema = {"$ref": "#/$defs/0", "$defs": {str(number): definition(number) for number in range(30)}}
    document = read_document(schema)
    assert alternative_names(document, document.root) == {f"p{number}" for number in range(1, 30)}
    assert not directions.has_direction("request", directions.schema_for("request", schema))
