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
