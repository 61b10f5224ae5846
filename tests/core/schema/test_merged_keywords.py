"""Each keyword is merged where two schemas apply at once."""

import pytest

from core.schema import merge
from core.schema.merge import Level, both, identity, join

LETTERS = {"type": "string"}
ONE = {"const": 1}


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        *(
            ({keyword: 1}, {keyword: 2}, {keyword: 2})
            for keyword in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
        ),
        *(
            ({keyword: 2}, {keyword: 1}, {keyword: 1})
            for keyword in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
        ),
        *(
            ({keyword: False}, {keyword: True}, {keyword: True})
            for keyword in ("uniqueItems", "readOnly", "writeOnly", "deprecated")
        ),
        *(
            ({keyword: "a"}, {keyword: "b"}, {keyword: "a"})
            for keyword in ("title", "description", "default", "examples", "example", "$comment", "x-own")
        ),
        ({"type": "string"}, {"type": ["string", "null"]}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": "string"}, {"type": "string"}),
        (
            {"type": ["integer", "null", "array"]},
            {"type": ["array", "number"]},
            {"type": ["array", "integer"]},
        ),
        ({"const": 1}, {"const": 1.0}, {"const": 1.0}),
        ({"const": 1}, {"const": True}, {"not": {}}),
        ({"title": "T", "const": 1}, {"const": 2}, {"title": "T", "not": {}}),
        ({"enum": [1, "a", None]}, {"enum": [None, 1.0, "b"]}, {"enum": [1, None]}),
        ({"required": ["b", "a"]}, {"required": ["c", "a"]}, {"required": ["b", "a", "c"]}),
        ({"propertyNames": LETTERS}, {"propertyNames": ONE}, {"propertyNames": {"allOf": [LETTERS, ONE]}}),
        ({"not": LETTERS}, {"not": ONE}, {"not": {"anyOf": [LETTERS, ONE]}}),
        ({"multipleOf": 6}, {"multipleOf": 4}, {"multipleOf": 12}),
        ({"multipleOf": 1.5}, {"multipleOf": 3}, {"multipleOf": 3}),
        # Entries of arrays.
        ({"items": LETTERS}, {"items": ONE}, {"items": {"allOf": [LETTERS, ONE]}}),
        ({"items": LETTERS}, {"items": True}, {"items": LETTERS}),
        (
            {"prefixItems": [LETTERS]},
            {"items": ONE},
            {"prefixItems": [{"allOf": [LETTERS, ONE]}], "items": ONE},
        ),
        (
            {"prefixItems": [LETTERS], "items": False},
            {"prefixItems": [True, ONE]},
            {"prefixItems": [LETTERS, False], "items": False},
        ),
        (
            {"prefixItems": [LETTERS, ONE]},
            {"prefixItems": [ONE]},
            {"prefixItems": [{"allOf": [LETTERS, ONE]}, ONE]},
        ),
        # Rules of which one side has no effect.
        ({"minContains": 2}, {"contains": ONE}, {"contains": ONE}),
        ({"contains": ONE, "maxContains": 3}, {"minContains": 2}, {"contains": ONE, "maxContains": 3}),
        ({"then": False}, {"if": ONE, "else": False}, {"if": ONE, "else": False}),
        ({"if": ONE, "then": False}, {"else": True}, {"if": ONE, "then": False}),
        # Members of objects.
        (
            {"properties": {"a": LETTERS}},
            {"properties": {"b": ONE}},
            {"properties": {"a": LETTERS, "b": ONE}},
        ),
        (
            {"properties": {"a": LETTERS}, "additionalProperties": ONE},
            {"properties": {"b": LETTERS}},
            {"properties": {"a": LETTERS, "b": {"allOf": [ONE, LETTERS]}}, "additionalProperties": ONE},
        ),
        (
            {"properties": {"b": LETTERS}},
            {"properties": {"a": LETTERS}, "additionalProperties": False},
            {"properties": {"a": LETTERS}, "additionalProperties": False},
        ),
        (
            {"additionalProperties": LETTERS},
            {"additionalProperties": ONE},
            {"additionalProperties": {"allOf": [LETTERS, ONE]}},
        ),
        (
            {"additionalProperties": True},
            {"properties": {"a": ONE}},
            {"properties": {"a": ONE}, "additionalProperties": True},
        ),
        (
            {"properties": {"a": ONE}},
            {"additionalProperties": True},
            {"properties": {"a": ONE}, "additionalProperties": True},
        ),
        (
            {"patternProperties": {"^a": LETTERS}},
            {"patternProperties": {"^a": ONE, "^b": ONE}},
            {"patternProperties": {"^a": {"allOf": [ONE, LETTERS]}, "^b": ONE}},
        ),
        (
            {"patternProperties": {"^a": LETTERS}},
            {"properties": {"ab": ONE, "c": ONE}, "additionalProperties": False},
            {"properties": {"ab": {"allOf": [ONE, LETTERS]}, "c": ONE}, "additionalProperties": False},
        ),
        (
            {"properties": {"ab": False}, "additionalProperties": False},
            {"patternProperties": {"^a": LETTERS}, "properties": {"ab": True}},
            {"additionalProperties": False},
        ),
        (
            {"patternProperties": {"^a": LETTERS}, "additionalProperties": False},
            {"properties": {"ab": False, "c": ONE}},
            {
                "properties": {"ab": False},
                "patternProperties": {"^a": LETTERS},
                "additionalProperties": False,
            },
        ),
    ],
    ids=str,
)
def test_two_rules_of_a_keyword_become_one(one, other, joined):
    level = join([one, other])
    assert (level.schema, level.apart) == (joined, ())


