"""`allOf` has one meaning, and it is the validator's."""

import copy
import json
from math import lcm

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.schema import merge, read_document
from tests.core.schema.spellings import schemas, values

DEFINITIONS = {"A": {"type": ["object", "integer"], "properties": {"a": {"maximum": 3}}, "required": ["b"]}}


def level_of(schema):
    document = read_document(schema)
    return document.level(document.root)


@given(
    st.lists(schemas("2020-12", ["#/$defs/A"]), min_size=2, max_size=3),
    st.lists(values, min_size=6, max_size=10),
)
@example(
    [{"properties": {"a": {"minimum": 1}}, "additionalProperties": False}, {"patternProperties": {"a": {}}}],
    [{"a": 1}, {"ab": 1}, {"a": 0}],
)
@example([{"prefixItems": [{"const": 1}], "items": False}, {"items": {"maximum": 0}}], [[1], [], [0], [1, 0]])
def test_one_level_accepts_exactly_what_all_of_it_accepts(parts, values):
    schema = {"allOf": parts, "$defs": DEFINITIONS}
    level = level_of(schema)
    merged_schema = {**level.schema, "$defs": DEFINITIONS} | (
        {"allOf": [*level.apart]} if level.apart else {}
    )
    assert level.apart or not merged_schema.keys() & {"allOf", "$ref"}
    original = jsonschema_rs.Draft202012Validator(schema)
    merged = jsonschema_rs.Draft202012Validator(merged_schema)
    assert [merged.is_valid(value) for value in values] == [original.is_valid(value) for value in values]


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ({"type": "integer", "minimum": 1}, {"maximum": 5}, {"type": "integer", "minimum": 1, "maximum": 5}),
        ({"type": ["number", "null"]}, {"type": "integer"}, {"type": "integer"}),
        ({"type": ["integer", "string"]}, {"type": ["number", "null"]}, {"type": "integer"}),
        ({"enum": [1, 2, True]}, {"enum": [True, 2.0]}, {"enum": [2, True]}),
        ({"multipleOf": 4}, {"multipleOf": 6}, {"multipleOf": 12}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"not": {"const": 1}}, {"not": {"const": 2}}, {"not": {"anyOf": [{"const": 1}, {"const": 2}]}}),
        (
            {"title": "T", "readOnly": False},
            {"title": "U", "readOnly": True},
            {"title": "T", "readOnly": True},
        ),
        ({"x-a": 1}, {"x-a": 2, "x-b": 3}, {"x-a": 1, "x-b": 3}),
        ({"anyOf": [{"minLength": 1}]}, {"oneOf": [{"maxLength": 2}]}, {"minLength": 1, "maxLength": 2}),
        ({"type": "string"}, {"type": "integer"}, {"not": {}}),
        ({"enum": [1]}, {"enum": [2]}, {"not": {}}),
        ({"title": "T"}, False, {"title": "T", "not": {}}),
        (
            {"properties": {"a": {"type": "integer"}}, "additionalProperties": False},
            {"properties": {"a": {"minimum": 1}, "b": True}},
            {
                "properties": {"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}},
                "additionalProperties": False,
            },
        ),
    ],
)
def test_two_rules_become_one(one, other, merged):
    level = level_of({**one, "allOf": [other]})
    assert level.schema == merged
    assert level.apart == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"format": "date"}, {"format": "time"}),
        ({"anyOf": [{"minLength": 1}, {"type": "null"}]}, {"anyOf": [{"maxLength": 1}, {"const": "xyz"}]}),
        ({"contains": {"const": 1}}, {"contains": {"const": 2}, "minContains": 2}),
        ({"if": {"const": 1}, "then": False}, {"if": {"const": 2}, "then": False}),
        (
            {"patternProperties": {"a": {"type": "string"}}, "additionalProperties": False},
            {"patternProperties": {"b": {"type": "string"}}, "additionalProperties": False},
        ),
        ({"patternProperties": {"(": {"type": "string"}}}, {"properties": {"a": True}}),
    ],
)
def test_a_second_rule_that_no_keyword_holds_stays_apart(one, other):
    level = level_of({**one, "type": ["string", "array", "object"], "allOf": [{**other, "maxLength": 9}]})
    assert level.apart == (other,)
    assert level.schema == {**one, "type": ["string", "array", "object"], "maxLength": 9}


# Parts as long lists have them: with members of the same names, closed and open objects, patterns that list a
# name too, and rules that accept anything or nothing.
member_rules = st.sampled_from(
    [{}, True, False, {"type": "string"}, {"const": 1}, {"const": 1.0}, {"allOf": [{"minLength": 1}, {}]}]
)
member_parts = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(st.sampled_from(["a", "b", "ab", "c"]), member_rules, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "("]), member_rules, max_size=1),
        "additionalProperties": st.sampled_from([True, True, False, {}, {"minLength": 1}]),
        "required": st.lists(st.sampled_from("ab"), max_size=2),
        "title": st.sampled_from("TU"),
        "type": st.sampled_from(["object", ["object", "null"], "string"]),
        "pattern": st.sampled_from("ab"),
    },
)


