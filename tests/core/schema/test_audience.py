from datetime import UTC, datetime

import pytest

from core.canonical_json import digest
from core.schema import audience

A = {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}
B = {"type": "string", "minLength": 1}


def same(one, other) -> bool:
    forms = [digest(audience.canonical_schema(document, None, digest)) for document in (one, other)]
    return forms[0] == forms[1]


def using(name, **definitions):
    return {"properties": {"a": {"$ref": f"#/$defs/{name}"}}, "$defs": definitions}


def pair(name, kind, other):
    return {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{other}"}, "kind": {"const": kind}}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (using("B", B=B), using("X", X=B)),
        (using("A", A=A, B=B), using("Q", Q={**A, "properties": {"b": {"$ref": "#/$defs/P"}}}, P=B)),
        (
            using("A", A=pair("A", "a", "B"), B=pair("B", "b", "A")),
            using("Y", X=pair("X", "b", "Y"), Y=pair("Y", "a", "X")),
        ),
        (using("a~1b", **{"a/b": B}), using("c", c=B)),
        (using("a%20b", **{"a b": B}), using("c", c=B)),
        (
            {"items": {"$defs": {"X": B}, "$ref": "#/items/$defs/X"}},
            {"items": {"$defs": {"Y": B}, "$ref": "#/items/$defs/Y"}},
        ),
        (
            {"definitions": {"X": B}, "$ref": "#/definitions/X"},
            {"definitions": {"Y": B}, "$ref": "#/definitions/Y"},
        ),
        ({"definitions": {"X": B}, "$ref": "#/definitions/X"}, {"$defs": {"Y": B}, "$ref": "#/$defs/Y"}),
        (
            using("A", A=A, B=B),
            {
                "properties": {"a": {"$ref": "#/definitions/A"}},
                "definitions": {"A": {**A, "properties": {"b": {"$ref": "#/$defs/B"}}}},
                "$defs": {"B": B},
            },
        ),
        (
            {"items": {"definitions": {"X": B}, "$ref": "#/items/definitions/X"}},
            {"items": {"$defs": {"X": B}, "$ref": "#/items/$defs/X"}},
        ),
    ],
)
def test_names_of_definitions_mean_nothing(one, other):
    assert same(one, other)


CONSTANTS = [{"const": "a", "title": "A"}, {"const": "b"}, {"type": "null"}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"anyOf": CONSTANTS}, {"anyOf": CONSTANTS[::-1]}),
        ({"items": {"oneOf": CONSTANTS}}, {"items": {"oneOf": CONSTANTS[::-1]}}),
        ({"anyOf": [{"enum": ["a", "b"]}, {"const": 1}]}, {"anyOf": [{"const": 1}, {"enum": ["b", "a"]}]}),
        ({"dependentRequired": {"a": ["b", "c"]}}, {"dependentRequired": {"a": ["c", "b"]}}),
        ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["c", "b"]}}),
        (using("B", B=B), using("B", B=B, unused=A)),
        ({"type": "string"}, {"type": "string", "$defs": {"one": A, "two": {"$ref": "#/$defs/one"}}}),
        (
            {"$ref": "#x", "$defs": {"A": {**B, "$anchor": "x"}}},
            {"$ref": "#y", "$defs": {"A": {**B, "$anchor": "y"}}},
        ),
        ({"$ref": "#x", "$defs": {"A": {**B, "$anchor": "x"}}}, {"$ref": "#/$defs/B", "$defs": {"B": B}}),
        ({"type": "string", "$anchor": "x"}, {"type": "string"}),
        (
            {"$dynamicRef": "#x", "$defs": {"A": {**B, "$dynamicAnchor": "x"}}},
            {"$dynamicRef": "#y", "$defs": {"B": {**B, "$dynamicAnchor": "y"}}},
        ),
    ],
)
def test_order_that_no_reader_sees_and_names_that_nothing_refers_to_mean_nothing(one, other):
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (using("B", B=B), using("B", B={**B, "minLength": 2})),
        (using("B", A=A, B=B), using("A", A=A, B=B)),
        ({"definitions": {"X": B}, "$ref": "#/definitions/X"}, using("X", X=B)),
        (
            {"definitions": {"X": B}, "$defs": {"X": A, "B": B}, "$ref": "#/definitions/X"},
            {"definitions": {"X": B}, "$defs": {"X": A, "B": B}, "$ref": "#/$defs/X"},
        ),
        (
            using("A", A=pair("A", "a", "B"), B=pair("B", "b", "A")),
            using("B", A=pair("A", "a", "B"), B=pair("B", "b", "A")),
        ),
        (
            {"enum": ["$ref"], "default": {"$ref": "#/$defs/A"}},
            {"enum": ["$ref"], "default": {"$ref": "#/$defs/B"}},
        ),
        (using("B", B=B) | {"discriminator": {}}, using("X", X=B) | {"discriminator": {}}),
        (
            {"enum": ["a", "b"], "enumNames": ["Safe", "Wipe"]},
            {"enum": ["b", "a"], "enumNames": ["Safe", "Wipe"]},
        ),
        ({"enum": ["a"], "x-enum": ["A"]}, {"enum": ["a"], "x-enum": ["B"]}),
        ({"properties": {"a": B, "c": A}}, {"properties": {"a": A, "c": B}}),
        ({"enum": [1]}, {"enum": [True]}),
        ({"anyOf": CONSTANTS}, {"anyOf": CONSTANTS[:2]}),
        ({"anyOf": [A, B]}, {"anyOf": [B, A]}),
        ({"dependentRequired": {"a": ["b", "c"]}}, {"dependentRequired": {"a": ["b"]}}),
        (
            {"$ref": "#x", "$defs": {"A": {**B, "$anchor": "x"}}},
            {"$ref": "#y", "$defs": {"A": {**B, "$anchor": "x"}}},
        ),
        ({"const": ["a", "b"]}, {"const": ["b", "a"]}),
    ],
)
def test_what_a_name_leads_to_does(one, other):
    assert not same(one, other)


def test_many_definitions_are_not_renamed_without_end():
    many = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)}
    schema = {"$ref": "#/$defs/d0", "$defs": many}
    assert audience.canonical_names(schema, digest) is schema


@pytest.mark.parametrize(
    "value",
    [
        *("2026-11-26T22:00:00Z", "2026-11-26 22:00:00 UTC", "2026/11/26", "20261126", "20261126T220000Z"),
        *("Thu, 26 Nov 2026 22:00:00 GMT", "Thu Nov 26 22:00:00 2026", "2026-11-26T22:00:00.5+01:00"),
        *("1795730000", 1795730000, 1795730000123, 1795730000.5, "2026-12-27"),
    ],
)
def test_moments_near_the_reading_are_recognised(value):
    assert audience.is_near(value, datetime(2026, 11, 27, tzinfo=UTC))


@pytest.mark.parametrize(
    "value",
    [
        *("2026-10-26T22:00:00Z", "2027-01-01", "today", "", "22:00", 5, 17957300, True, None, "10.11.12.13"),
        *("9" * 400, 1e300, "2026-13-45", "99999999"),
    ],
)
def test_other_values_are_no_moment_near_the_reading(value):
    assert not audience.is_near(value, datetime(2026, 11, 27, tzinfo=UTC))
