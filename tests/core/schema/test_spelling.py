"""A schema is read and changed in its vendor's own spelling, and malformed keywords count as absent."""

import copy

import pytest

from core.schema import spelling, subschemas


@pytest.mark.parametrize("schema", [None, True, [], "a", {}, {"properties": [], "$defs": 1, "required": "a"}])
def test_a_malformed_keyword_counts_as_absent(schema):
    assert spelling.properties_of(schema) == {}
    assert spelling.definitions_of(schema) == {}
    assert spelling.required_of(schema) == []


def test_objects_inside_are_returned_themselves():
    schema = {"properties": {"a": {}}, "$defs": {"A": {}}, "required": ["a", 1, "b"]}
    assert spelling.properties_of(schema) is schema["properties"]
    assert spelling.definitions_of(schema) is schema["$defs"]
    assert spelling.required_of(schema) == ["a", "b"]


@pytest.mark.parametrize(
    ("read", "schema", "is_true"),
    [
        *(
            (lambda schema: spelling.states_empty(schema, "a"), schema, is_true)
            for schema, is_true in [({"a": {}}, True), ({"a": []}, True), ({"a": [1]}, False), ({}, False)]
        ),
        (lambda schema: spelling.states_empty(schema, "a"), {"a": None}, False),
        (spelling.has_null_properties, {"properties": None}, True),
        (spelling.has_null_properties, {"properties": {}}, False),
        (spelling.has_null_properties, {}, False),
        (spelling.has_null_properties, None, False),
        (spelling.has_described_properties, {}, True),
        (spelling.has_described_properties, {"properties": {"a": {}}}, True),
        (spelling.has_described_properties, {"properties": {"a": {}, "b": True}}, False),
        (spelling.has_described_properties, {"properties": None}, False),
        (spelling.has_closed_part, {"additionalProperties": False}, False),
        (spelling.has_closed_part, {"items": {"additionalProperties": False}}, True),
        (spelling.has_closed_part, {"items": {"additionalProperties": {}}}, False),
        (spelling.has_closed_part, {"items": {}}, False),
        (spelling.is_array_without_items, {"type": "array"}, True),
        (spelling.is_array_without_items, {"type": ["null", "array"]}, True),
        (spelling.is_array_without_items, {"type": "array", "items": {}}, False),
        (spelling.is_array_without_items, {"type": ["array"], "items": {}}, False),
        (spelling.is_array_without_items, {"type": "object"}, False),
        (spelling.is_array_without_items, {"type": ["object"]}, False),
        (spelling.is_array_without_items, {}, False),
        (spelling.has_keywords_beside_reference, {"$ref": "#", "title": "T"}, True),
        (spelling.has_keywords_beside_reference, {"$ref": "#", "$defs": {}}, False),
        (spelling.has_keywords_beside_reference, {"$ref": "#"}, False),
        (spelling.has_keywords_beside_reference, {"title": "T"}, False),
    ],
)
def test_readers_answer_about_one_level(read, schema, is_true):
    assert read(schema) is is_true


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"required": ["a", "b"], "properties": {"b": {}}}, ["a"]),
        ({"required": ["b", "a"]}, ["b", "a"]),
        ({"required": ["a"], "properties": None}, []),
        ({"required": ["a"], "properties": []}, []),
        ({"properties": {"a": {}}}, []),
    ],
)
def test_required_names_without_a_property(schema, names):
    assert spelling.undeclared_required(schema) == names


@pytest.mark.parametrize(
    ("schema", "patterns"),
    [
        ({}, []),
        ({"pattern": "a"}, [("pattern", "a")]),
        ({"pattern": 1, "patternProperties": 2}, []),
        (
            {"pattern": "a", "patternProperties": {"b": {}, "c": {}}},
            [("pattern", "a"), ("patternProperties", "b"), ("patternProperties", "c")],
        ),
    ],
)
def test_patterns_have_their_keyword(schema, patterns):
    assert list(spelling.patterns_of(schema)) == patterns


LEAF = {"type": "string"}
FLAT = {"properties": {"a": LEAF}}


@pytest.mark.parametrize(
    ("schema", "levels"),
    [
        ({}, 0),
        (LEAF, 0),
        ({"properties": {}}, 1),
        (FLAT, 1),
        ({"properties": {"a": FLAT, "b": LEAF}}, 2),
        ({"items": FLAT}, 1),
        ({"properties": {"a": {"items": FLAT}}}, 2),
        ({"anyOf": [LEAF, {"properties": {"a": FLAT}}]}, 2),
        (
            {
                "properties": {"a": {"anyOf": [FLAT]}},
                "items": {"properties": {"a": {"properties": {"b": FLAT}}}},
            },
            4,
        ),
    ],
)
def test_levels_of_objects_are_counted(schema, levels):
    assert spelling.count_object_levels(schema) == levels


