"""The place at which each format writes a tool, and the cost of each part."""

import msgspec
import pytest
from hypothesis import given, settings

from catalog.token_estimate import estimate_tokens
from designer.exports import parts
from designer.exports.base import carried
from tests.designer import strategies
from tests.designer.exports.formats import OF_TOOLS


@pytest.mark.parametrize("format_", OF_TOOLS, ids=lambda format_: format_.name)
@settings(max_examples=5)  # in each format, and a release holds several tools
@given(release=strategies.releases())
def test_parts_of_every_tool_add_up(format_, release):
    fitting = carried(release, format_.limits).fitting
    documents = parts.tools_in(format_.write(fitting), format_.places)

    assert len(documents) == len(fitting.tools)
    for tool, tool_document in zip(fitting.tools, documents, strict=True):
        tool_parts = parts.parts(tool_document, format_.places, format_.wire(tool.signature))
        assert sum(part.tokens for part in tool_parts) == estimate_tokens(msgspec.json.encode(tool_document))
        assert all(part.tokens >= 0 for part in tool_parts)
        assert tool_parts[0].kind == "name"
        assert tool_parts[-1].kind == "rest"
