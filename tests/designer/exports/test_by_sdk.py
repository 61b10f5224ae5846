"""Each provider's own package takes what we write for it: nothing is missing, and nothing is left over."""

from collections.abc import Callable
from typing import Any

import anthropic.types
import mcp.types
import openai.types.chat
import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter

from designer.exports.base import carried
from tests.designer.exports.formats import FORMATS
from tests.designer.exports.test_exports import written
from tests.designer.strategies import releases


def typed(kind: Any) -> Callable[[Any], Any]:
    """What is left of a document that the package's types describe: a member they do not know is dropped."""
    adapter = TypeAdapter(list[kind])
    return lambda document: adapter.validate_python(document)


def mcp_result(document: Any) -> Any:
    # Their models keep members that they do not know; `tests/fixtures/exports` lists those there are.
    result = mcp.types.ListToolsResult.model_validate(document)
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


JUDGES: dict[str, Callable[[Any], Any]] = {
    "openai-chat": typed(openai.types.chat.ChatCompletionFunctionToolParam),
    "anthropic": typed(anthropic.types.ToolParam),
    "mcp": mcp_result,
}


@pytest.mark.parametrize("name", JUDGES)
@settings(max_examples=50)
@given(release=releases())
def test_the_providers_own_package_takes_the_whole_document(name, release):
    fitting = carried(release, FORMATS[name].limits).fitting
    if fitting.tools:
        document = written(name, fitting)
        assert JUDGES[name](document) == document
