"""Generated answers fit their schema, and are the same for the same seed."""

import contextlib
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.schema import sample_texts, samples, validation
from core.schema.work import Work

ORDER = {
    "type": "object",
    "properties": {
        "status": {"enum": ["placed", "refused"]},
        "items": {
            "type": "array",
            "minItems": 1,
            "uniqueItems": True,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "format": "uuid"},
                    "price": {"type": "number", "minimum": 0, "exclusiveMaximum": 100, "multipleOf": 0.05},
                    "code": {"type": "string", "pattern": r"^[A-Z]{2}-\d{3,5}$"},
                    "note": {"type": ["string", "null"], "minLength": 12, "maxLength": 14},
                },
                "required": ["id", "price", "code"],
                "additionalProperties": False,
            },
        },
        "ready": {"type": "string", "format": "date-time"},
    },
    "required": ["status", "items"],
    "if": {"properties": {"status": {"const": "placed"}}},
    "then": {"required": ["ready"]},
    "else": {"properties": {"reason": {"type": "string"}}, "required": ["reason"]},
}


@given(st.integers(0, 2**63))
def test_each_seed_makes_a_value_that_fits(seed):
    value = samples.generate(ORDER, seed)

    assert validation.faults(validation.checked(ORDER), value) == []
    assert samples.generate(ORDER, seed) == value


def test_seeds_differ():
    texts = [repr(samples.generate(ORDER, seed)) for seed in range(20)]

    assert len(set(texts)) > 15


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
            "children": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}}}}}},
        {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 3}]},
        {"$ref": "#count", "minimum": 3, "$defs": {"Count": {"$anchor": "count", "enum": [1, 2, 4]}}},
        {"allOf": [{"patternProperties": {"^a": {"const": 1}}}, {"required": ["a1"]}]},
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 2},
        {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string", "minLength": 5}]},
        {"type": "array", "prefixItems": [{"const": "a"}], "items": False, "minItems": 1},
        {"type": "object", "minProperties": 3, "propertyNames": {"pattern": "^x_"}},
        {"type": "object", "patternProperties": {"^n": {"type": "integer"}}, "required": ["n1"]},
        {"type": "array", "contains": {"const": 7}, "minContains": 2, "items": {"type": "integer"}},
        {"type": "integer", "exclusiveMinimum": 4, "exclusiveMaximum": 6},
        {"type": "number", "exclusiveMinimum": 0.5, "maximum": 0.505},
        {"type": "string", "pattern": "^[A-Za-z-0-9]+$", "minLength": 22, "maxLength": 22},
        {"type": "string", "pattern": "^(arn:[a-z]{2,9})?(:[a-z]{0,40})*$", "minLength": 60, "maxLength": 80},
        {"type": "string", "format": "date-time", "minLength": 25, "maxLength": 25},
        {"type": "string", "format": "date-time", "minLength": 21, "maxLength": 24},
        {"type": "string", "pattern": r"^[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDBFF-\uDC00\uDFFF\t]+$"},
        {"type": "string", "pattern": "^[\\P{M}\\p{M}]{1,5000}$", "minLength": 20},
        {"type": "array", "minItems": 30, "items": {
            "type": "string", "pattern": "^[a-z0-9]{1,100}$", "maxLength": 2}},
        {"not": {"type": "string"}},
        {"type": "array", "minItems": 40, "items": {"type": "boolean", "example": "true"}},
        {"type": "array", "minItems": 40, "items": {"type": "string", "maxLength": 4, "default": "longer"}},
        {"type": "array", "minItems": 40, "items": {"type": ["null", "number"], "examples": ["1", 1]}},
        True,
    ],
)  # fmt: skip
def test_rules_of_all_kinds_are_met(schema):
    for seed in range(20):
        value = samples.generate(schema, seed)
        assert validation.faults(validation.checked(schema), value) == []


