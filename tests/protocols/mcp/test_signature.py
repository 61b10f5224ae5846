"""A tool of MCP as a signature, and back again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.canonical_json import canonical
from protocols.list_pages import UnreadableItemError
from protocols.losses import losses
from protocols.mcp import headers as mcp_headers
from protocols.mcp.client import MCP
from protocols.signature import Annotations, from_json, to_json
from tests.core.schema import schemas

BARE = {"name": "renew_loan", "inputSchema": {"type": "object"}}


def tool(**members):
    return BARE | members


def takes(**properties):
    return tool(inputSchema={"type": "object", "properties": properties})


def again(document):
    """Written back from the signature as the database keeps it."""
    signature = from_json(to_json(MCP().read(document)))
    return MCP().write(signature, signature.name, "")


WHOLE = tool(
    title="Renew a loan",
    description="Renews a loan.",
    inputSchema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "loan": {"type": "string", "pattern": "^L-", "x-mcp-header": "Loan"},
            "days": {"type": "integer", "minimum": 1, "maximum": 28, "default": 14},
            "why": {"anyOf": [{"$ref": "#/$defs/why"}, {"type": "null"}]},
        },
        "required": ["loan"],
        "$defs": {"why": {"type": "string"}},
        "if": {"required": ["why"]},
        "then": {"required": ["days"]},
        "additionalProperties": False,
    },
    outputSchema={"type": "object", "properties": {"due": {"type": "string"}}, "required": ["due"]},
    annotations={"title": "Renewal", "readOnlyHint": False, "idempotentHint": True, "x": [1]},
    icons=[{"src": "https://vendor.example/a.png", "sizes": ["48x48"]}, {"src": "data:,"}],
    execution={"taskSupport": "optional"},
    _meta={"vendor.example/a": {"b": None}},
)


@pytest.mark.parametrize(
    "document",
    [
        BARE,
        WHOLE,
        tool(title=""),
        tool(title="Loans", annotations={"title": "Loans"}),
        tool(annotations={"title": "Loans"}),
        tool(title="", annotations={"title": "Loans"}),
        tool(annotations={}),
        tool(annotations=None),
        tool(annotations={"readOnlyHint": "yes", "destructiveHint": None}),
        tool(description=""),
        tool(outputSchema=None),
        tool(outputSchema={}),
        tool(outputSchema={"type": "object"}),
        tool(outputSchema={"type": "array", "items": {"type": "integer"}}),
        tool(outputSchema={"oneOf": [{"type": "string"}, {"type": "null"}]}),
        tool(icons=[]),
        tool(icons="none"),
        tool(inputSchema={"type": "object", "properties": {}, "required": []}),
        tool(inputSchema={"type": "object", "additionalProperties": {"type": "string"}}),
        takes(a=True, b={}),
    ],
)
def test_a_tool_is_written_back_as_it_came(document):
    before = json.loads(canonical(document))
    assert again(document) == before
    assert losses(before, again(document)) == []


TOOL = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z_]{1,9}", fullmatch=True),
        "inputSchema": schemas.objects().map(lambda object_schema: object_schema | {"type": "object"}),
    },
    optional={
        "title": schemas.texts,
        "description": schemas.texts,
        "outputSchema": schemas.schemas | schemas.objects(),
        "annotations": st.dictionaries(
            st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "own"]),
            schemas.values,
            max_size=5,
        ),
        "icons": schemas.values,
        "_meta": schemas.values,
        "own": schemas.values,
    },
)


@given(TOOL)
def test_any_tool_is_written_back_as_it_came(document):
    assert canonical(again(document)) == canonical(document)


def test_what_is_said_reaches_the_signature():
    signature = MCP().read(WHOLE)
    assert (signature.title, signature.img) == ("Renew a loan", "https://vendor.example/a.png")
    assert signature.annotations == Annotations(read_only=False, idempotent=True)
    assert [(parameter.name, parameter.type, parameter.required) for parameter in signature.inputs] == [
        ("loan", "string", True),
        ("days", "int", False),
        ("why", "string", False),
    ]
    assert [output.name for output in signature.outputs] == ["due"]
    assert signature.rest["annotations"] == {"title": "Renewal", "x": [1]}


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (tool(), ""),
        (tool(annotations={"title": "B"}), "B"),
        (tool(title="A", annotations={"title": "B"}), "A"),
    ],
)
def test_the_title_is_the_first_that_is_there(document, title):
    assert MCP().read(document).title == title


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (tool(inputSchema=None), "BAD_SCHEMA"),
        (tool(inputSchema={}), "BAD_SCHEMA"),
        (tool(inputSchema={"type": ["object"]}), "BAD_SCHEMA"),
        (tool(outputSchema=7), "BAD_SCHEMA"),
        (tool(title=7), "SHAPE"),
        (tool(description=["a"]), "SHAPE"),
        (tool(annotations=[1]), "SHAPE"),
        (tool(name=""), "BAD_TOOL_ID"),
        (tool(description="a" * 40_000), "TEXT_TOO_LONG"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(document, code):
    with pytest.raises(UnreadableItemError) as caught:
        MCP().read(document)
    assert caught.value.code == code
    assert caught.value.reason.endswith(".")


def test_a_schema_that_is_too_deep_is_refused():
    deep = {}
    for _ in range(100):
        deep = {"items": deep}
    with pytest.raises(UnreadableItemError) as caught:
        MCP().read(takes(a=deep))
    assert caught.value.code == "SCHEMA_TOO_DEEP"


@pytest.mark.parametrize(
    ("document", "codes"),
    [
        (tool(name="a" * 129), ["LONG_NAME"]),
        (tool(name="renew loan"), ["ODD_NAME"]),
        (tool(execution={"taskSupport": "required"}), ["NEEDS_TASK"]),
        (takes(a={"type": "string"}), []),
    ],
)
def test_what_is_odd_is_noted(document, codes):
    notes = MCP().notes(document, MCP().read(document))
    assert [note.code for note in notes] == codes


def marked(name="Branch", **schema):
    return {"type": "string", "x-mcp-header": name} | schema


@pytest.mark.parametrize(
    "properties",
    [
        {"a": marked()},
        {"a": marked(type="integer"), "b": marked("B", type="boolean")},
        {"a": {"type": "object", "properties": {"b": marked()}}},
        {"a": {"type": "string", "default": {"x-mcp-header": 7}, "enum": [{"x-mcp-header": 7}]}},
    ],
)
def test_an_input_may_be_marked_for_a_header(properties):
    assert MCP().read(takes(**properties))


@pytest.mark.parametrize(
    "properties",
    [
        {"a": marked("")},
        {"a": marked("with space")},
        {"a": marked("Ä")},
        {"a": marked("a:b")},
        {"a": marked(7)},
        {"a": marked(None)},
        {"a": marked(), "b": marked("branch")},
        {"a": marked(type="number")},
        {"a": marked(type="array")},
        {"a": marked(type=["string", "null"])},
        {"a": {"x-mcp-header": "A"}},
        {"a": {"type": "array", "items": marked()}},
        {"a": {"anyOf": [marked()]}},
        {"a": {"type": "object", "additionalProperties": marked()}},
        {"a": {"type": "object", "items": {"properties": {"b": marked()}}}},
    ],
)
def test_a_mark_that_breaks_the_rules_costs_that_tool(properties):
    with pytest.raises(UnreadableItemError) as caught:
        MCP().read(takes(**properties))
    assert caught.value.code == "BAD_PARAM_HEADER"
    assert caught.value.reason.endswith(".")


def test_a_mark_on_the_whole_input_or_a_definition_breaks_the_rules():
    for schema in (
        {"type": "object", "x-mcp-header": "A"},
        {"type": "object", "$defs": {"a": marked()}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": marked()}},
    ):
        assert mcp_headers.find_problem(schema)


def test_arguments_are_mirrored_by_name():
    schema = takes(
        a=marked("A"),
        b=marked("B", type="integer"),
        c=marked("C", type="boolean"),
        d={"type": "object", "properties": {"e": marked("E")}},
        f=marked("F"),
        g=marked("G"),
    )["inputSchema"]
    arguments = {"a": "East", "b": 7, "c": True, "d": {"e": "Ü"}, "f": None}
    assert mcp_headers.mirrored_headers(schema, arguments) == {
        "Mcp-Param-A": "East",
        "Mcp-Param-B": "7",
        "Mcp-Param-C": "true",
        "Mcp-Param-E": "=?base64?w5w=?=",
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a b", "a b"),
        ("", ""),
        (" a", "=?base64?IGE=?="),
        ("a\n", "=?base64?YQo=?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ],
)
def test_a_value_that_a_header_cannot_carry_is_encoded(value, expected):
    assert mcp_headers.encode_value(value) == expected
