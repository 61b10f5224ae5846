"""Any JSON in a vendor's forms and content blocks of MCP."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.call_outcome import Ask
from protocols.mcp.server import questions, results
from protocols.mcp.server.clients import Client
from protocols.server import DeclaredOutputs, ToolCallResult
from tests.core.schema.schemas import kinds, values

ASKS_FORMS = Client(version="2026-07-28", kinds=("form",))
TYPES = kinds | values
ITEMS = st.fixed_dictionaries({}, optional={"type": TYPES}) | values
MEMBERS = st.fixed_dictionaries({}, optional={"type": TYPES, "items": ITEMS, "enum": values}) | values
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object") | values},
    optional={
        "properties": st.dictionaries(st.text(max_size=3), MEMBERS, max_size=3) | values,
        "required": values,
    },
)
BLOCKS = st.fixed_dictionaries({"type": st.just("text") | TYPES}) | values


def asks(schema):
    result = ToolCallResult(outcome="needs_input", asks=[Ask("a", "Which?", schema)], can_resume=True, call=1)
    return questions.questions_of(result, ASKS_FORMS)


@given(SCHEMAS)
def test_only_a_form_of_simple_members_is_put_to_a_user(schema):
    if asks(schema) is not None:
        assert schema["type"] == "object"
        assert all(
            "enum" in property_schema or isinstance(property_schema["type"], str)
            for property_schema in schema["properties"].values()
        )
        assert all(isinstance(name, str) for name in schema.get("required", []))


@pytest.mark.parametrize(
    ("member", "is_drawn"),
    [
        ({"type": "string"}, True),
        ({"enum": ["a"]}, True),
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, True),
        ({"type": "array", "items": {"anyOf": [{"const": 1}, 7]}}, False),
        ({"type": ["string", "null"]}, False),
        ({"type": "array", "items": True}, False),
        ({"type": "object"}, False),
        ({"enum": 7}, False),
    ],
)
def test_a_form_has_members_that_clients_draw(member, is_drawn):
    assert (asks({"type": "object", "properties": {"a": member}}) is not None) is is_drawn


@pytest.mark.parametrize("more", [{}, {"properties": []}, {"properties": {}, "required": True}])
def test_what_clients_take_for_no_form_is_told_in_words(more):
    assert asks({"type": "object", **more}) is None


@given(values | st.lists(BLOCKS, max_size=3))
def test_only_blocks_of_known_types_go_on_as_content(content):
    blocks = results.content_blocks(DeclaredOutputs(), {"content": content})
    if blocks is not None:
        assert all(block["type"] in results._BLOCKS for block in blocks)
    else:
        assert not isinstance(content, list) or any(block != {"type": "text"} for block in content)
