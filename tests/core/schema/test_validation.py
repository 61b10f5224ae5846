"""The faults of a value with their words, the rules that are not checked, and what is cached."""

import math

import pytest

from core.schema import error_messages, validation
from core.schema.validation import Fault, checked, faults


def faults_of(schema, value):
    return faults(checked(schema), value)


@pytest.mark.parametrize(
    ("schema", "value", "why", "keyword"),
    [
        ({"type": "string"}, 1, "must be text", "type"),
        ({"type": "integer"}, "a", "must be a whole number", "type"),
        ({"type": "number"}, "a", "must be a number", "type"),
        ({"type": "boolean"}, "a", "must be true or false", "type"),
        ({"type": "object"}, "a", "must be an object", "type"),
        ({"type": "array"}, "a", "must be a list", "type"),
        ({"type": "null"}, "a", "must be null", "type"),
        ({"type": ["null", "string"]}, 1, "must be text", "type"),
        ({"type": ["integer", "string"]}, True, "must be text or a whole number", "type"),
        ({"const": None}, 1, "must be null", "const"),
        ({"enum": ["a", "b"]}, 1, "must be one of a, b", "enum"),
        ({"enum": ["a", None, 1]}, 2, "must be one of “a”, null, 1", "enum"),
        (
            {"enum": [f"v{number}" for number in range(22)]},
            "z",
            "must be one of " + ", ".join(f"v{number}" for number in range(20)) + ", …",
            "enum",
        ),
        (
            {"enum": [f"v{number}" for number in range(20)]},
            "z",
            "must be one of " + ", ".join(f"v{number}" for number in range(20)),
            "enum",
        ),
        ({"minimum": 2}, 1, "must be at least 2", "minimum"),
        ({"maximum": 2}, 3, "must be at most 2", "maximum"),
        ({"exclusiveMinimum": 2}, 2, "must be more than 2", "exclusiveMinimum"),
        ({"exclusiveMaximum": 2}, 2, "must be less than 2", "exclusiveMaximum"),
        ({"multipleOf": 3}, 2, "must be a multiple of 3", "multipleOf"),
        ({"minLength": 1}, "", "must have at least 1 character", "minLength"),
        ({"minLength": 2}, "", "must have at least 2 characters", "minLength"),
        ({"maxLength": 1}, "ab", "must not be longer than 1 character", "maxLength"),
        ({"maxLength": 2}, "abc", "must not be longer than 2 characters", "maxLength"),
        ({"minItems": 1}, [], "must have at least 1 entry", "minItems"),
        ({"minItems": 2}, [], "must have at least 2 entries", "minItems"),
        ({"maxItems": 1}, [1, 2], "must not have more than 1 entry", "maxItems"),
        ({"maxItems": 0}, [1], "must not have more than 0 entries", "maxItems"),
        ({"minProperties": 1}, {}, "must have at least 1 member", "minProperties"),
        ({"minProperties": 2}, {}, "must have at least 2 members", "minProperties"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "must not have more than 1 member", "maxProperties"),
        ({"maxProperties": 0}, {"a": 1}, "must not have more than 0 members", "maxProperties"),
        ({"uniqueItems": True}, [1, 1], "must not hold the same entry twice", "uniqueItems"),
        ({"contains": {"const": 1}}, [2], "has no entry that fits what the vendor asks for", "contains"),
        ({"pattern": "^a"}, "b", "must match the pattern ^a", "pattern"),
        (
            {"propertyNames": {"minLength": 2}},
            {"a": 1},
            "has a member whose name is not allowed",
            "propertyNames",
        ),
        ({"not": {"const": 1}}, 1, "is excluded by the vendor", "not"),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            3,
            "fits more than one of the forms of which the vendor takes one",
            "oneOf",
        ),
        *(
            ({"format": name}, "?", f"must be {words}", "format")
            for name, words in error_messages.FORMATS.items()
            if name != "hostname"
        ),
        ({"format": "json-pointer"}, "a", "must be of the form “json-pointer”", "format"),
        # Alternatives.
        ({"anyOf": [{"type": "string"}, {"type": ["null", "array"]}]}, 1, "must be text or a list", ""),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 1, "must be at least 5", "minimum"),
        ({"oneOf": [{"minimum": 5}, {"minimum": 6}]}, 1, "fits none of the forms that the vendor takes", ""),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, {}, "lacks a or b and c", ""),
        ({"anyOf": [{"required": ["a"]}, {"required": ["a"]}]}, {}, "lacks a", ""),
        (
            {"anyOf": [{"required": ["a"]}, {"minProperties": 2}]},
            {},
            "fits none of the forms that the vendor takes",
            "",
        ),
    ],
    ids=str,
)
def test_a_fault_in_words(schema, value, why, keyword):
    assert faults_of({"properties": {"m": schema}}, {"m": value}) == [Fault(("m",), why, keyword)]


