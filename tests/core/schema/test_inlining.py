"""A schema without references validates as the schema does, unless a remark names a cut."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.schema import subschemas
from core.schema.inlining import MAX_LENGTH, MAX_PARTS, Inliner, inlined, joined

A = {"type": "string", "maxLength": 2}
links = st.sampled_from(["#/$defs/a", "#/$defs/b", "#/$defs/c"])
parts = st.recursive(
    st.sampled_from([{}, A, {"type": "integer"}]) | links.map(lambda link: {"$ref": link}),
    lambda inside: (
        st.dictionaries(st.sampled_from(["x", "y"]), inside, max_size=2).map(
            lambda members: {"type": "object", "properties": members}
        )
        | inside.map(lambda subschema: {"type": "array", "items": subschema})
        | st.lists(inside, min_size=1, max_size=2).map(lambda subschema: {"anyOf": subschema})
        | st.tuples(links, inside).map(lambda parts: {"$ref": parts[0], **parts[1]})
    ),
    max_leaves=5,
)
values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "xx", "xxx"]),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), inside),
    max_leaves=5,
)


@settings(max_examples=100)
@given(parts, st.fixed_dictionaries(dict.fromkeys("abc", parts)), values)
def test_judges_as_before_unless_something_was_cut(schema, defined, value):
    schema = {**schema, "$defs": defined}

    without, is_cut = inlined(schema)

    assert not list(subschemas.references(without))
    if not is_cut:
        judges = [jsonschema_rs.Draft202012Validator(schema) for schema in (schema, without)]
        assert judges[0].is_valid(value) == judges[1].is_valid(value)


@pytest.mark.parametrize(
    "reference", ["#", "#/$defs/itself", "#/nowhere", "#anchor", "https://example.com/schema", 5]
)
def test_what_leads_nowhere_or_back_is_cut(reference):
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": reference}},
        "$defs": {"itself": {"$ref": reference}},
    }
    assert inlined(schema) == ({"properties": {"a": {}}}, True)


def test_references_that_multiply_are_cut_before_they_are_too_many():
    defined = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    without, is_cut = inlined({"$ref": "#/$defs/d0", "$defs": {**defined, "d12": A}})
    assert is_cut
    assert len(list(subschemas.walk(without))) < 10 * MAX_PARTS


DOCUMENT = {
    "$id": "http://a.example/",
    "$schema": "S",
    "$defs": {
        "A": {**A, "$anchor": "a", "id": "I"},
        "Tree": {"properties": {"next": {"$ref": "#/$defs/Tree"}}},
        "No": False,
        "Yes": True,
        "Titled": {"title": "T", "type": "null"},
    },
    "title": "Document",
}


@pytest.mark.parametrize(
    ("schema", "expected", "is_cut"),
    [
        ({"$ref": "#/$defs/A"}, A, False),
        ({"items": {"$ref": "#/$defs/A"}}, {"items": A}, False),
        ({"$ref": "#/$defs/A", "title": "T"}, {**A, "title": "T"}, False),
        ({"$ref": "#/$defs/Titled", "title": "U"}, {"title": "U", "type": "null"}, False),
        ({"$ref": "#/$defs/A", "maxLength": 2}, A, False),
        ({"$ref": "#/$defs/A", "maxLength": 1}, {"maxLength": 1, "allOf": [A]}, False),
        ({"$ref": "#/$defs/A", "type": "null", "allOf": [{}]}, {"type": "null", "allOf": [{}, A]}, False),
        ({"$ref": "#/$defs/No", "title": "T"}, {"title": "T", "not": {}}, False),
        ({"$ref": "#/$defs/Yes", "title": "T"}, {"title": "T"}, False),
        ({"$ref": "#/$defs/Tree"}, {"properties": {"next": {}}}, True),
        ({"$ref": "#/$defs/gone", "title": "T"}, {"title": "T"}, True),
        ({"$ref": "other", "title": "T"}, {"title": "T"}, True),
        ({"$dynamicRef": "#/$defs/A"}, A, False),
        ({"enum": [{"$ref": "#/$defs/A"}]}, {"enum": [{"$ref": "#/$defs/A"}]}, False),
    ],
    ids=str,
)
def test_targets_replace_references(schema, expected, is_cut):
    assert inlined({**DOCUMENT, **schema}) == ({"title": "Document", **expected}, is_cut)
    inliner = Inliner(DOCUMENT)
    assert inliner.inline_once(schema) == (None if is_cut else expected)
    assert inliner.is_cut is is_cut
    # The next schema of the document is not cut because of this one.
    assert inliner.inline_once({"type": "null"}) == {"type": "null"}
    assert inliner.is_cut is False


def test_the_root_is_no_target_inside_itself():
    schema = {"properties": {"a": {"$ref": "#"}}}
    assert inlined(schema) == ({"properties": {"a": {}}}, True)
    assert Inliner(schema).inline_once({"$ref": "#"}) is None


def test_keywords_beside_a_target_that_is_no_object():
    assert joined({"title": "T"}, False) == {"title": "T", "not": {}}
    assert joined({"title": "T"}, 3) == {"title": "T"}
    assert joined({"default": 1, "type": "null"}, {"default": 2}) == {"default": 1, "type": "null"}


@pytest.mark.parametrize(
    "shared",
    [
        {"enum": [f"value {n}" for n in range(40_000)]},
        {"description": "word " * 100_000},
        {"properties": {f"{n}" + "n" * 9_000: {} for n in range(50)}},
    ],
)
def test_long_targets_that_multiply_are_cut_before_they_are_too_long(shared):
    schema = {"$defs": {"a": shared}, "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(900)}}
    inlined_schema, is_cut = inlined(schema)
    length = len(json.dumps(inlined_schema))
    assert is_cut
    assert MAX_LENGTH * 0.5 < length < MAX_LENGTH * 1.5
    assert inlined_schema["properties"]["p0"] == shared
