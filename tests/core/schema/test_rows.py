"""Schemas as rows of a form: what was left alone comes back to the letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.canonical_json import canonical
from core.schema import rows
from core.schema.rows import Row, RowError
from tests.core.schema import schemas

MEMBERS = {
    "text": {"type": "string", "description": "Words", "default": "none"},
    "place": {"type": "string", "enum": ["here", "there"], "default": "here"},
    "count": {"type": "integer", "minimum": 1, "default": 3},
    "share": {"type": "number", "default": 0.5},
    "now": {"type": "boolean", "default": False},
    "day": {"type": "string", "format": "date", "default": "2027-03-09"},
    "names": {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]},
    "nested": {"type": "object", "properties": {"x": {"type": "string"}}},
}
SCHEMA = {
    "type": "object",
    "properties": MEMBERS,
    "required": ["count", "text"],
    "additionalProperties": False,
}


def untouched(schema):
    return [(row, row.name) for row in rows.rows_of(schema)]


def test_rows_show_members_as_a_person_writes_them():
    rows_by_name = {row.name: row for row in rows.rows_of(SCHEMA)}
    assert [rows_by_name[name].kind for name in MEMBERS] == [
        *("text", "choice", "whole", "number", "flag", "date", "texts", "other")
    ]
    assert rows_by_name["place"] == Row("place", "choice", values=("here", "there"), default="here")
    assert [rows_by_name[name].default for name in ("count", "share", "now", "day", "names")] == [
        *("3", "0.5", "no", "2027-03-09", "a\nb")
    ]
    assert [name for name in MEMBERS if rows_by_name[name].is_required] == ["text", "count"]
    assert rows.beside(MEMBERS["count"]) == {"minimum": 1}
    assert rows.beside(MEMBERS["place"]) == {}


@given(schemas.objects(), st.data())
def test_rows_that_are_left_alone_change_nothing(schema, data):
    schema = {**schema, "type": "object"}
    if not rows.is_in_rows(schema):
        return
    assert canonical(rows.rewritten(schema, untouched(schema))) == canonical(schema)
    # One that is changed leaves the others as they were.
    pairs = untouched(schema)
    if pairs:
        row, was = data.draw(st.sampled_from(pairs))
        changed = [
            (Row(row.name, row.kind, "Said anew", row.is_required, row.values, row.default), name)
            if name == was
            else (row, name)
            for row, name in pairs
        ]
        properties = rows.rewritten(schema, changed)["properties"]
        for name, member in schema["properties"].items():
            if name != was:
                assert canonical(properties[name]) == canonical(member)
        assert row.description == "Said anew" or properties[was]["description"] == "Said anew"


def test_a_row_changes_what_was_changed_in_it_and_keeps_the_rest():
    schema = rows.schema_of(Row("count", "whole", "How many", default="5"), MEMBERS["count"])
    assert schema == {"type": "integer", "minimum": 1, "default": 5, "description": "How many"}
    assert rows.schema_of(Row("count", "text"), MEMBERS["count"]) == {"type": "string"}
    nested = rows.schema_of(Row("nested", "other", "A thing"), MEMBERS["nested"])
    assert nested == MEMBERS["nested"] | {"description": "A thing"}
    assert rows.schema_of(Row("x", "choice", values=("a", "b"))) == {"type": "string", "enum": ["a", "b"]}
    assert rows.schema_of(Row("x", "other"), True) is True


def test_members_are_renamed_added_and_taken_out():
    rows_by_name = {row.name: row for row in rows.rows_of(SCHEMA)}
    rewritten_schema = rows.rewritten(
        SCHEMA,
        [
            (Row("words", "text", "Words", is_required=True, default="none"), "text"),
            (rows_by_name["now"], "now"),
            (Row("new", "flag", is_required=True), None),
        ],
    )
    assert rewritten_schema == {
        "type": "object",
        "properties": {"words": MEMBERS["text"], "now": MEMBERS["now"], "new": {"type": "boolean"}},
        "required": ["words", "new"],
        "additionalProperties": False,
    }
    assert rows.rewritten({"type": "object"}, []) == {"type": "object"}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("whole", "12", 12),
        ("number", "-1.5", -1.5),
        ("flag", "Yes", True),
        ("choice", "a", "a"),
        ("date", "2027-03-09", "2027-03-09"),
        ("text", "words", "words"),
        ("texts", "a\nb", ["a", "b"]),
        ("other", '{"a": 1}', {"a": 1}),
    ],
)
def test_a_default_is_of_the_kind_of_its_row(kind, text, value):
    assert rows.read_default(Row("x", kind, values=("a",), default=text)) == value
    if kind not in ("text", "texts"):
        with pytest.raises(RowError, match=r"Enter|Choose|Write"):
            rows.read_default(Row("x", kind, values=("a",), default="{?"))