def test_references_are_changed_in_a_copy():
    schema = {
        "$ref": "#/a",
        "items": {"$dynamicRef": "#b", "default": {"$ref": "#/a"}},
        "not": {"$recursiveRef": "#"},
        "properties": {"$ref": {"$ref": 3}},
    }
    before = copy.deepcopy(schema)
    changed = spelling.with_changed_references(schema, lambda reference: reference + "!")
    assert changed == {
        "$ref": "#/a!",
        "items": {"$dynamicRef": "#b!", "default": {"$ref": "#/a"}},
        "not": {"$recursiveRef": "#!"},
        "properties": {"$ref": {"$ref": 3}},
    }
    assert schema == before
    only_one = spelling.with_changed_references(schema, lambda _: "x", ("$dynamicRef",))
    assert only_one == before | {"items": {"$dynamicRef": "x", "default": {"$ref": "#/a"}}}
    assert spelling.with_changed_references(True, str.upper) is True


@pytest.mark.parametrize(
    ("schema", "moved"),
    [
        ({"$ref": "#/a"}, {"allOf": [{"$ref": "#/a"}]}),
        ({"$ref": "#/a", "allOf": [{}], "title": "T"}, {"allOf": [{}, {"$ref": "#/a"}], "title": "T"}),
    ],
)
def test_a_reference_moves_to_the_end_of_all_of(schema, moved):
    spelling.move_reference_into_all_of(schema)
    assert schema == moved


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        ({"required": ["a"]}, {"a": {}}),
        ({"required": ["a", "b"], "properties": {"b": LEAF}}, {"b": LEAF, "a": {}}),
        ({"required": ["a"], "additionalProperties": LEAF}, {"a": LEAF}),
        ({"required": ["a"], "additionalProperties": True}, {"a": {}}),
        ({"required": ["a"], "additionalProperties": False}, None),
        ({"properties": {"b": LEAF}}, {"b": LEAF}),
        ({}, None),
    ],
)
def test_required_names_become_properties(schema, declared):
    expected = schema | ({} if declared is None else {"properties": declared})
    spelling.declare_required(schema)
    assert schema == expected


def test_declared_members_share_no_schema():
    schema = {"required": ["a", "b"], "additionalProperties": {"enum": [1]}}
    spelling.declare_required(schema)
    schema["properties"]["a"]["enum"].append(2)
    assert schema["properties"]["b"] == schema["additionalProperties"] == {"enum": [1]}


@pytest.mark.parametrize(
    ("schema", "modern", "is_old"),
    [
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}, True),
        ({"items": [LEAF], "additionalItems": False}, {"prefixItems": [LEAF], "items": False}, True),
        ({"items": LEAF, "additionalItems": False}, {"items": LEAF, "additionalItems": False}, False),
        (
            {"type": ["a", "a", "b"], "required": ["b", "a", "b"]},
            {"type": ["a", "b"], "required": ["b", "a"]},
            False,
        ),
        ({"type": "a", "required": ["a", 1, 1]}, {"type": "a", "required": ["a", 1, 1]}, False),
        ({"title": "T"}, {"title": "T"}, False),
    ],
)
def test_old_keywords_of_a_level_are_replaced(schema, modern, is_old):
    assert spelling.modernize(schema) is is_old
    assert schema == modern


@pytest.mark.parametrize(
    ("path", "schema", "keyword", "remaining"),
    [
        (("type",), {"type": 1, "title": "T"}, "type", {"title": "T"}),
        (("type", 0), {"type": [1]}, "type", {}),
        (("gone",), {"title": "T"}, "gone", {"title": "T"}),
        (("properties", "a", "type"), {"properties": {"a": {"type": 1}}}, "type", {"properties": {"a": {}}}),
        (
            ("properties", "a"),
            {"properties": {"a": 1, "b": {}}},
            "properties",
            {"properties": {"a": {}, "b": {}}},
        ),
        (("properties", "a", "b"), {"properties": {"a": 1}}, "properties", {"properties": {"a": {}}}),
        (("properties", 5, "type"), {"properties": {"5": {"type": 1}}}, "type", {"properties": {"5": {}}}),
        (("properties", "gone", "type"), {"properties": {"a": {}}}, "properties", {}),
        (("properties",), {"properties": 1, "title": "T"}, "properties", {"title": "T"}),
        (("properties", "a"), {"properties": 1}, "properties", {}),
        (("anyOf", 1, "type"), {"anyOf": [{}, {"type": 1}]}, "type", {"anyOf": [{}, {}]}),
        (("anyOf", 1), {"anyOf": [{"type": "null"}, 1]}, "anyOf", {"anyOf": [{"type": "null"}, {}]}),
        (("anyOf",), {"anyOf": 1}, "anyOf", {}),
        (("items",), {"items": 1}, "items", {"items": {}}),
        (("items", "type"), {"items": {"type": 1, "title": "T"}}, "type", {"items": {"title": "T"}}),
        (("items", 0, "type"), {"items": [{"type": 1}]}, "type", {"items": [{}]}),
        (("not",), {}, "not", {}),
        (
            ("$defs", "A", "items", "not"),
            {"$defs": {"A": {"items": {"not": 1}}}},
            "not",
            {"$defs": {"A": {"items": {"not": {}}}}},
        ),
        ((), {"type": 1}, "", {"type": 1}),
    ],
)
def test_the_keyword_at_a_path_is_removed(path, schema, keyword, remaining):
    assert spelling.remove_at(schema, path) == keyword
    assert schema == remaining