def test_all_faults_have_their_paths():
    schema = {
        "properties": {
            "a": {"items": {"type": "string"}},
            "b": {"properties": {"c": False}, "required": ["d"], "additionalProperties": False},
        },
        "unevaluatedProperties": False,
    }
    assert sorted(faults_of(schema, {"a": ["x", 1], "b": {"c": 1, "e": 2}, "f": 3}), key=repr) == sorted(
        [
            Fault(("a", 1), "must be text", "type"),
            Fault(("b", "c"), "must not be given", "falseSchema"),
            Fault(("b", "d"), "is required"),
            Fault(("b", "e"), "is not known here"),
            Fault(("f",), "is not known here"),
        ],
        key=repr,
    )


def test_the_first_fifty_faults_are_listed():
    assert len(faults_of({"items": {"type": "string"}}, list(range(60)))) == 50


@pytest.mark.parametrize(
    ("path", "place"),
    [((), ""), (("a",), "a"), (("a", "b", 2), "a.b[2]"), ((0, 1), "[0][1]"), ((0, "a"), "[0].a")],
)
def test_place_of_a_value(path, place):
    assert error_messages.place(path) == place


@pytest.mark.parametrize(
    ("schema", "left_out"),
    [
        ({"type": "string"}, []),
        ({"properties": {"a": {"$ref": "#/gone"}}}, ["“#/gone”"]),
        ({"type": "text"}, ["“type”"]),
        ({"properties": {"a": {"minLength": -1}}}, ["“minLength” of “a”"]),
        ({"properties": {"a": {"items": {"pattern": "("}}}}, ["“pattern” of “a”"]),
        ({"pattern": "("}, ["“pattern”"]),
        ({"patternProperties": {"(": {}}}, ["“(” of “patternProperties”"]),
        ({"allOf": [{"pattern": f"^{number}"} for number in range(100)]}, []),
        ({"allOf": [{"pattern": f"^{number}"} for number in range(101)]}, ["most patterns"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_rules_that_are_not_checked(schema, left_out):
    ready = checked(schema)
    assert ready.validator is not None
    assert ready.left_out == left_out


def remark_with(*names):
    return validation.CompiledSchema(True, checked({}).validator, list(names)).remark


def test_remark_names_three_rules():
    assert remark_with() == ""
    start = "Pegboard cannot check all rules of the vendor, so only the vendor validates "
    assert remark_with("a") == start + "a."
    assert remark_with("a", "b", "c") == start + "a, b, c."
    assert remark_with("a", "b", "c", "d") == start + "a, b, c, …."
    assert validation.CompiledSchema(True, None).remark == (
        "Pegboard cannot check the vendor's schema, so only the vendor validates these inputs."
    )


def test_left_out_rules_refuse_nothing():
    schema = {
        "type": "text",
        "not": {"required": ["a"]},
        "patternProperties": {"^x": True},
        "additionalProperties": False,
        "oneOf": [{"minProperties": 1}, {"minProperties": 2}],
        "allOf": [{"maxProperties": 3}],
        "unevaluatedProperties": False,
    }
    ready = checked(schema)
    assert ready.schema == {
        "patternProperties": {"^x": True},
        "properties": {},
        "allOf": [{"maxProperties": 3}, {"anyOf": [{"minProperties": 1}, {"minProperties": 2}]}],
    }
    assert faults(ready, {"a": 1, "b": 2}) == []


def test_texts_are_left_out_and_closed_objects_have_properties():
    schema = {"title": "T", "description": "D", "$comment": "C", "examples": [1], "default": 1}
    assert checked(schema | {"additionalProperties": False}).schema == {
        "default": 1,
        "additionalProperties": False,
        "properties": {},
    }


def test_compiled_schemas_are_cached(monkeypatch):
    monkeypatch.setattr(validation, "_compiled", type(validation._compiled)())
    first = checked({"const": "first"})
    assert checked({"const": "first"}) is first
    (digest,) = validation._compiled
    assert validation.compiled(digest) is first
    assert validation.compiled("0" * 64) is None
    size = len('{"const":"first"}')
    assert validation._compiled[digest] == (size, first)
    monkeypatch.setattr(validation, "MAX_COMPILED_BYTES", 2 * size + 5)
    second = checked({"const": "other"})
    assert checked({"const": "first"}) is first
    # The one that was used longest ago makes room.
    third = checked({"const": "third"})
    assert checked({"const": "third"}) is third
    assert checked({"const": "first"}) is first
    assert checked({"const": "other"}) is not second


@pytest.mark.parametrize(
    ("schema", "is_valid"),
    [
        ({"type": "string"}, True),
        (True, True),
        ({"type": "text"}, False),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True, "minimum": 1},
            True,
        ),
        ({"exclusiveMinimum": True}, False),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "minLength": -1}, False),
        ({"$schema": "https://a.example/own", "minLength": 1}, True),
    ],
)
def test_schema_of_its_dialect(schema, is_valid):
    assert validation.is_schema(schema) is is_valid
    assert (validation.schema_fault(schema) is None) is is_valid


