"""Schemas of what is only sent, or only returned."""

import pytest

from core.schema.directions import schema_for

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
