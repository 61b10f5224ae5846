"""One level in one spelling, so that two schemas can be compared rule by rule."""

import pytest

from core.schema import members, normal_form, read_document, shown_forms, types
from core.schema.normal_form import NormalForms, is_constraining, shown_type
from core.schema.pointers import PointerError


def level_of(schema):
    document = read_document(schema)
    return NormalForms(document).level(document.root)


NEVER = {"enum": []}
A = {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]}
B = {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}


@pytest.mark.parametrize(
    ("schema", "rules"),
    [
        (True, {}),
        (False, NEVER),
        ({"not": {}, "title": "T", "type": "string"}, NEVER | {"title": "T"}),
        ({"not": True}, NEVER),
        ({"not": {"type": "null"}}, {"not": {"type": "null"}}),
        ({"const": 1}, {"enum": [1]}),
        ({"const": None, "$comment": "C", "id": "I", "title": "T"}, {"enum": [None], "title": "T"}),
        ({"enum": [1, 2], "const": 2}, {"enum": [2]}),
        ({"enum": [1, 2], "const": 3}, NEVER),
        ({"dependentRequired": {"a": ["c", "b"], "d": []}}, {"dependentRequired": {"a": ["b", "c"]}}),
        ({"dependentRequired": {"d": []}}, {}),
        *(
            ({keyword: value}, {})
            for keyword, value in [
                *(("properties", {}), ("patternProperties", {}), ("dependentSchemas", {}), ("required", [])),
                *(("minLength", 0), ("minItems", 0), ("minProperties", 0), ("uniqueItems", False)),
                *(("additionalProperties", True), ("items", True), ("items", {})),
                *(("unevaluatedProperties", True), ("unevaluatedItems", {})),
            ]
        ),
        *(
            (schema, schema)
            for schema in [
                *({"minLength": 1}, {"maxLength": 0}, {"minimum": 0}, {"items": False}),
                *({"additionalProperties": False}, {"title": ""}, {"default": None}, {"type": "null"}),
            ]
        ),
        ({"unevaluatedProperties": False}, {"additionalProperties": False}),
        ({"unevaluatedItems": False, "prefixItems": [{}]}, {"items": False, "prefixItems": [{}]}),
        ({"unevaluatedProperties": False, "additionalProperties": {"type": "null"}},
         {"additionalProperties": {"type": "null"}}),
        ({"unevaluatedItems": False, "items": {"type": "null"}}, {"items": {"type": "null"}}),
        ({"unevaluatedProperties": False, "if": {}, "then": True},
         {"unevaluatedProperties": False, "if": {}, "then": True}),
        ({"unevaluatedItems": False, "contains": {}}, {"unevaluatedItems": False, "contains": {}}),
        ({"unevaluatedProperties": False, "dependentSchemas": {"a": {}}},
         {"unevaluatedProperties": False, "dependentSchemas": {"a": {}}}),
        ({"type": ["null", "boolean", "object", "array", "number", "string"]}, {}),
        ({"type": ["null", "boolean", "object", "array", "integer", "string"]},
         {"type": ["null", "boolean", "object", "array", "integer", "string"]}),
        # Unions that only list types or values.
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "number", "minimum": 1}]},
         {"type": ["string", "number"], "maxLength": 3, "minimum": 1}),
        ({"anyOf": [{"const": 1}, {"enum": ["a", "b"]}, {"type": "null"}], "title": "T"},
         {"title": "T", "enum": [1, "a", "b", None]}),
        ({"anyOf": [{"enum": [1.5], "type": "number"}, {"type": "string"}]},
         {"anyOf": [{"enum": [1.5], "type": "number"}, {"type": "string"}]}),
        ({"anyOf": [{"type": "string"}, {"enum": [1]}]}, {"anyOf": [{"type": "string"}, {"enum": [1]}]}),
        ({"anyOf": [{"type": ["null", "string"]}, {"type": "integer"}], "type": "integer"},
         {"type": "integer"}),
        ({"anyOf": [{"anyOf": [{"type": "null"}, {"type": "array"}]}, {"type": "string"}]},
         {"type": ["null", "array", "string"]}),
        # Two touch one type, or one limits the type of another.
        ({"anyOf": [{"type": "number"}, {"type": "integer"}]},
         {"anyOf": [{"type": "number"}, {"type": "integer"}]}),
        ({"anyOf": [{"type": "string"}, {"type": "null", "maxLength": 1}]},
         {"anyOf": [{"type": "string"}, {"type": "null", "maxLength": 1}]}),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "integer", "format": "int32"}]},
         {"anyOf": [{"type": "string", "format": "date"}, {"type": "integer", "format": "int32"}]}),
        # No value fits two of the branches.
        ({"oneOf": [A, B]}, {"anyOf": [A, B]}),
        ({"oneOf": [{"enum": [1, "a"]}, {"enum": [2, "b"]}, {"minimum": 1}]},
         {"oneOf": [{"enum": [1, "a"]}, {"enum": [2, "b"]}, {"minimum": 1}]}),
        ({"oneOf": [{"type": "string"}, {"type": "integer", "not": {"const": 1}}]},
         {"anyOf": [{"type": "string"}, {"type": "integer", "not": {"const": 1}}]}),
        ({"oneOf": [A, A]}, {"oneOf": [A, A]}),
        ({"oneOf": [A, {**B, "required": []}]}, {"oneOf": [A, {**B, "required": []}]}),
        ({"oneOf": [{**A, "required": []}, B]}, {"oneOf": [{**A, "required": []}, B]}),
        ({"oneOf": [{**A, "type": ["object", "null"]}, B]},
         {"oneOf": [{**A, "type": ["object", "null"]}, B]}),
        ({"oneOf": [A, {"type": "object", "required": ["kind"]}]},
         {"oneOf": [A, {"type": "object", "required": ["kind"]}]}),
        ({"oneOf": [A, B], "anyOf": [{"minProperties": 1}, {"maxProperties": 3}]},
         {"oneOf": [A, B], "anyOf": [{"minProperties": 1}, {"maxProperties": 3}]}),
    ],
    ids=str,
)  # fmt: skip
def test_level_in_normal_form(schema, rules):
    level = level_of(schema)
    assert (level.schema, level.apart) == (rules, ())


