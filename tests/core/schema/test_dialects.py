"""A keyword whose value has no meaning in any dialect is dropped, and named."""

import pytest

from core.schema.dialects import Dialect, normalize_level

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
    ],
    ids=str,
)
def test_old_spelling_becomes_the_present_one(old, new):
    assert normalize_level(old, Dialect.UNDECLARED)[0] == new