@pytest.mark.parametrize(
    ("schema", "expected_text"),
    [
        (False, "A rule of the schema allows no value."),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "No number lies between its bounds."),
        ({"type": "string", "minLength": 5, "maxLength": 4}, "longer than it may be"),
        ({"type": "string", "pattern": "^(?=a)b$"}, "No text can be generated for the pattern"),
        ({"type": "array", "minItems": 10**9}, "more than Pegboard generates"),
        ({"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "boolean"}}, "Too few"),
        ({"$ref": "#/$defs/gone"}, "to nothing"),
        ({"$ref": "#"}, "to nothing"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "different types"),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "to itself"),
        ({"type": "object", "properties": 3}, "not one of JSON Schema"),
        ({"type": "string", "minLength": "five"}, "not one of JSON Schema"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_said_with_its_rule(schema, expected_text):
    with pytest.raises(samples.UnmetSchemaError) as refused:
        samples.generate(schema, 1)

    assert expected_text in refused.value.why


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{2}\d{4}$", r"^(\+\d{1,3} )?\d{3}-\d{4}$", r"^[^\s@]+@[^\s@]+\.[a-z]{2,}$", "^a|b$",
        r"^(?:red|green|blue)$", r"^(?<year>\d{4})-(?<month>0[1-9]|1[0-2])$", r"^[\w.\-]+$",
        r"\bword\b", r"^\x41\u0042$", "^.{3,}$", "x{2}y*z+", r"^[\]\\^]$", "^$",
        r"^(?![^:\\]*/action/)[^:\\]+$", r"^[a-z]+(?<!zz)$",
    ],
)  # fmt: skip
def test_texts_match_their_pattern(pattern):
    vendor_pattern = re.compile(pattern.replace("(?<y", "(?P<y").replace("(?<m", "(?P<m"))

    for seed in range(50):
        assert vendor_pattern.search(sample_texts.text(pattern, Random(seed), Work(samples.MAX_WORK).count))


@given(st.integers(0, 40), st.integers(0, 3), st.integers(0, 10**6))
@pytest.mark.parametrize("pattern", ["^a*$", "^(ab?)+c{0,60}$", "^(x(yz){0,20})?[0-9]{0,50}$", "^(a|b+|c)*$"])
def test_a_text_is_as_long_as_it_has_to_be(pattern, shortest, more, seed):
    sample = sample_texts.text(
        pattern, Random(seed), Work(samples.MAX_WORK).count, shortest, shortest + 5 + more
    )

    assert re.search(pattern, sample)
    assert shortest <= len(sample) <= shortest + 5 + more


@pytest.mark.parametrize(
    "pattern", ["(" * 60 + ")" * 60, "(" * 20 + "a" + "*)*" * 20, "(a", "[a", "a{99999}", r"(a)\1"]
)
def test_a_pattern_of_another_kind_is_refused(pattern):
    with pytest.raises(sample_texts.UnwritablePatternError):
        [sample_texts.text(pattern, Random(seed), Work(samples.MAX_WORK).count) for seed in range(30)]


@given(st.text(max_size=60))
def test_any_text_as_a_pattern_ends(pattern):
    with contextlib.suppress(sample_texts.UnwritablePatternError):
        sample_texts.text(pattern, Random(1), Work(samples.MAX_WORK).count)


KEYWORDS = """
    $ref $defs type const enum allOf anyOf oneOf not if then else properties required additionalProperties
    patternProperties propertyNames minProperties items prefixItems contains minItems uniqueItems minimum
    exclusiveMaximum multipleOf minLength maxLength pattern format dependencies default examples
"""
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["#", "object", "string"])


@given(
    st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(KEYWORDS.split()), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_whatever_a_vendor_writes_as_a_schema_ends_in_a_value_or_in_a_sentence(schema):
    with contextlib.suppress(samples.UnmetSchemaError):
        value = samples.generate(schema, 7)
        assert validation.faults(validation.checked(schema), value) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 10**9},
        {"type": "string", "minLength": 10**9, "pattern": "^a"},
        {"type": "string", "pattern": "^" * 100_000},
        {"type": "array", "minItems": 300, "items": {"type": "string", "pattern": "((((a?){8}){8}){8}){4}"}},
        {"type": "string", "pattern": "[\\ud800-\\udfff]{5}"},
    ],
)
def test_a_schema_that_asks_for_too_much_is_given_up_soon(schema, monkeypatch):
    counted = []
    count = Work.count
    monkeypatch.setattr(Work, "count", lambda work, much=1: (counted.append(much), count(work, much)))
    with pytest.raises(samples.UnmetSchemaError):
        samples.generate(schema, 1)
    assert sum(counted) < samples.MAX_WORK * 1.1


@pytest.mark.parametrize("ending", ["id", "key", "code", "number", "no"])
def test_a_name_that_ends_like_one_gets_a_code(ending):
    schema = {"type": "object", "properties": {f"plot_{ending}": {"type": "string"}}}
    assert samples.generate(schema, 5) == {f"plot_{ending}": "RM-95352"}


@pytest.mark.parametrize("seed", range(1, 6))
def test_names_of_members_are_made_up_as_texts(seed):
    schema = {"type": "object", "minProperties": 3, "propertyNames": {"type": ["integer", "string"]}}
    assert not any(map(str.isdecimal, samples.generate(schema, seed)))