@given(st.lists(member_parts, min_size=2, max_size=7))
@example([{"properties": {"a": {}}}, {"properties": {"b": {}}}, {"properties": {"c": {}}}])
@example([{"properties": {"a": True}}, {"additionalProperties": False}, {"properties": {"a": False}}])
def test_parts_joined_at_once_are_as_joined_one_by_one(parts):
    before = copy.deepcopy(parts)
    level = merge.join(parts)
    assert parts == before
    # Two parts alone are always joined as a whole: nothing is added to what an earlier join made.
    schema, apart = parts[0], ()
    for part in parts[1:]:
        step = merge.join([schema, part])
        schema, apart = step.schema, (*apart, *step.apart)
        if "not" in schema:
            apart = ()
            break
    assert json.dumps([level.schema, level.apart]) == json.dumps([schema, apart])


def test_joining_many_open_parts_costs_their_number(monkeypatch):
    calls = []
    both = merge.both
    monkeypatch.setattr(merge, "both", lambda one, other: calls.append(1) or both(one, other))
    counts = []
    for number in (100, 200):
        calls.clear()
        level = level_of({"allOf": [{"properties": {f"m{n}": {"type": "string"}}} for n in range(number)]})
        assert len(level.properties) == number
        counts.append(len(calls))
    assert counts[1] < 2.1 * counts[0]


def test_a_schema_that_looks_at_what_others_left_over_is_not_taken_apart():
    inner = {"properties": {"a": True}, "unevaluatedProperties": False}
    level = level_of({"properties": {"b": True}, "allOf": [inner]})
    assert level.schema == {"properties": {"b": True}}
    assert level.apart == (inner,)
    # Without keywords beside it, it is the whole schema.
    assert level_of({"title": "T", "allOf": [inner]}).schema == {"title": "T", **inner}


def test_parts_that_double_at_each_step_are_joined_once():
    steps = {
        str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}, {"$ref": f"#/$defs/{n + 1}"}]} for n in range(50)
    }
    level = level_of({"$ref": "#/$defs/0", "$defs": {**steps, "50": {"type": "string"}}})
    assert level.schema == {"type": "string"}


def test_stated_openness_stays_beside_unevaluated_properties():
    schema = {
        "properties": {"a": {"type": "string"}},
        "allOf": [{"additionalProperties": True}],
        "unevaluatedProperties": False,
    }
    document = read_document(schema)
    merged = document.level(document.root).schema
    for judge in map(jsonschema_rs.Draft202012Validator, (schema, merged)):
        assert judge.is_valid({"b": 1})


def test_empty_schema_is_joined_as_one_that_accepts_anything():
    assert merge.both({"type": "string"}, {}) == merge.both({}, {"type": "string"}) == {"type": "string"}


def test_dependencies_of_both_parts_hold():
    level = level_of(
        {
            "dependentRequired": {"a": ["b"]},
            "dependentSchemas": {"a": {"minProperties": 2}},
            "allOf": [
                {
                    "dependentRequired": {"a": ["c", "b"], "d": ["a"]},
                    "dependentSchemas": {"a": {"maxProperties": 3}, "d": True},
                }
            ],
        }
    )
    assert level.schema["dependentRequired"] == {"a": ["b", "c"], "d": ["a"]}
    both = {"allOf": [{"minProperties": 2}, {"maxProperties": 3}]}
    assert level.schema["dependentSchemas"] == {"a": both, "d": True}


@pytest.mark.parametrize(
    ("one", "other", "step"), [(2, 3, 6), (4, 6, 12), (0.5, 2, 2), (2, 0.5, 2), (0.1, 0.3, 0.3)]
)
def test_steps_are_joined_where_one_number_states_both(one, other, step):
    level = level_of({"multipleOf": one, "allOf": [{"multipleOf": other}]})
    assert (level.schema["multipleOf"], level.apart) == (step, ())


def test_steps_stay_apart_where_no_number_states_both():
    level = level_of({"multipleOf": 0.4, "allOf": [{"multipleOf": 0.6}]})
    assert (level.schema, level.apart) == ({"multipleOf": 0.4}, ({"multipleOf": 0.6},))


def test_steps_whose_common_multiple_is_too_large_stay_apart():
    steps = [10**30 + 2 * number + 1 for number in range(400)]
    level = merge.join([{"type": "integer", "multipleOf": step} for step in steps])
    assert level.schema["multipleOf"].bit_length() <= merge.MAX_STEP_BITS
    joined_count = len(steps) - len(level.apart)
    assert level.schema["multipleOf"] == lcm(*steps[:joined_count])
    assert [rules["multipleOf"] for rules in level.apart] == steps[joined_count:]


def test_a_schema_beside_a_large_one_costs_what_it_lists_itself(monkeypatch):
    joined, both = [], merge.both
    monkeypatch.setattr(merge, "both", lambda *pair: joined.append(1) or both(*pair))
    large = {"properties": {f"p{n}": {"type": "string"} for n in range(1_000)}}
    own = {"properties": {"own": {}, "p7": {"maxLength": 3}}}

    properties = merge.join([own, large]).properties

    assert (properties["own"], properties["p7"]) == (True, {"allOf": [{"maxLength": 3}, {"type": "string"}]})
    assert (properties["p8"], len(properties), len(joined) < 10) == ({"type": "string"}, 1_001, True)
