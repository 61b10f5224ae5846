"""A keyword whose value has no meaning in any dialect is dropped, and named."""

import pytest

from core.schema.dialects import (
    Dialect,
    dialect_of,
    dialect_of_openapi,
    normalize_level,
    requires_itself,
)

# By kind of value: the keywords, a value that stays as it is, and values that no dialect gives a meaning.
SOUND = [
    ("type", "string", [1, [], "text", ["string", "text"]]),
    *((keyword, {"type": "string"}, ["a", 1, []]) for keyword in ("additionalProperties", "propertyNames")),
    *((keyword, True, ["a", 1]) for keyword in ("items", "contains", "not", "if", "then", "else")),
    *(
        (keyword, False, ["a", 1, []])
        for keyword in ("contentSchema", "unevaluatedItems", "unevaluatedProperties")
    ),
    *((keyword, [True, {}], [[], {}, ["a"], "a"]) for keyword in ("allOf", "anyOf", "oneOf", "prefixItems")),
    *(
        (keyword, {"a": {}}, ["a", [], 1])
        for keyword in ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
    ),
    ("required", ["a", "b"], ["a", {}, 1]),
    ("dependentRequired", {"a": ["b"]}, ["a", []]),
    *(
        (keyword, 1.5, ["1", None, []])
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    ),
    ("multipleOf", 0.5, [0, -1, "1", True]),
    *(
        (keyword, 2, [-1, 1.5, "2", True])
        for keyword in (
            *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
            *("minContains", "maxContains"),
        )
    ),
    *((keyword, ["a"], ["a", {}, None]) for keyword in ("enum", "examples")),
    *(
        (keyword, "a", [1, None, []])
        for keyword in (
            *("title", "description", "pattern", "format", "contentEncoding", "contentMediaType", "$comment"),
        )
    ),
    *(
        (keyword, True, ["true", 1, None])
        for keyword in ("uniqueItems", "deprecated", "readOnly", "writeOnly")
    ),
]


@pytest.mark.parametrize(("keyword", "value", "_"), SOUND, ids=lambda value: str(value)[:20])
def test_sound_value_stays(keyword, value, _):
    assert normalize_level({keyword: value}, Dialect.DRAFT_2020) == ({keyword: value}, [])


@pytest.mark.parametrize(
    ("keyword", "value"), [(keyword, value) for keyword, _, wrong in SOUND for value in wrong], ids=str
)
def test_value_without_a_meaning_is_dropped(keyword, value):
    assert normalize_level({keyword: value, "x-own": 1}, Dialect.DRAFT_2020) == ({"x-own": 1}, [keyword])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": ["string", "string"]}, {"type": ["string"]}),
        ({"required": ["a", 1, "a"]}, {"required": ["a"]}),
        ({"minLength": 2.0}, {"minLength": 2}),
        ({"properties": {"a": {}, "b": 1}}, {"properties": {"a": {}}}),
        ({"dependentRequired": {"a": ["b", 1], "c": "d"}}, {"dependentRequired": {"a": ["b"]}}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["null", "string"], "nullable": True}, {"type": ["null", "string"]}),
        ({"nullable": True}, {}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({"items": [{}, True], "additionalItems": False}, {"prefixItems": [{}, True], "items": False}),
        ({"items": {}, "additionalItems": False}, {"items": {}}),
        (
            {"dependencies": {"a": ["b"], "c": {"type": "object"}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"type": "object"}}},
        ),
        ({"dependencies": {"a": "b"}}, {"dependentRequired": {"a": ["b"]}}),
        (
            {"dependencies": {"a": ["c"]}, "dependentRequired": {"a": ["b"]}},
            {"dependentRequired": {"a": ["b", "c"]}},
        ),
        (
            {"dependencies": {"a": {"minProperties": 1}}, "dependentSchemas": {"a": {"maxProperties": 3}}},
            {"dependentSchemas": {"a": {"allOf": [{"maxProperties": 3}, {"minProperties": 1}]}}},
        ),
        ({"required": True, "type": "string"}, {"type": "string"}),
        ({"required": False}, {}),
        ({"exclusiveMinimum": 3, "minimum": 1}, {"exclusiveMinimum": 3, "minimum": 1}),
        ({"exclusiveMaximum": True, "maximum": 5}, {"exclusiveMaximum": 5}),
        ({"additionalItems": False}, {}),
        ({"items": [{}]}, {"prefixItems": [{}]}),
        ({"dependencies": []}, {}),
        ({"dependencies": {}}, {}),
        ({"dependencies": {"a": ["b"]}, "dependentRequired": 1}, {"dependentRequired": {"a": ["b"]}}),
        (
            {"dependencies": {"a": ["b"]}, "dependentRequired": {"a": 1, "c": ["d"]}},
            {"dependentRequired": {"a": ["b"], "c": ["d"]}},
        ),
        (
            {"dependencies": {"a": "bc"}, "dependentRequired": {"a": ["b"]}},
            {"dependentRequired": {"a": ["b", "bc"]}},
        ),
        (
            {"dependencies": {"a": True, "b": {}}, "dependentSchemas": {"c": False}},
            {"dependentSchemas": {"a": True, "b": {}, "c": False}},
        ),
        ({"nullable": True, "type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"minLength": 0, "minimum": -1, "maximum": 0}, {"minLength": 0, "minimum": -1, "maximum": 0}),
    ],
    ids=str,
)
def test_old_spelling_becomes_the_present_one(old, new):
    assert normalize_level(old, Dialect.UNDECLARED)[0] == new


