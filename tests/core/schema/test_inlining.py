"""A schema without references validates as the schema does, unless a remark names a cut."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.schema import subschemas
from core.schema.inlining import MAX_PARTS, inlined

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
