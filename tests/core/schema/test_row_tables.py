"""Each kind of row, what a person may enter as its default, and what is shown of a vendor's."""

import pytest

from core.schema import rows
from core.schema.rows import Row, RowError

TEXTS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "has_rows"),
    [
        ({"type": "object"}, True),
        ({"type": "object", "properties": {"a": {}, "b": True}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": 1}}, False),
        ({"type": "object", "properties": []}, False),
        ({"type": "object", "required": "a"}, False),
        ({"type": "object", "required": [1]}, False),
        ({"type": "array"}, False),
        ({"type": ["object"]}, False),
        ({"properties": {}}, False),
        (True, False),
        (None, False),
    ],
)
def test_schema_that_rows_can_show(schema, has_rows):
    assert rows.is_in_rows(schema) is has_rows


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "text"),
        ({"type": "integer"}, "whole"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "flag"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "integer", "format": "date"}, "whole"),
        ({"type": "string", "format": "time"}, "text"),
        ({"type": "string", "enum": ["a", "b"]}, "choice"),
        ({"type": "string", "format": "date", "enum": ["a"]}, "choice"),
        (TEXTS, "texts"),
        *(
            (schema, "other")
            for schema in [
                *(True, {}, {"type": "null"}, {"type": "object"}, {"type": ["string"]}, {"type": "array"}),
                *({"type": "array", "items": {"type": "integer"}}, TEXTS | {"enum": [["a"]]}),
                *({"enum": ["a"]}, {"type": "integer", "enum": [1]}, {"type": "string", "enum": []}),
                *({"type": "string", "enum": "a"}, {"type": "string", "enum": ["a", 1]}),
                *({"type": "string", "enum": [text]} for text in ("", " a", "a ", "a\nb")),
            ]
        ),
        *(
            ({"type": "string", keyword: {}}, "other")
            for keyword in ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "const")
        ),
    ],
    ids=str,
)
def test_kind_of_a_member(schema, kind):
    assert rows.kind_of(schema) == kind
    assert kind in rows.KINDS


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "string", "default": "a"}, "a"),
        ({"type": "string", "default": " a"}, ""),
        ({"type": "string", "default": "a\r\nb"}, ""),
        ({"type": "string", "default": "a\nb"}, "a\nb"),
        ({"type": "string", "default": 1}, ""),
        ({"type": "string", "enum": ["a"], "default": "a"}, "a"),
        ({"type": "string", "format": "date", "default": "2027-03-09"}, "2027-03-09"),
        ({"type": "integer", "default": 5}, "5"),
        ({"type": "integer", "default": True}, ""),
        ({"type": "integer", "default": "5"}, ""),
        ({"type": "number", "default": 2.5}, "2.5"),
        ({"type": "boolean", "default": True}, "yes"),
        ({"type": "boolean", "default": False}, "no"),
        ({"type": "boolean", "default": 1}, ""),
        (TEXTS | {"default": ["a", "b c"]}, "a\nb c"),
        (TEXTS | {"default": []}, ""),
        (TEXTS | {"default": ["a", ""]}, ""),
        (TEXTS | {"default": "a"}, ""),
        ({"default": {"b": [1], "a": None}}, '{"a":null,"b":[1]}'),
        ({"default": None}, "null"),
        ({}, ""),
    ],
    ids=str,
)
def test_default_as_a_person_writes_it(schema, shown):
    assert rows.row_of("a", schema).default == shown


def test_a_row_of_a_member():
    schema = {"type": "string", "enum": ["a", "b"], "description": " A\r\nB\rC ", "default": "b"}
    assert rows.row_of("m", schema, is_required=True) == Row("m", "choice", "A\nB\nC", True, ("a", "b"), "b")
    assert rows.row_of("m", {"description": 3, "enum": ["a"]}) == Row("m", "other")
    assert rows.row_of("m", True, is_required=True) == Row("m", "other", is_required=True)
    assert rows.row_of("m", False) == Row("m", "other")


@pytest.mark.parametrize(
    ("schema", "expected_rows"),
    [
        ({}, []),
        ({"properties": None, "required": None}, []),
        (
            {"properties": {"b": {"type": "string"}, "a": True}, "required": ["a", "c"]},
            [Row("b", "text"), Row("a", "other", is_required=True)],
        ),
    ],
)
def test_rows_of_a_schema(schema, expected_rows):
    assert rows.rows_of(schema) == expected_rows


