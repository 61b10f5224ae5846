"""Each provider's own package accepts the export for it: no member is missing, and none is left over.

The packages take seconds to import, so only the checks that use one import it.
"""

import copy
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import jsonschema_rs
import mcp.types
import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter

from designer.exports.base import carried
from tests.designer.exports.formats import FORMATS
from tests.designer.exports.test_exports import export
from tests.designer.strategies import releases

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def adapter(module: str, kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(list[getattr(import_module(module), kind)])


def typed(module: str, kind: str) -> Callable[[Any], Any]:
    """Return the document as the package's types read it: members that they do not know are dropped."""
    return lambda document: adapter(module, kind).validate_python(document)


def mcp_result(document: Any) -> Any:
    # Their models keep members that they do not know; `tests/fixtures/exports` lists those there are.
    result = mcp.types.ListToolsResult.model_validate(document)
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


OPENAI_CHAT = typed("openai.types.chat", "ChatCompletionFunctionToolParam")


def strict(document: Any) -> Any:
    """Their helper makes any schema strict; one that is strict already stays as it is."""
    from openai.lib._pydantic import _ensure_strict_json_schema

    for tool in (tools := OPENAI_CHAT(document)):
        parameters = tool["function"]["parameters"]
        tool["function"]["parameters"] = _ensure_strict_json_schema(
            copy.deepcopy(parameters), path=(), root=parameters
        )
    return tools


def gemini_tool(document: Any) -> Any:
    from google.genai import types as genai

    return genai.Tool.model_validate(document).model_dump(mode="json", by_alias=True, exclude_unset=True)


def schema(document: Any) -> Any:
    """The calls are in the schema of an answer, as one of its properties."""
    jsonschema_rs.meta.validate({"$schema": DIALECT, "type": "object", "properties": document})
    return document


JUDGES: dict[str, Callable[[Any], Any]] = {
    "openai-chat": OPENAI_CHAT,
    "openai-responses": typed("openai.types.responses", "FunctionToolParam"),
    "openai-strict": strict,
    "gemini": gemini_tool,
    "tool-system": schema,
    "anthropic": typed("anthropic.types", "ToolParam"),
    "mcp": mcp_result,
}


@pytest.mark.parametrize("name", JUDGES)
@settings(max_examples=8)  # the storm `formats` walks thousands of tools
@given(release=releases())
def test_the_providers_own_package_takes_the_whole_document(name, release):
    fitting = carried(release, FORMATS[name].limits).fitting
    if fitting.tools:
        document = export(name, fitting)
        assert JUDGES[name](document) == document