# Open parts after the first are added to its members.
@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        (
            [
                {"properties": {"a": ONE}},
                {"properties": {"b": ONE}},
                {"properties": {"a": True}, "additionalProperties": False},
            ],
            {"properties": {"a": ONE}, "additionalProperties": False},
        ),
        (
            [{"properties": {"a": ONE}}, {"properties": {"b": ONE}}, {"patternProperties": {"^a": LETTERS}}],
            {"properties": {"a": ONE, "b": ONE}, "patternProperties": {"^a": LETTERS}},
        ),
        (
            [
                {"dependentSchemas": {"a": ONE}},
                {"dependentSchemas": {"a": LETTERS, "b": ONE}},
                {"dependentRequired": {}},
            ],
            {"dependentSchemas": {"a": {"allOf": [ONE, LETTERS]}, "b": ONE}, "dependentRequired": {}},
        ),
        (
            [{"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["c", "b"], "d": ["e"]}}],
            {"dependentRequired": {"a": ["b", "c"], "d": ["e"]}},
        ),
        (
            [
                {"properties": {"a": LETTERS}},
                {"properties": {"b": ONE}},
                {"properties": {"a": ONE, "c": True}},
            ],
            {"properties": {"a": {"allOf": [LETTERS, ONE]}, "b": ONE, "c": True}},
        ),
        (
            [
                {"properties": {"a": True}, "additionalProperties": False},
                {"properties": {"a": LETTERS}},
                {"properties": {"b": ONE, "a": False}},
            ],
            {"additionalProperties": False},
        ),
        (
            [
                {
                    "properties": {"c": True},
                    "patternProperties": {"^a": LETTERS},
                    "additionalProperties": False,
                },
                {"title": "T"},
                {"properties": {"ab": False, "b": ONE}},
                {"properties": {"ad": ONE, "e": ONE}},
            ],
            {
                "properties": {"c": True, "ab": False, "ad": ONE},
                "patternProperties": {"^a": LETTERS},
                "additionalProperties": False,
                "title": "T",
            },
        ),
        (
            [
                {"properties": {"a": True}, "additionalProperties": ONE},
                {"properties": {"b": LETTERS}},
                {"properties": {"c": True}, "additionalProperties": True},
            ],
            {
                "properties": {"a": True, "b": {"allOf": [ONE, LETTERS]}, "c": ONE},
                "additionalProperties": ONE,
            },
        ),
        (
            [
                {"properties": {"a": ONE}},
                {"properties": {"b": ONE}},
                {"properties": {"c": ONE}, "additionalProperties": True},
            ],
            {"properties": {"a": ONE, "b": ONE, "c": ONE}, "additionalProperties": True},
        ),
        (
            [{"properties": {"a": {}}}, {"properties": {"b": {}}}, {"required": ["a"]}],
            {"properties": {"a": True, "b": {}}, "required": ["a"]},
        ),
    ],
)
def test_listed_members_are_added(parts, joined):
    level = join(parts)
    assert (level.schema, level.apart) == (joined, ())


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        *(
            ({keyword: "a"}, {keyword: "b"}, {keyword: "b"})
            for keyword in ("pattern", "format", "contentEncoding", "contentMediaType")
        ),
        *(
            ({keyword: [LETTERS, ONE]}, {keyword: [ONE, LETTERS]}, {keyword: [ONE, LETTERS]})
            for keyword in ("anyOf", "oneOf")
        ),
        ({"contentSchema": LETTERS}, {"contentSchema": ONE}, {"contentSchema": ONE}),
        ({"multipleOf": 0.4}, {"multipleOf": 0.6}, {"multipleOf": 0.6}),
        (
            {"contains": ONE},
            {"contains": LETTERS, "maxContains": 1, "minItems": 2},
            {"contains": LETTERS, "maxContains": 1},
        ),
        ({"if": ONE, "then": False}, {"else": False, "if": LETTERS}, {"if": LETTERS, "else": False}),
        (
            {"patternProperties": {"^a": ONE}, "additionalProperties": False},
            {"patternProperties": {"^b": ONE}, "properties": {"c": ONE}},
            {"properties": {"c": ONE}, "patternProperties": {"^b": ONE}},
        ),
        (
            {"additionalProperties": LETTERS},
            {"patternProperties": {"^b": ONE}},
            {"patternProperties": {"^b": ONE}},
        ),
        (
            {"patternProperties": {"(": ONE}, "additionalProperties": LETTERS},
            {"properties": {"c": ONE}},
            {"properties": {"c": ONE}},
        ),
        (
            {"properties": {"a": ONE}, "patternProperties": {"(": ONE}},
            {"properties": {"c": ONE}},
            {"properties": {"c": ONE}},
        ),
    ],
)
def test_a_second_rule_stays_apart(one, other, apart):
    level = join([one | {"title": "T"}, other | {"title": "U", "description": "D"}])
    others = {"minItems": 2} if "minItems" in other else {}
    assert level.apart == (apart,)
    assert level.schema == one | {"title": "T", "description": "D"} | others