@pytest.mark.parametrize(
    ("schema", "others"),
    [
        (True, {}),
        ({"type": "string", "description": "D", "default": "a", "minLength": 1}, {"minLength": 1}),
        ({"type": "string", "format": "date", "title": "T"}, {"title": "T"}),
        ({"type": "string", "format": "time"}, {"format": "time"}),
        (TEXTS | {"minItems": 1}, {"minItems": 1}),
        ({"type": "null"}, {"type": "null"}),
        ({"enum": [1], "x-a": 1}, {"x-a": 1}),
    ],
)
def test_keywords_that_a_row_does_not_show(schema, others):
    assert rows.beside(schema) == others


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("whole", " 12 ", 12),
        ("whole", "-123456789012345", -123456789012345),
        ("number", "3", 3),
        ("number", "-123456789012345.123456789012345", -123456789012345.123456789012345),
        ("flag", "YES", True),
        ("flag", "true", True),
        ("flag", "no", False),
        ("flag", "False", False),
        ("choice", " a ", "a"),
        ("date", " 2027-03-09 ", "2027-03-09"),
        ("text", " words ", " words "),
        ("texts", " a\r\nb ", ["a", "b"]),
        ("other", " [1] ", [1]),
    ],
)
def test_an_entered_default_is_read(kind, text, value):
    read_value = rows.read_default(Row("x", kind, values=("a",), default=text))
    assert (read_value, type(read_value)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "texts", "message"),
    [
        ("whole", ["", "1.5", "a", "1234567890123456", "--1"], "Enter a whole number, such as 10."),
        (
            "number",
            ["", ".5", "1.", "1e3", "1234567890123456", "1.1234567890123456"],
            "Enter a number, such as 2.5.",
        ),
        ("flag", ["", "y", "1"], "Write yes or no."),
        ("choice", ["", "b"], "Choose one of the values of the list."),
        ("date", ["", "2027-3-9", "2027-03-09T", "09.03.2027"], "Enter a date such as 2027-03-09."),
        ("other", ["", "{", "a"], "Enter the value as JSON."),
    ],
)
def test_a_default_of_another_kind_is_refused(kind, texts, message):
    for text in texts:
        with pytest.raises(RowError) as error:
            rows.read_default(Row("x", kind, values=("a",), default=text))
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("row", "vendor_schema", "schema"),
    [
        (Row("a", "text"), None, {"type": "string"}),
        (Row("a", "date"), None, {"type": "string", "format": "date"}),
        (Row("a", "texts", "D", default="x\ny"), None, TEXTS | {"description": "D", "default": ["x", "y"]}),
        (Row("a", "number"), None, {"type": "number"}),
        (Row("a", "flag", default="no"), None, {"type": "boolean", "default": False}),
        (Row("a", "choice"), None, {"type": "string"}),
        (Row("a", "other"), None, {}),
        (Row("a", "other"), False, False),
        (Row("a", "other", "D"), False, {"description": "D"}),
        (Row("a", "other", default="1"), True, {"default": 1}),
        (Row("a", "text"), {"type": "string", "description": "D", "default": "a"}, {"type": "string"}),
        (
            Row("a", "text", default="b"),
            {"type": "string", "minLength": 1},
            {"type": "string", "minLength": 1, "default": "b"},
        ),
        (Row("a", "text"), {"type": "string", "default": " a"}, {"type": "string", "default": " a"}),
        (Row("a", "whole"), {"type": "string", "description": "D", "minLength": 1}, {"type": "integer"}),
        (
            Row("a", "choice", values=("b",)),
            {"type": "string", "enum": ["a"], "x-a": 1},
            {"type": "string", "enum": ["b"], "x-a": 1},
        ),
        (
            Row("a", "choice", values=("a",)),
            {"type": "string", "enum": ["a"]},
            {"type": "string", "enum": ["a"]},
        ),
    ],
)
def test_schema_of_a_row(row, vendor_schema, schema):
    assert rows.schema_of(row, vendor_schema) == schema


@pytest.mark.parametrize(
    ("schema", "pairs", "rewritten"),
    [
        ({}, [], {}),
        ({"properties": {}}, [], {"properties": {}}),
        ({"required": []}, [], {"required": []}),
        ({}, [(Row("a", "text"), None)], {"properties": {"a": {"type": "string"}}}),
        (
            {"properties": {"a": True}, "required": ["lost", "a"]},
            [(Row("b", "flag", is_required=True), None)],
            {"properties": {"b": {"type": "boolean"}}, "required": ["b", "lost"]},
        ),
        (
            {"required": ["b", "a"], "properties": {"a": True, "b": True}},
            [(Row("a", "other", is_required=True), "a"), (Row("b", "other", is_required=True), "b")],
            {"required": ["b", "a"], "properties": {"a": True, "b": True}},
        ),
        (
            {"required": ["a"], "properties": {"a": True}, "title": "T"},
            [(Row("c", "other"), "a")],
            {"required": [], "properties": {"c": True}, "title": "T"},
        ),
        (
            {"required": ["b"], "properties": {"a": True}},
            [(Row("b", "other", is_required=True), "a")],
            {"required": ["b"], "properties": {"b": True}},
        ),
    ],
)
def test_rewritten_schema(schema, pairs, rewritten):
    assert rows.rewritten(schema, pairs) == rewritten
