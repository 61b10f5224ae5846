import json

from hypothesis import given
from hypothesis import strategies as st

from core.readable_changes import describe_change, describe_facts, outline

NAMES = st.sampled_from(["name", "retry", "is_paused", "parameters", "a/b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab c", max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
FACTS = st.dictionaries(NAMES, VALUES, max_size=4)


def sentences(before, after):
    return [change.sentence for change in describe_facts(before, after)]


def test_a_replaced_value_is_in_the_sentence_on_both_sides():
    assert sentences({"Retry limit": 2}, {"Retry limit": 3}) == ["Retry limit changed from 2 to 3."]
    assert sentences({"Paused": False}, {"Paused": True}) == ["Paused changed from no to yes."]
    assert sentences({"Note": "", "A": 1}, {"Note": None, "A": 1}) == []
    assert sentences({"Alias": "", "A": 1}, {"Alias": "sky", "A": 1}) == ["Alias set to “sky”."]
    assert sentences({"Alias": "sky", "A": 1}, {"A": 1}) == ["Alias removed. It was “sky”."]


def test_a_long_text_is_beside_its_sentence_and_not_in_it():
    before, after = "One. " * 20, "Two. " * 20

    (change,) = describe_facts({"Description": before}, {"Description": after})

    assert change.sentence == "Description changed."
    assert (change.before, change.after, change.raw) == (before, after, None)


def test_a_list_names_the_items_that_came_and_went():
    before, after = {"Scopes": ["read", "write"]}, {"Scopes": ["write", "admin"]}

    assert sentences(before, after) == ["Scopes: “admin” added, “read” removed."]


def test_mappings_and_records_are_compared_member_by_member():
    before = {
        "Policy": {"drift": "hold"},
        "Steps": [{"name": "one", "url": "a"}],
        "Words": {"parameters": {}},
    }
    after = {
        "Policy": {"drift": "block"},
        "Steps": [{"name": "one", "url": "b"}, {"name": "two", "url": "c"}],
        "Words": {"parameters": {"city_name": {"hidden": True}}},
    }

    assert sentences(before, after) == [
        "Policy, drift changed from “hold” to “block”.",
        "Steps, one, url changed from “a” to “b”.",
        "Steps, two added.",
        "Words, inputs, “city_name”, hidden set to yes.",
    ]


def test_an_input_is_described_in_lines():
    city = {
        "id": "1",
        "name": "city",
        "type": "enum",
        "required": False,
        "description": "Where.",
        "allowed_values": [{"name": "ROM", "description": "Rome"}, {"name": "OSL"}],
        "schema": {"type": "string", "enum": ["ROM", "OSL"]},
    }

    change = describe_change("Input “city”", None, city)

    assert change.sentence == "Input “city” added."
    assert change.after.splitlines() == [
        "Type: enum",
        "Required: no",
        "Description: Where.",
        "Allowed values: ROM (Rome), OSL",
        "Schema / type: string",
        "Schema / enum: ROM, OSL",
    ]
    assert change.raw == (None, city)


@given(FACTS, FACTS)
def test_every_difference_has_a_sentence_without_json(before, after):
    for change in describe_facts(before, after):
        assert change.sentence.endswith((".", ":"))
        texts = f"{change.sentence}{change.before or ''}{change.after or ''}"
        assert not set(texts) & set('{}[]"')


@given(VALUES)
def test_an_outline_has_every_text_of_a_small_value(value):
    leaves = [text.replace("\\n", "\n") for text in json.dumps(value).split('"')[1::2]]
    assert all(leaf in outline(value) for leaf in leaves)