def test_fault_of_a_schema():
    assert validation.schema_fault({"minLength": -1}) == Fault(
        ("minLength",), "must be at least 0", "minimum"
    )


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "is_large"),
    [
        (1, False),
        (nested(64), False),
        (nested(65), True),
        ([0] * 19_999, False),
        ([0] * 20_000, True),
        ({"a": [0] * 19_998}, False),
        ({"a": [0] * 19_999}, True),
    ],
    ids=lambda value: str(value)[:20],
)
def test_value_that_is_too_large(value, is_large):
    assert validation.is_too_large(value) is is_large
    assert (validation.faults_or_too_large(checked({"not": {}}), value) is None) is is_large
    assert (validation.count_judgements(checked({}), value) == 0) is is_large


def test_judgements_are_the_parts_of_a_value_times_the_cost_of_its_schema():
    ready = checked({"properties": {"a": {"allOf": [{"minLength": 1}, {"minLength": 2}]}}})
    assert ready.cost_at(1) == 3
    assert validation.count_judgements(ready, {"a": 1}) == 6
    assert validation.count_judgements(ready, {"a": "x" * 200}) == 9
    assert validation.count_judgements(checked({}), 5) == 1
    assert validation.count_judgements(checked({}), {"a": [1, 2], "b": {"c": 3}}) == 6
    assert validation.count_judgements(validation.CompiledSchema({}, None), 5) == 0
    assert validation.CompiledSchema({"$ref": "#"}, None).cost_at(3) == math.inf


def test_many_judgements_are_made_without_an_explanation(monkeypatch):
    ready = checked({"items": {"type": "string"}})
    monkeypatch.setattr(validation, "MAX_EXPLAINED", 3)
    assert faults(ready, [1]) == [Fault((0,), "must be text", "type")]
    assert faults(ready, [1, 2, 3]) == [Fault((), "does not fit the vendor's schema")]
    assert faults(ready, ["a", "b", "c"]) == []
    monkeypatch.setattr(validation, "MAX_JUDGED", 3)
    assert faults(ready, [1, 2, 3]) == []
    assert validation.count_judgements(ready, [1, 2, 3]) == 0
    assert validation.count_judgements(ready, [1, 2]) == 3


def test_levels_of_a_compiled_schema_are_cached():
    ready = checked({"const": "a level"})
    assert ready.document is ready.document
    assert ready.document.root is ready.schema
    before = ready.document
    ready.schema = {"const": 2}
    assert ready.document is not before
    assert ready.document.root == {"const": 2}


@pytest.mark.parametrize(
    "schema",
    [
        {"dependentRequired": {f"p{n}": [f"p{m}" for m in range(200)] for n in range(190)}},
        {"required": [f"p{n}" for n in range(50_000)]},
    ],
)
def test_thousands_of_missing_names_are_one_fault(schema, monkeypatch):
    """The library makes all errors at once, each with a copy of the value."""
    value = {f"p{n}": "" for n in range(199)}
    ready = validation.checked({"type": "object", **schema})
    explained = []
    monkeypatch.setattr(validation, "_faults_of_error", lambda error: explained.append(error) or iter(()))
    (fault,) = validation.faults(ready, value)
    assert (fault.path, explained) == ((), [])


def test_hundreds_of_missing_names_are_named():
    ready = validation.checked({"type": "object", "required": [f"p{n}" for n in range(900)]})
    faults = validation.faults(ready, {f"q{n}": "" for n in range(900)})
    assert [fault.path for fault in faults] == [(f"p{n}",) for n in range(validation.MAX_FAULTS)]


def test_patterns_after_the_first_hundred_are_left_out():
    count = validation.MAX_PATTERNS
    schema = {"properties": {f"p{n}": {"type": "string", "pattern": "^a"} for n in range(count + 2)}}
    properties = checked(schema).schema["properties"]
    assert [name for name, rule in properties.items() if "pattern" not in rule] == [
        f"p{count}",
        f"p{count + 1}",
    ]


def test_faults_do_not_repeat_a_long_list_of_values():
    schema = {
        "$defs": {"Many": {"enum": [f"value {n}" for n in range(9_000)]}},
        "additionalProperties": {"$ref": "#/$defs/Many"},
    }
    ready = checked(schema)
    few, many = ({f"p{n}": "x" for n in range(count)} for count in (3, 900))
    assert [fault.keyword for fault in faults(ready, few)] == ["enum"] * 3
    assert [fault.path for fault in faults(ready, many)] == [()]
