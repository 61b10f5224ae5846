"""The reduced form of a schema to the letter, and the content of a document without its notation."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from core.schema import audience
from core.schema.cycles import closing_references
from core.schema.normalization import normalized
from core.schema.objects import has_object_type

READ_AT = datetime(2026, 11, 27, 12, tzinfo=UTC)


def name_of(value: object) -> str:
    """Return a digest that a person can read."""
    return json.dumps(value, sort_keys=True)


def reduced(schema, needed=()):
    return audience.canonical_schema(schema, READ_AT, name_of, needed)


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (True, True),
        ({"type": "string", "x-own": 1, "_meta": {}, "title": "T"}, {"type": "string", "title": "T"}),
        ({"x-needed": 1, "x-own": 1}, {"x-needed": 1}),
        (
            {"items": {"x-own": 1, "properties": {"x-a": {"x-own": 1}}}},
            {"items": {"properties": {"x-a": {}}}},
        ),
        ({"enum": ["b", 2, None, "a"]}, {"enum": ["a", "b", 2, None]}),
        (
            {
                "enum": ["b", "a"],
                "x-names": ["B", "A"],
                "enumNames": ["Bb", "Aa"],
                "x-map": {"a": 1},
                "x-text": "t",
            },
            {"enum": ["a", "b"], "x-names": ["A", "B"], "enumNames": ["Aa", "Bb"], "x-map": {"a": 1}},
        ),
        ({"enum": ["b", "a"], "x-names": ["B"]}, {"enum": ["b", "a"], "x-names": ["B"]}),
        ({"enum": "no list", "x-names": ["B"]}, {"enum": "no list"}),
        ({"dependentRequired": {"a": ["c", "b"], "d": 1}}, {"dependentRequired": {"a": ["b", "c"], "d": 1}}),
        ({"dependencies": {"a": ["c", "b"], "d": {}}}, {"dependencies": {"a": ["b", "c"], "d": {}}}),
        ({"required": ["b", "a"]}, {"required": ["b", "a"]}),
        (
            {"anyOf": [{"type": "null"}, {"const": 1}, {"enum": [0]}]},
            {"anyOf": [{"const": 1}, {"enum": [0]}, {"type": "null"}]},
        ),
        ({"oneOf": [{"const": "b"}, {"const": "a"}]}, {"oneOf": [{"const": "a"}, {"const": "b"}]}),
        ({"anyOf": [{"type": "null"}, {"type": "array"}]}, {"anyOf": [{"type": "null"}, {"type": "array"}]}),
        ({"anyOf": [{"const": 2}, True, {"const": 1}]}, {"anyOf": [{"const": 2}, True, {"const": 1}]}),
        ({"allOf": [{"const": 2}, {"const": 1}]}, {"allOf": [{"const": 2}, {"const": 1}]}),
        ({"$defs": {}, "definitions": {}, "type": "null"}, {"type": "null"}),
        ({"$defs": {"A": {"type": "null"}}, "title": "T"}, {"title": "T"}),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"const": 1}, "B": {}}},
            {"$ref": ["definition", '{"const": 1}'], "$defs": [('{"const": 1}', {"const": 1})]},
        ),
        (
            {"$ref": "#/definitions/A/items/x", "definitions": {"A": {"items": {"x": {}}}}},
            {
                "$ref": ["definition", '{"items": {"x": {}}}', "items", "x"],
                "$defs": [('{"items": {"x": {}}}', {"items": {"x": {}}})],
            },
        ),
        ({"$ref": "#/gone", "$defs": {"A": {}}}, {"$ref": "#/gone"}),
        ({"$ref": "other", "$defs": {"A": {}}}, {"$ref": "other"}),
        (
            {"$ref": "other", "discriminator": {}, "$defs": {"A": {}}},
            {"$ref": "other", "discriminator": {}, "$defs": {"A": {}}},
        ),
        ({"$anchor": "a", "items": {"$ref": "#a"}}, {"items": {"$ref": "#"}}),
        ({"$anchor": "a", "items": {"$ref": "#gone"}}, {"$anchor": "a", "items": {"$ref": "#gone"}}),
        (
            {"default": "2026-11-27T10:00:00Z", "example": 1795730000, "examples": ["2026-11-27", "old"]},
            {
                "default": {"$moment": "0-0-0T0:0:0Z"},
                "example": {"$moment": "int"},
                "examples": [{"$moment": "0-0-0"}, "old"],
            },
        ),
        (
            {"default": {"at": 1795730000.5, "x-own": ["2026-11-27"]}, "const": "2026-11-27"},
            {"default": {"at": {"$moment": "float"}, "x-own": [{"$moment": "0-0-0"}]}, "const": "2026-11-27"},
        ),
    ],
    ids=str,
)
def test_reduced_form(schema, form):
    assert reduced(schema, {"x-needed"}) == form


def test_moments_stay_where_no_reading_is_stated():
    schema = {"default": "2026-11-27T10:00:00Z"}
    assert audience.canonical_schema(schema, None, name_of) == schema


def test_a_definition_that_another_one_uses_stays():
    schema = {
        "items": {"$ref": "#/$defs/A"},
        "$defs": {"A": {"not": {"$ref": "#/$defs/B/items"}}, "B": {"items": {"const": 1}}, "C": {"const": 2}},
    }
    form = reduced(schema)
    assert len(form["$defs"]) == 2
    assert [part for _, part in form["$defs"] if "items" in part] == [{"items": {"const": 1}}]
    (name,) = [name for name, part in form["$defs"] if "not" in part]
    assert form["items"] == {"$ref": ["definition", name]}


@pytest.mark.parametrize(
    ("value", "needed", "remaining"),
    [
        ({"a": 1, "x-b": 2, "_meta": 3, "x": 4}, (), {"a": 1, "x": 4}),
        ({"a": 1, "x-b": 2, "_meta": 3}, ("x-b", "_meta"), {"a": 1, "x-b": 2, "_meta": 3}),
        (["x-a"], (), ["x-a"]),
    ],
)
def test_members_for_programs_of_the_vendors_choice(value, needed, remaining):
    assert audience.without_extensions(value, needed) == remaining


@pytest.mark.parametrize(
    ("days", "is_near"), [(31, True), (-31, True), (31.001, False), (-31.001, False), (0, True)]
)
def test_a_moment_is_near_within_a_month(days, is_near):
    moment = READ_AT + timedelta(days=days)
    assert audience.is_near(moment.isoformat(), READ_AT) is is_near
    assert audience.is_near(moment.timestamp(), READ_AT) is is_near
    assert audience.is_near(int(moment.timestamp() * 1_000), READ_AT) is is_near
    assert audience.is_near(str(int(moment.timestamp() * 1_000_000)), READ_AT) is is_near


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (7.0, 7),
        (7.5, 7.5),
        ({"a": None, "b": 1}, {"b": 1}),
        (
            {"default": None, "const": None, "a": {"value": None}},
            {"default": None, "const": None, "a": {"value": None}},
        ),
        ({"default": {"a": None, "required": ["b", "a"]}}, {"default": {"a": None, "required": ["b", "a"]}}),
        (
            {"required": ["b", "a", "b"], "type": ["string", "null"]},
            {"required": ["a", "b"], "type": ["null", "string"]},
        ),
        ({"required": ["b", 1.0]}, {"required": ["b", 1]}),
        ({"enum": ["b", "a", 2.0]}, {"enum": ["b", "a", 2]}),
        ([{"a": None}, [1.0]], [{}, [1]]),
        ({"examples": [{"a": None}]}, {"examples": [{"a": None}]}),
        ("text", "text"),
    ],
    ids=str,
)
def test_content_without_its_notation(value, content):
    assert repr(normalized(value)) == repr(content)


@pytest.mark.parametrize(
    ("schema", "is_object"),
    [
        ({"type": "object"}, True),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, True),
        ({"allOf": [{"type": ["object", "null"]}, {"type": "object"}]}, True),
        ({"type": ["object", "null"]}, False),
        ({"properties": {}}, False),
        ({"type": "object", "enum": [0] * 60_001}, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_schema_of_an_object(schema, is_object):
    assert has_object_type(schema) is is_object


@pytest.mark.parametrize(
    ("edges", "closing"),
    [
        ({"a": ["b"], "b": []}, []),
        ({"a": ["a"]}, ["a"]),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, ["c"]),
        ({"a": ["b", "c"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["b", "a"]}, ["b"]),
        ({"a": ["a", "b"], "b": ["b"]}, ["a", "b"]),
        ({"a": ["b"], "b": ["a"], "c": ["a"]}, ["b"]),
    ],
)
def test_references_that_close_a_cycle(edges, closing):
    schemas = {name: {"title": name} for name in edges}

    def paths_of(schema):
        return ((True, schemas[target]) for target in edges[schema["title"]])

    assert [schema["title"] for schema in closing_references(schemas.values(), paths_of)] == closing


def test_a_cycle_is_closed_by_its_last_reference():
    outer, inner = {"title": "outer"}, {"title": "inner"}
    paths = {"outer": [(True, inner)], "inner": [(False, outer), (False, True)]}
    assert list(closing_references([outer], lambda schema: iter(paths[schema["title"]]))) == [outer]
