"""Schemas of what is only sent, or only returned."""

import copy

import pytest

from core.schema.directions import has_direction, schema_for

BASE = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}},
}
SENT = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (BASE, SENT),
        ({"items": BASE}, {"items": SENT}),
        ({"prefixItems": [BASE], "items": False}, {"prefixItems": [SENT], "items": False}),
        ({"additionalProperties": BASE}, {"additionalProperties": SENT}),
        ({"patternProperties": {"^x": BASE}}, {"patternProperties": {"^x": SENT}}),
        ({"allOf": [BASE, {"required": ["id"]}]}, {"allOf": [SENT, {}]}),
        ({"anyOf": [BASE, {"type": "null"}]}, {"anyOf": [SENT, {"type": "null"}]}),
        ({"oneOf": [BASE, {"type": "null"}]}, {"oneOf": [SENT, {"type": "null"}]}),
        ({"oneOf": [BASE, {"required": ["id"]}]}, {"anyOf": [SENT, {"required": ["id"]}]}),
        ({"if": {"required": ["id"]}, "then": BASE}, {"if": {"required": ["id"]}, "then": SENT}),
        ({"not": BASE}, {"not": BASE}),
        ({"$ref": "#/$defs/B", "$defs": {"B": BASE, "C": BASE}}, {"$ref": "#/$defs/B", "$defs": {"B": SENT}}),
        (
            {**BASE, "dependentRequired": {"name": ["id"], "id": ["name"]}},
            {**SENT, "dependentRequired": {"name": []}},
        ),
        (BASE | {"minProperties": 2}, SENT | {"minProperties": 1}),
        # A rule beside a schema hides its members there, and in no other place.
        (
            {
                "allOf": [{"properties": {"id": {"readOnly": True}}}, {"$ref": "#/$defs/R"}],
                "properties": {"other": {"$ref": "#/$defs/R"}},
                "$defs": {"R": {"required": ["id", "name"]}},
            },
            {
                "allOf": [{"properties": {}}, {"$ref": "#/$defs/R"}],
                "properties": {"other": {"$ref": "#/$defs/R_2"}},
                "$defs": {"R": {"required": ["name"]}, "R_2": {"required": ["id", "name"]}},
            },
        ),
        (
            {"properties": {"up": {"$ref": "#"}, "id": {"readOnly": True}}, "required": ["id"]},
            {"properties": {"up": {"$ref": "#"}}},
        ),
    ],
)
def test_members_that_only_come_back_are_left_out_at_any_depth(schema, expected):
    assert schema_for("request", schema) == expected
    assert schema_for("response", schema) is schema


def test_members_that_are_only_sent_are_left_out_of_an_answer():
    schema = {"properties": {"secret": {"writeOnly": True}, "name": True}, "required": ["secret"]}
    assert schema_for("response", schema) == {"properties": {"name": True}}
    assert schema_for("request", schema) is schema


def test_the_members_of_the_whole_stay_where_they_are_inputs():
    schema = {"properties": {"a": {"type": "string", "readOnly": True}, "b": BASE}, "required": ["a"]}
    writable = {"properties": {"a": {"type": "string", "readOnly": True}, "b": SENT}, "required": ["a"]}
    assert schema_for("request", schema, keeps_top_members=True) == writable


