"""Names that a schema neither describes nor refuses are reported with the name that they resemble."""

import pytest

from core.schema import read_document
from core.schema import unknown_names as subject
from core.schema.unknown_names import UnknownName, unknown_names

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "country": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (CITY, {"city": "Basel"}, []),
        (CITY, {"citty": "Basel"}, [UnknownName(("citty",), "city")]),
        (CITY, {"zzz": 1}, [UnknownName(("zzz",))]),
        ({"type": "object"}, {"anything": 1}, []),
        (CITY | {"additionalProperties": True}, {"zzz": 1}, []),
        (CITY | {"additionalProperties": {"type": "string"}}, {"zzz": 1}, []),
        (CITY | {"additionalProperties": {"type": "string"}}, {"countrys": 1}, ["country"]),
        (CITY | {"patternProperties": {"^x-": {}}}, {"zzz": 1}, []),
        ({"properties": {"a": CITY}}, {"a": {"citty": 1}}, [UnknownName(("a", "citty"), "city")]),
        ({"properties": {"a": {"items": CITY}}}, {"a": [{}, {"citty": 1}]}, [("a", 1, "citty")]),
        ({"allOf": [CITY, {"properties": {"street": {}}}]}, {"street": 1, "citty": 1}, [("citty",)]),
        ({"anyOf": [CITY, {"properties": {"street": {}}}]}, {"street": 1, "city": 1}, []),
        ({"$ref": "#/$defs/City", "$defs": {"City": CITY}}, {"citty": 1}, [("citty",)]),
        ({"$ref": "#city", "$defs": {"City": CITY | {"$anchor": "city"}}}, {"citty": 1}, [("citty",)]),
        ({"if": {"required": ["a"]}, "then": CITY}, {"a": 1, "citty": 1}, [("citty",)]),
        ({"items": [CITY], "additionalItems": CITY}, [{"city": 1}, {"citty": 1}], [(1, "citty")]),
        (CITY, ["citty"], []),
        (CITY, "citty", []),
        (CITY, {"Ci ty": 1}, [UnknownName(("Ci ty",), "city")]),
        (CITY, {"CITY": 1}, [UnknownName(("CITY",), "city")]),
        # A name in use is no proposal.
        (CITY, {"city": 1, "citi": 1}, [UnknownName(("citi",))]),
        ({"properties": {"max_rows": {}}}, {"maxRows": 1}, [UnknownName(("maxRows",), "max_rows")]),
        # Names without letters and digits are compared as they are.
        ({"properties": {"_": {}, "$$": {}}}, {"$$$": 1}, [UnknownName(("$$$",), "$$")]),
        ({"properties": {"a_b": {}, "ab": {}}}, {"a-b": 1}, [UnknownName(("a-b",), "a_b")]),
        ({"required": ["city"]}, {"citty": 1}, [UnknownName(("citty",), "city")]),
        (CITY | {"unevaluatedProperties": {}}, {"zzz": 1}, []),
        (CITY | {"propertyNames": {"minLength": 1}}, {"zzz": 1}, []),
        (CITY | {"additionalProperties": True}, {"citty": 1}, [UnknownName(("citty",), "city")]),
        # As alike as 0.6 and more; in a map of any names as 0.8 and more.
        ({"properties": {"abcde": {}}}, {"abczz": 1}, [UnknownName(("abczz",), "abcde")]),
        ({"properties": {"abcde": {}}}, {"abzzz": 1}, [UnknownName(("abzzz",))]),
        (
            {"properties": {"abcde": {}}, "additionalProperties": {}},
            {"abcdz": 1},
            [UnknownName(("abcdz",), "abcde")],
        ),
        ({"properties": {"abcde": {}}, "additionalProperties": {}}, {"abczz": 1}, []),
        ({"if": {"properties": {"a": {}}}, "properties": {"b": {}}}, {"a": 1, "b": 1}, []),
        ({"properties": {"a": CITY}}, {"b": {"citty": 1}}, [UnknownName(("b",), "")]),
        ({"properties": {"a": CITY, "b": CITY}}, {"b": {"z": 1}, "a": {"y": 1}}, [("b", "z"), ("a", "y")]),
    ],
    ids=str,
)
def test_unknown_names(schema, value, expected):
    unknown = unknown_names(read_document(schema), value)
    if expected and isinstance(expected[0], tuple) and not isinstance(expected[0], UnknownName):
        assert [unknown_name.path for unknown_name in unknown] == expected
    elif expected and isinstance(expected[0], str):
        assert [unknown_name.proposal for unknown_name in unknown] == expected
    else:
        assert unknown == expected


def test_the_first_ten_are_reported_in_the_order_of_the_value():
    value = {f"zzz{number}": number for number in range(30)}
    assert [unknown_name.path for unknown_name in unknown_names(read_document(CITY), value)] == [
        (f"zzz{number}",) for number in range(10)
    ]


def test_search_ends_after_many_objects(monkeypatch):
    monkeypatch.setattr(subject, "MAX_OBJECTS", 3)
    value = [{"citty": number} for number in range(5)]
    assert len(unknown_names(read_document({"items": CITY}), value)) == 2


def test_search_ends_after_many_schemas(monkeypatch):
    monkeypatch.setattr(subject, "MAX_SCHEMAS", 2)
    branches = [{"properties": {name: {}}} for name in ("city", "town", "village")]
    unknown = unknown_names(read_document({"anyOf": branches}), {"town": 1, "city": 1})
    assert [unknown_name.path for unknown_name in unknown] == [("town",)]
