"""JSON Pointers, and references by pointer, against the validator."""

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.schema import pointers, read_document
from core.schema.pointers import PointerError

names = st.text(st.sampled_from("ab/~%0 ü#?\"^|'{"), max_size=4)


@given(st.lists(names, max_size=4))
@example(["a/b", "~1", "%2F", ""])
def test_what_is_joined_splits_into_the_same_steps(steps):
    assert pointers.split(pointers.join(steps)) == tuple(steps)
    assert pointers.split_fragment(pointers.join_fragment(steps)) == tuple(steps)


@given(st.lists(names, min_size=1, max_size=3))
@example(["$defs", "a%2Fb"])
@example(["a/b", "~0"])
def test_the_validator_follows_a_written_fragment_to_the_same_place(steps):
    schema = False
    for step in reversed(steps):
        schema = {step: schema}
    root = {"allOf": [{"$ref": pointers.join_fragment(["x-place", *steps])}], "x-place": schema}
    assert pointers.resolve(root, ["x-place", *steps]) is False
    assert not jsonschema_rs.Draft202012Validator(root).is_valid(1)
    assert not jsonschema_rs.Draft202012Validator(read_document(root).root).is_valid(1)


@pytest.mark.parametrize("name", ["a~1b", "a%2Fb", "a/b", "a%7E1b", "a%252Fb", "a~01b"])
def test_a_fragment_is_decoded_once_and_before_it_is_split(name):
    defined = {"a": {"b": {"const": 1}}, "a/b": {"const": 2}, "a%2Fb": {"const": 3}, "a~1b": {"const": 4}}
    schema = {"$ref": f"#/$defs/{name}", "$defs": defined}
    target = pointers.resolve(schema, pointers.split_fragment(f"#/$defs/{name}"))
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(target["const"])
    document = read_document(schema)
    assert document.level(document.root).schema == target


@pytest.mark.parametrize("reference", ["#a", "", "x#/a", "#/%ff"])
def test_what_is_no_pointer_is_refused(reference):
    with pytest.raises(PointerError):
        pointers.split_fragment(reference)


@pytest.mark.parametrize("steps", [["b"], ["a", "3"], ["a", "01"], ["a", "-"], ["a", "0", "x"], ["a", "²"]])
def test_a_pointer_to_nothing_is_refused(steps):
    with pytest.raises(PointerError):
        pointers.resolve({"a": [1, 2]}, steps)
