"""Limits of size, depth and work: the last value inside each, and the first outside."""

import pytest

from core.schema import bounds, complexity
from core.schema.bounds import MAX_DEPTH, MAX_ENTRIES, MAX_PARTS, SchemaBoundsError
from core.schema.complexity import TooComplexError, require_bounded, unbounded
from core.schema.work import TooMuchWorkError, Work


@pytest.mark.parametrize(
    "schema",
    [
        True,
        "text",
        {},
        {"x": [{}] * (MAX_PARTS - 2)},
        {"enum": [0] * (MAX_ENTRIES - 1)},
        {"a": {str(number): 0 for number in range(MAX_ENTRIES - 1)}},
    ],
    ids=lambda value: str(value)[:20],
)
def test_schema_within_bounds(schema):
    bounds.require_bounds(schema)


@pytest.mark.parametrize(
    ("schema", "code", "limit", "counted"),
    [
        ({"x": [{}] * (MAX_PARTS - 1)}, "SCHEMA_TOO_BIG", 20_000, "parts"),
        ({"enum": [0] * MAX_ENTRIES}, "SCHEMA_TOO_BIG", 60_000, "members and list entries"),
        ([0] * (MAX_ENTRIES + 1), "SCHEMA_TOO_BIG", 60_000, "members and list entries"),
        ({str(number): 0 for number in range(60_001)}, "SCHEMA_TOO_BIG", 60_000, "members and list entries"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_schema_that_is_too_big(schema, code, limit, counted):
    with pytest.raises(SchemaBoundsError) as error:
        bounds.require_bounds(schema)
    assert (error.value.code, error.value.limit, error.value.counted) == (code, limit, counted)
    assert str(error.value) == code


def test_schema_that_is_too_deep():
    deepest: list = []
    for _ in range(MAX_DEPTH - 2):
        deepest = [deepest]
    bounds.require_bounds({"x": deepest})
    with pytest.raises(SchemaBoundsError) as error:
        bounds.require_bounds({"x": [deepest]})
    assert (error.value.code, error.value.limit, error.value.counted) == ("SCHEMA_TOO_DEEP", 64, "levels")


@pytest.mark.parametrize(
    ("schema", "parts"), [(True, 0), ({}, 1), ([], 1), ({"a": [1, {}, "b"], "c": {"d": {}}}, 5)]
)
def test_objects_and_arrays_are_counted(schema, parts):
    assert bounds.count_parts(schema) == parts


def test_work_ends_above_its_limit():
    work = Work(5)
    work.count()
    work.count(4)
    assert work.done == 5
    with pytest.raises(TooMuchWorkError, match=r"^More than 5 units of work\.$"):
        work.count()
    assert work.done == 6


LEAF = {"type": "string"}


# How many schemas may apply to one part of a value, which the first number nests so deep.
@pytest.mark.parametrize(
    ("depth", "schema", "most"),
    [
        (2, True, 1),
        (2, {}, 1),
        (0, {"properties": {"a": {"allOf": [{}, {}, {}]}}}, 1),
        (1, {"properties": {"a": {"allOf": [{}, {}, {}]}}}, 4),
        (1, {"properties": {"a": {}, "b": {"allOf": [{}]}}}, 2),
        (1, {"additionalProperties": {"allOf": [{}]}, "properties": {"a": {}}}, 2),
        (1, {"unevaluatedProperties": {"allOf": [{}]}}, 6),
        (1, {"properties": {"a": {}}, "patternProperties": {"a": {}, "b": {"not": {}}}}, 4),
        (1, {"properties": {"a": True}, "patternProperties": {"a": True}}, 1),
        (1, {"items": {"allOf": [{}]}}, 2),
        (1, {"items": [{}, {"allOf": [{}]}], "additionalItems": {}}, 2),
        (1, {"additionalItems": {"allOf": [{}]}}, 2),
        (1, {"unevaluatedItems": {}}, 3),
        (1, {"prefixItems": [{}, {"not": {}}], "items": {}}, 2),
        (1, {"items": {"not": {}}, "contains": {"not": {}}}, 4),
        (1, {"contains": {}}, 1),
        (
            0,
            {
                "allOf": [{}, {"anyOf": [{}, True]}],
                "oneOf": [{}],
                "not": {},
                "if": {},
                "then": {},
                "else": {},
            },
            10,
        ),
        (0, {"dependentSchemas": {"a": {}}, "dependencies": {"b": {}, "c": ["d"]}}, 4),
        (0, {"allOf": [{}], "unevaluatedItems": False}, 6),
        (0, {"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{}, {}]}, "B": {"allOf": [{}] * 9}}}, 4),
        (1, {"$ref": "#/$defs/A", "items": LEAF, "$defs": {"A": {"items": {"not": {}}}}}, 3),
        (3, {"properties": {"a": {"$ref": "#"}}}, 2),
        (2, {"properties": {"a": {"$ref": "#"}}, "allOf": [{"properties": {"a": {"$ref": "#"}}}]}, 12),
        (9, {"propertyNames": {"allOf": [{}]}}, 1),
    ],
    ids=str,
)
def test_most_schemas_that_apply_to_one_part(depth, schema, most):
    assert require_bounded(schema, depth) == most


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/gone"},
        {"allOf": [{}] * complexity.MAX_MEETING},
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_schema_without_a_bound(schema):
    with pytest.raises(TooComplexError):
        require_bounded(schema, 3)


def test_the_last_number_of_schemas_that_may_meet():
    assert require_bounded({"allOf": [{}] * (complexity.MAX_MEETING - 1)}, 3) == 10_000


def test_parts_without_a_bound_are_named():
    document = {
        "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}},
        "properties": {
            "first": {"$ref": "#/$defs/A"},
            "second": LEAF,
            "third": {"items": {"$ref": "#/$defs/A"}},
            "fourth": {"$ref": "#/$defs/gone"},
            "fifth": True,
        },
    }
    properties = document["properties"]
    assert list(unbounded(document, properties, 2)) == ["first", "third", "fourth"]
    assert list(unbounded(document, properties, 0)) == ["first", "fourth"]


def test_counting_ends_after_many_steps(monkeypatch):
    monkeypatch.setattr(complexity, "MAX_STEPS", 3)
    assert require_bounded({"allOf": [{}, {}]}, 0) == 3
    with pytest.raises(TooComplexError):
        require_bounded({"allOf": [{}, {}, {}]}, 0)