DRAFT = "https://json-schema.org/draft/"


@pytest.mark.parametrize(
    ("schema", "dialect"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, Dialect.DRAFT_4),
        ({"$schema": "http://json-schema.org/draft-06/schema#"}, Dialect.DRAFT_6),
        ({"$schema": "https://json-schema.org/draft-07/schema"}, Dialect.DRAFT_7),
        ({"$schema": DRAFT + "2019-09/schema"}, Dialect.DRAFT_2019),
        ({"$schema": DRAFT + "2020-12/schema#"}, Dialect.DRAFT_2020),
        ({"$schema": DRAFT + "2020-12/schema/more"}, Dialect.UNDECLARED),
        ({"$schema": DRAFT + "2099-01/schema"}, Dialect.UNDECLARED),
        ({"$schema": "json-schema.org/draft-07/schema"}, Dialect.UNDECLARED),
        ({"$schema": 7}, Dialect.UNDECLARED),
        ({}, Dialect.UNDECLARED),
        (True, Dialect.UNDECLARED),
    ],
    ids=str,
)
def test_declared_dialect(schema, dialect):
    assert dialect_of(schema) is dialect


@pytest.mark.parametrize(
    ("version", "dialect"),
    [
        *((version, Dialect.OPENAPI_3_0) for version in ("3.0", "3.0.0", "3.0.4")),
        *((version, Dialect.DRAFT_2020) for version in ("3.1.0", "3.2", "3.01", "4.0", "")),
    ],
)
def test_dialect_of_an_openapi_document(version, dialect):
    assert dialect_of_openapi(version) is dialect


@pytest.mark.parametrize("dialect", list(Dialect))
def test_keywords_beside_a_reference_count_since_2019(dialect):
    annotations = {"title": "T", "default": 1, "$defs": {"A": {}}, "definitions": {"B": {}}}
    level = {"$ref": "#/$defs/A", "type": "string", "$id": "a", **annotations}
    stays = dialect in (Dialect.DRAFT_2019, Dialect.DRAFT_2020, Dialect.UNDECLARED)
    remaining = level if stays else {"$ref": "#/$defs/A", **annotations}
    assert normalize_level(level, dialect) == (remaining, [])
    assert normalize_level({"$ref": 3, "type": "string"}, dialect) == ({"$ref": 3, "type": "string"}, [])


def test_a_level_is_copied():
    level = {"items": [{}], "additionalItems": False, "dependencies": {"a": ["b"]}, "type": "a"}
    before = dict(level)
    assert normalize_level(level, Dialect.DRAFT_7)[1] == ["type"]
    assert level == before


@pytest.mark.parametrize(
    ("schema", "is_required"),
    [
        ({"required": True}, True),
        ({"required": ["a"]}, False),
        ({"required": 1}, False),
        ({}, False),
        (True, False),
    ],
)
def test_a_property_that_requires_itself(schema, is_required):
    assert requires_itself(schema) is is_required