def test_a_level_with_other_schemas_apart_keeps_its_rules():
    level = level_of(
        {"pattern": "a", "unevaluatedProperties": False, "allOf": [{"pattern": "b", "minLength": 0}]}
    )
    assert level.schema == {"pattern": "a", "unevaluatedProperties": False}
    assert level.apart == ({"pattern": "b"},)
    branches = [{"type": "null"}, {"type": "string", "pattern": "a", "allOf": [{"pattern": "b"}]}]
    assert level_of({"anyOf": branches}).schema == {"anyOf": branches}
    level = level_of({"pattern": "a", "allOf": [{"pattern": "b"}], "oneOf": [A, B, {"type": "string"}]})
    assert level.schema == {"pattern": "a", "anyOf": [A, B, {"type": "string"}]}
    assert level.apart == ({"pattern": "b"},)


@pytest.mark.parametrize(("count", "keyword"), [(50, "enum"), (51, "anyOf")])
def test_a_large_union_stays(count, keyword):
    assert level_of({"anyOf": [{"const": [number]} for number in range(count)]}).schema.keys() == {"anyOf"}
    branches = [{"type": "null"}] + [NEVER] * (count - 1)
    assert level_of({"anyOf": branches}).schema.keys() == {keyword}


def test_a_level_is_computed_once():
    document = read_document({"properties": {"a": {"const": 1}}})
    forms = NormalForms(document)
    assert forms.document is document
    assert forms.level(document.root) is forms.level(document.root)


ROOT = {
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "allOf": [{"properties": {"a": {"minLength": 1}, "c": {"type": "null"}}, "required": ["d"]}],
}


