"""Text that is no Unicode. The reader of a list refuses such an item, and so does `read` by itself."""

import pytest

import protocols
from protocols.list_pages import UnreadableItemError
from tests.hostile.dialects import DIALECTS, schema

HALF = "\ud800"
SCHEMAS = {
    "key": schema(**{HALF: {"type": "string"}}),
    "default": schema(city={"type": "string", "default": HALF}),
}


def code_of(protocol, document):
    with pytest.raises(UnreadableItemError) as error:
        protocol.read(document)
    return error.value.code


@pytest.mark.parametrize("name", ["a2t", "mcp", "oxp", "acp"])
def test_half_a_surrogate_pair_in_a_description_is_refused(name):
    protocol, dialect = protocols.get(name)(DIALECTS[name].settings), DIALECTS[name]

    assert code_of(protocol, dialect.described(dialect.tool(1), f"City {HALF}")) == "JSON_SURROGATE"


@pytest.mark.parametrize("place", SCHEMAS)
@pytest.mark.parametrize("name", ["mcp", "oxp", "acp"])
def test_half_a_surrogate_pair_in_a_schema_is_refused(name, place):
    protocol, dialect = protocols.get(name)(DIALECTS[name].settings), DIALECTS[name]

    assert code_of(protocol, dialect.taking(dialect.tool(1), SCHEMAS[place])) == "JSON_SURROGATE"


@pytest.mark.parametrize("name", ["mcp", "oxp"])
def test_half_a_surrogate_pair_in_an_unknown_member_is_refused(name):
    protocol, dialect = protocols.get(name)(DIALECTS[name].settings), DIALECTS[name]

    assert code_of(protocol, dialect.tool(1) | {"vendor_note": {HALF: 1}}) == "JSON_SURROGATE"