def test_parts_with_unevaluated_members_stay_apart():
    part = {"unevaluatedItems": False, "items": True}
    assert join([{"type": "array"}, part]) == Level({"type": "array"}, (part,))
    assert merge.flatten(part, lambda _: True) == Level(part)


def test_parts_above_the_limit_stay_apart(monkeypatch):
    monkeypatch.setattr(merge, "MAX_PARTS", 2)
    parts = [{"minLength": number} for number in range(4)]
    assert join(parts) == Level({"minLength": 1}, (parts[2], parts[3]))


@pytest.mark.parametrize(
    ("schema", "level"),
    [
        (True, {}),
        (False, {"not": {}}),
        ({"allOf": []}, {}),
        ({"allOf": [True, {}]}, {}),
        ({"title": "T", "allOf": [False]}, {"title": "T", "not": {}}),
        ({"title": "T", "allOf": [True]}, {"title": "T"}),
        ({"minLength": 1, "title": "T", "allOf": [{"title": "U"}, False]}, {"title": "T", "not": {}}),
        ({"anyOf": [LETTERS], "oneOf": [ONE]}, LETTERS | ONE),
        ({"anyOf": [LETTERS, ONE], "$defs": {"A": {}}}, {"anyOf": [LETTERS, ONE]}),
        ({"$ref": "A", "title": "T"}, {"title": "T", "type": "string"}),
        (
            {"$ref": "A", "allOf": [{"minLength": 1}], "maxLength": 3},
            {"maxLength": 3, "type": "string", "minLength": 1},
        ),
        (
            {"allOf": [{"$ref": "A"}, {"allOf": [{"maxLength": 2}, {"$ref": "A"}]}]},
            {"type": "string", "maxLength": 2},
        ),
    ],
)
def test_one_level_of_a_schema(schema, level):
    flat = merge.flatten(schema, {"A": {"type": "string", "$defs": {}}}.__getitem__)
    assert (flat.schema, flat.apart) == (level, ())
    assert list(flat.schema) == list(level)


def test_a_joined_level_has_no_references():
    with pytest.raises(LookupError, match="A"):
        join([{"$ref": "A"}, {}])


def test_parts_of_a_level():
    level = Level({"properties": {"a": True}, "patternProperties": {"b": ONE}, "required": ["c"]})
    assert (level.properties, level.patterns, level.required) == ({"a": True}, {"b": ONE}, ["c"])
    assert (Level({}).properties, Level({}).patterns, Level({}).required, Level({}).apart) == ({}, {}, (), ())


@pytest.mark.parametrize(
    ("one", "other", "schema"),
    [
        (True, ONE, ONE),
        (ONE, True, ONE),
        (True, True, True),
        ({}, True, True),
        (True, {}, {}),
        (False, ONE, False),
        (ONE, False, False),
        (False, True, False),
        ({}, False, False),
        (ONE, {"const": 1.0}, ONE),
        (ONE, {"const": True}, {"allOf": [ONE, {"const": True}]}),
        (ONE, LETTERS, {"allOf": [ONE, LETTERS]}),
        (
            {"allOf": [ONE, LETTERS]},
            {"allOf": [{"minLength": 1}]},
            {"allOf": [ONE, LETTERS, {"minLength": 1}]},
        ),
        (
            {"allOf": [ONE], "title": "T"},
            LETTERS,
            {"allOf": [{"allOf": [ONE], "title": "T"}, LETTERS]},
        ),
        ({"enum": [1, [2]]}, {"enum": [1, [2], 3]}, {"allOf": [{"enum": [1, [2]]}, {"enum": [1, [2], 3]}]}),
        ({"enum": [1, {"a": 2}]}, {"enum": [1, {"a": 2.0}]}, {"enum": [1, {"a": 2}]}),
    ],
)
def test_schema_that_accepts_what_both_accept(one, other, schema):
    joined = both(one, other)
    assert joined == schema
    assert type(joined) is type(schema)


def test_identity_is_that_of_the_parts():
    one, other = {"const": 1}, {"const": 1}
    assert identity(both(one, LETTERS)) == identity(both(one, LETTERS)) == (id(one), id(LETTERS))
    assert identity(both(one, LETTERS)) != identity(both(other, LETTERS))
    assert identity(one) == id(one)
    with_title = {"allOf": [one], "title": "T"}
    assert identity(with_title) == id(with_title)
    assert identity(True) == id(True)
