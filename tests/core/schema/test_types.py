"""Types, listed values and bounds of one schema."""

import math

import pytest

from core.schema import types
from core.schema.types import Bound


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "integer"),
        (1.5, "fraction"),
        ("a", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_type_of_a_value(value, type_):
    assert types.type_of(value) == type_


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, types.EVERY_TYPE),
        ({"type": "number"}, {"integer", "fraction"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": "number", "enum": [1, "a"]}, {"integer"}),
        ({"const": 1.5}, {"fraction"}),
        ({"type": "unheard"}, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set | frozenset) else str(value),
)
def test_types_of_a_schema(schema, expected):
    assert types.types_of(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, None),
        ({"type": "string"}, None),
        ({"type": "null"}, [None]),
        ({"enum": ["a", 1, None]}, ["a", 1, None]),
        ({"type": "string", "enum": ["a", 1]}, ["a"]),
        ({"const": {"a": 1}}, [{"a": 1}]),
        ({"enum": [1, 1.0, True], "const": 1}, [1]),
        ({"enum": ["b"], "const": "a"}, []),
    ],
    ids=str,
)
def test_values_of_a_schema(schema, expected):
    assert types.values_of(schema) == expected


@pytest.mark.parametrize(
    ("schema", "lower", "upper"),
    [
        ({}, None, None),
        ({"minimum": 1, "maximum": 5}, Bound(1, False), Bound(5, False)),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 5}, Bound(1, True), Bound(5, True)),
        (
            {"minimum": 1, "exclusiveMinimum": 2, "maximum": 5, "exclusiveMaximum": 4},
            Bound(2, True),
            Bound(4, True),
        ),
        (
            {"minimum": 3, "exclusiveMinimum": 2, "maximum": 3, "exclusiveMaximum": 4},
            Bound(3, False),
            Bound(3, False),
        ),
        # The bound itself does not fit where one of the two excludes it.
        (
            {"minimum": 1, "exclusiveMinimum": 1, "maximum": 5, "exclusiveMaximum": 5},
            Bound(1, True),
            Bound(5, True),
        ),
        ({"minimum": -math.inf, "maximum": math.inf}, None, None),
        ({"minimum": True, "maximum": "5"}, None, None),
    ],
    ids=str,
)
def test_bounds_of_a_schema(schema, lower, upper):
    assert (types.lower_bound(schema), types.upper_bound(schema)) == (lower, upper)


def test_words_of_types_are_in_the_order_of_json_schema():
    assert types.words_of_types(frozenset({"string", "null", "integer"})) == ["null", "integer", "string"]
    assert types.words_of_types(types.NUMBER) == ["number"]
    assert types.words_of_types(types.EVERY_TYPE) == [word for word in types.WORDS if word != "integer"]


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [(1, 1.0, True), (1, True, False), ([1.0, {"a": 2.0}], [1, {"a": 2}], True), ("1", 1, False)],
)
def test_equal_values(one, other, are_equal):
    assert types.is_equal(one, other) is are_equal