@pytest.mark.parametrize(
    ("schema", "names", "own_names", "rules"),
    [
        (True, {"a"}, {"a"}, {}),
        (False, {"a"}, {"a"}, NEVER),
        ({"properties": {"a": {}}, "required": ["a"], "title": "T"}, {"a"}, {"a"}, {"title": "T"}),
        ({"properties": {"a": {}}, "required": ["a"]}, set(), set(), {"required": ["a"]}),
        (
            ROOT,
            {"a", "b"},
            {"b"},
            {"additionalProperties": False, "required": ["a", "d"], "properties": {"a": {"minLength": 1}}},
        ),
    ],
)  # fmt: skip
def test_root_without_its_members(schema, names, own_names, rules):
    assert NormalForms(read_document(schema)).root_without_members(names, own_names).schema == rules


@pytest.mark.parametrize(
    ("schema", "is_limited"),
    [
        *((({keyword: 1}), True) for keyword in ("minimum", "format", "maxItems", "minContains", "required")),
        *(
            (({keyword: 1}), True)
            for keyword in ("type", "enum", "anyOf", "oneOf", "not", "if", "then", "else")
        ),
        *((({keyword: 1}), False) for keyword in ("title", "default", "x-own", "$comment")),
    ],
)
def test_a_level_that_some_value_breaks(schema, is_limited):
    assert is_constraining(normal_form.Level(schema)) is is_limited
    assert is_constraining(normal_form.Level({}, ({"pattern": "a"},)))


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["null", "string"]}, ["null", "string"]),
        ({}, "anything"),
        ({"enum": ["a", None]}, ["null", "string"]),
        ({"enum": [1.5]}, ["number"]),
        ({"enum": [1, "a"]}, ["string"]),
        ({"enum": []}, []),
    ],
)
def test_type_as_a_person_reads_it(schema, shown):
    assert shown_type(schema) == shown


def test_types_that_a_keyword_limits():
    limited = {keyword: sorted(normal_form.APPLIES_TO[keyword]) for keyword in normal_form.APPLIES_TO}
    assert limited["minimum"] == limited["multipleOf"] == ["fraction", "integer"]
    assert limited["format"] == ["fraction", "integer", "string"]
    assert limited["pattern"] == limited["contentSchema"] == ["string"]
    assert limited["required"] == limited["unevaluatedProperties"] == ["object"]
    assert limited["contains"] == limited["unevaluatedItems"] == ["array"]
    assert len(limited) == 31


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (True, ["m"]),
        ({"type": "string"}, ["m"]),
        ({"properties": {"a": {}, "b": {"properties": {"c": {}}}}}, ["m", "m.a", "m.b", "m.b.c"]),
        ({"items": {"properties": {"a": {}}}}, ["m", "m.a"]),
        ({"items": {"items": {"properties": {"a": {}}}}}, ["m", "m.a"]),
        ({"properties": [], "items": True}, ["m"]),
        ({"properties": {"a": {}}, "allOf": [{"properties": {"a": {"properties": {"x": {}}}, "b": {}}}]},
         ["m", "m.a", "m.b"]),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {}}}}}, ["m", "m.a"]),
        ({"properties": {"a": {"$ref": "#"}}}, ["m", "m.a"]),
    ],
)  # fmt: skip
def test_members_at_all_depths(schema, names):
    assert [".".join(steps) for steps, _ in members.members_of("m", schema)] == names


def test_members_have_their_schemas_down_to_a_depth():
    schema: dict = {"title": "10"}
    for number in range(9, 0, -1):
        schema = {"title": str(number), "properties": {"a": schema}}
    member_schemas = list(members.members_of("m", schema))
    assert [member["title"] for _, member in member_schemas] == ["1", "2", "3", "4", "5", "6", "7"]
    assert member_schemas[2][0] == ("m", "a", "a")