FAMILY = {
    "allOf": [{"$ref": "#/1"}, True],
    "properties": {"a": {"$ref": "#/2", "$dynamicRef": "#3"}, "$ref": {"items": {"$recursiveRef": "#"}}},
    "enum": [{"$ref": "#/no"}],
    "items": [{"$ref": "#/4"}],
    "not": {"$ref": 5},
    "$defs": {"A": {"$ref": "#/6"}},
    "dependentSchemas": {"a": {"title": "D"}},
    "x-own": {"$ref": "#/no"},
}


def test_references_of_all_schemas_inside():
    assert sorted(subschemas.references(FAMILY)) == ["#", "#/1", "#/2", "#/4", "#/6", "#3"]
    assert list(subschemas.references(FAMILY, ("$dynamicRef",))) == ["#3"]
    assert list(subschemas.own_references(FAMILY["properties"]["a"])) == ["#/2", "#3"]
    assert list(subschemas.own_references(FAMILY["properties"]["a"], ("$ref",))) == ["#/2"]
    assert list(subschemas.own_references(True)) == []


def test_children_have_their_places():
    assert list(subschemas.children(FAMILY)) == [
        ("allOf", "0", {"$ref": "#/1"}),
        ("allOf", "1", True),
        ("properties", "a", FAMILY["properties"]["a"]),
        ("properties", "$ref", FAMILY["properties"]["$ref"]),
        ("items", "0", {"$ref": "#/4"}),
        ("not", None, {"$ref": 5}),
        ("$defs", "A", {"$ref": "#/6"}),
        ("dependentSchemas", "a", {"title": "D"}),
    ]
    assert list(subschemas.children(False)) == []
    assert list(subschemas.children({"allOf": {"a": {}}, "properties": [{}], "items": True})) == [
        ("items", None, True)
    ]
    assert list(subschemas.in_place(FAMILY)) == [{"$ref": "#/1"}, True, {"$ref": 5}, {"title": "D"}]


@pytest.mark.parametrize("keyword", [*subschemas.IN_PLACE, *subschemas.PARTS])
def test_a_keyword_with_one_schema_is_walked(keyword):
    inner = {"title": "inner"}
    schema = {keyword: inner}
    assert list(subschemas.walk(schema)) == [schema, inner]
    assert subschemas.mapped(schema, lambda part: {**part, "new": 1}) == {
        keyword: {"title": "inner", "new": 1},
        "new": 1,
    }


@pytest.mark.parametrize("keyword", [*subschemas.IN_PLACE_LISTS, "prefixItems", "items"])
def test_a_keyword_with_a_list_of_schemas_is_walked(keyword):
    inner = {"title": "inner"}
    schema = {keyword: [inner, False]}
    assert list(subschemas.walk(schema)) == [schema, inner]
    assert subschemas.mapped(schema, lambda part: {**part, "new": 1}) == {
        keyword: [{"title": "inner", "new": 1}, False],
        "new": 1,
    }


@pytest.mark.parametrize(
    "keyword", [*subschemas.IN_PLACE_MAPS, *subschemas.PART_MAPS, *subschemas.DEFINITIONS]
)
def test_a_keyword_with_named_schemas_is_walked(keyword):
    inner = {"title": "inner"}
    schema = {keyword: {"a": inner, "b": ["no schema"]}}
    assert list(subschemas.walk(schema)) == [schema, inner]
    assert subschemas.mapped(schema, lambda part: {**part, "new": 1}) == {
        keyword: {"a": {"title": "inner", "new": 1}, "b": ["no schema"]},
        "new": 1,
    }


def test_other_values_are_not_walked():
    schema = {"allOf": {"a": {}}, "properties": [{}], "enum": [{}], "const": {}, "x-own": {}}
    assert list(subschemas.walk(schema)) == [schema]
    assert subschemas.mapped(schema, lambda part: {**part, "new": 1}) == {**schema, "new": 1}
    assert list(subschemas.walk([{}])) == []
    assert subschemas.mapped(True, lambda part: {}) is True