@pytest.mark.parametrize(
    ("schema", "request_schema"),
    [
        (
            {
                "properties": {"id": {"readOnly": True}, "a": True},
                "dependentSchemas": {"id": {"required": ["a"]}, "a": {"required": ["id", "a"]}},
            },
            {"properties": {"a": True}, "dependentSchemas": {"a": {"required": ["a"]}}},
        ),
        (
            {"properties": {"id": {"readOnly": True}}, "minProperties": 1},
            {"properties": {}, "minProperties": 0},
        ),
        (
            {"properties": {"id": {"readOnly": True}}, "minProperties": 0, "not": {"minProperties": 1}},
            {"properties": {}, "minProperties": 0, "not": {"minProperties": 1}},
        ),
        (
            {
                "properties": {"id": {"readOnly": True}},
                "oneOf": [{"required": ["id"], "type": "object"}, {"type": "string"}],
            },
            {"properties": {}, "oneOf": [{"type": "object"}, {"type": "string"}]},
        ),
        (
            {
                "properties": {"id": {"readOnly": True}},
                "oneOf": [{"required": ["id"]}, {"required": ["a"]}],
                "anyOf": [{"required": ["a"]}, {"title": "T"}],
            },
            {
                "properties": {},
                "anyOf": [{"required": ["a"]}, {"title": "T"}],
                "allOf": [{"anyOf": [{}, {"required": ["a"]}]}],
            },
        ),
        (
            {
                "properties": {"id": {"readOnly": True}},
                "oneOf": [{"required": ["id"]}, {"required": ["a"]}],
                "anyOf": [True, {"title": "T"}],
                "allOf": [{"title": "A"}],
            },
            {
                "properties": {},
                "anyOf": [True, {"title": "T"}],
                "allOf": [{"title": "A"}, {"anyOf": [{}, {"required": ["a"]}]}],
            },
        ),
        (
            {
                "oneOf": [
                    {"properties": {"id": {"readOnly": True}}, "required": ["id"]},
                    {"properties": {"a": True}},
                ]
            },
            {"anyOf": [{"properties": {}}, {"properties": {"a": True}}]},
        ),
        (
            {
                "properties": {"id": {"readOnly": True}},
                "not": {"$ref": "#/$defs/N"},
                "items": {"$ref": "#/$defs/N"},
                "$defs": {"N": {"required": ["id"], "properties": {"id": {"readOnly": True}}}},
            },
            {
                "properties": {},
                "not": {"$ref": "#/$defs/N"},
                "items": {"$ref": "#/$defs/N_2"},
                "$defs": {
                    "N": {"required": ["id"], "properties": {"id": {"readOnly": True}}},
                    "N_2": {"properties": {}},
                },
            },
        ),
        ({"properties": {"id": {"readOnly": True}, "b": {"$ref": "#/properties/id"}}}, {"properties": {}}),
        (
            {
                "$ref": "#/$defs/a~1b",
                "$defs": {"a/b": {"properties": {"id": {"readOnly": True}}, "required": ["id"]}},
            },
            {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"properties": {}}}},
        ),
        (
            {
                "$ref": "#/properties/x/items",
                "properties": {
                    "x": {"items": {"properties": {"id": {"readOnly": True}}, "required": ["id", "b"]}}
                },
            },
            {
                "properties": {"x": {"items": {"required": ["b"], "properties": {}}}},
                "$ref": "#/$defs/properties~1x~1items",
                "$defs": {"properties/x/items": {"required": ["b"], "properties": {}}},
            },
        ),
        (
            {
                "properties": {"id": {"readOnly": True}},
                "if": {"required": ["id"]},
                "then": {"required": ["id", "a"]},
                "else": False,
            },
            {"properties": {}, "if": {"required": ["id"]}, "then": {"required": ["a"]}, "else": False},
        ),
        (
            {
                "properties": {"id": {"allOf": [{"readOnly": True}]}, "c": {"anyOf": [{"readOnly": True}]}},
                "required": ["id", "c"],
            },
            {"properties": {}},
        ),
        (
            {"properties": {"id": {"readOnly": True}}, "dependentRequired": {"a": ["id", "b"], "id": ["a"]}},
            {"dependentRequired": {"a": ["b"]}, "properties": {}},
        ),
    ],
    ids=str,
)
def test_schema_of_a_request_to_the_letter(schema, request_schema):
    before = copy.deepcopy(schema)
    assert schema_for("request", schema) == request_schema
    assert schema == before


def test_flags_of_each_direction():
    assert has_direction("request", {"items": {"readOnly": True}})
    assert has_direction("response", {"items": {"writeOnly": True}})
    assert not has_direction("request", {"items": {"writeOnly": True, "readOnly": "true"}})
    assert not has_direction("response", True)


def test_a_schema_out_of_bounds_is_left_to_its_reader():
    schema = {"readOnly": True, "enum": [0] * 60_001}
    assert schema_for("request", schema) is schema