def test_flags_and_formats_of_all_schemas_of_a_value():
    schema = {
        "format": "date",
        "allOf": [{"format": "time", "anyOf": [{"writeOnly": True}, True]}, {"format": 3}],
        "properties": {"a": {"format": "uuid"}},
    }
    assert members.formats_of(schema) == {"date", "time"}
    assert members.is_write_only(schema)
    assert not members.is_write_only({"writeOnly": "yes", "properties": {"a": {"writeOnly": True}}})
    assert not members.is_write_only(True)
    assert members.formats_of(None) == set()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {}}, ["object"]),
        ({"items": {}}, ["array"]),
        ({"items": {}, "properties": {}}, ["object"]),
        ({"minimum": 1}, []),
    ],
)
def test_type_by_keywords(schema, words):
    assert types.guess_words(schema) == words


ROOT_WITH_DEFINITIONS = {
    "$defs": {"A": {"title": "A", "type": "string"}, "B": {"allOf": [{"$ref": "#/$defs/A"}]}}
}


@pytest.mark.parametrize(
    ("schema", "followed"),
    [
        ({"title": "T"}, {"title": "T"}),
        ({"$ref": "#/$defs/A", "title": "lost"}, {"title": "A", "type": "string"}),
        ({"$ref": "#/$defs/B"}, {"title": "A", "type": "string", "allOf": [{"$ref": "#/$defs/A"}]}),
        ({"allOf": [{"title": "inner", "type": "null"}], "title": "outer"},
         {"title": "outer", "type": "null", "allOf": [{"title": "inner", "type": "null"}]}),
        ({"allOf": [{}, {"type": "null"}]}, {"allOf": [{}, {"type": "null"}]}),
        ({"allOf": []}, {"allOf": []}),
    ],
)  # fmt: skip
def test_reference_or_only_part_is_put_in_place(schema, followed):
    assert shown_forms.followed(schema, ROOT_WITH_DEFINITIONS) == followed


def test_a_reference_to_nothing_is_an_error_where_it_is_followed():
    with pytest.raises(PointerError):
        shown_forms.followed({"$ref": "#/gone"}, {})


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "T"}, {"type": "string", "title": "T"}),
        ({"oneOf": [{"type": "null"}, {"title": "inner"}], "title": "T"}, {"title": "T"}),
        ({"anyOf": [{"type": "string"}]}, {"type": "string"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, None),
        ({"anyOf": [True]}, None),
        ({"anyOf": [{"type": "null"}]}, None),
        ({"anyOf": {"a": 1}}, None),
        ({}, None),
    ],
)
def test_only_form_beside_null(schema, form):
    assert shown_forms.only_form(schema) == form


@pytest.mark.parametrize(
    ("schema", "root", "shown"),
    [
        ({"$ref": "#/$defs/A", "title": "T"}, ROOT_WITH_DEFINITIONS, {"title": "T", "type": "string"}),
        ({"$ref": "#/$defs/A"}, None, {"$ref": "#/$defs/A"}),
        ({"$ref": "#/gone", "title": "T"}, {}, {"$ref": "#/gone", "title": "T"}),
        ({"$ref": "#/a"}, {"a": True}, {"$ref": "#/a"}),
        ({"$ref": 3}, {}, {"$ref": 3}),
        ({"type": "object", "anyOf": [{"title": "T"}]}, {}, {"type": "object", "anyOf": [{"title": "T"}]}),
        ({"enum": [1], "anyOf": [{"title": "T"}]}, {}, {"enum": [1], "anyOf": [{"title": "T"}]}),
        ({"const": 1, "anyOf": [{"title": "T"}]}, {}, {"const": 1, "anyOf": [{"title": "T"}]}),
        ({"anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]}, None, {"type": "string"}),
        ({"$ref": "#/a"}, {"a": {"$ref": "#/a"}}, {"$ref": "#/a"}),
    ],
)
def test_form_that_a_person_is_shown(schema, root, shown):
    assert shown_forms.shown_form(schema, root) == shown


@pytest.mark.parametrize("steps", [8, 9])
def test_form_is_found_within_some_steps(steps):
    schema: dict = {"type": "string"}
    for _ in range(steps):
        schema = {"anyOf": [schema]}
    assert shown_forms.shown_form(schema) == (
        {"type": "string"} if steps == 8 else {"anyOf": [{"type": "string"}]}
    )
