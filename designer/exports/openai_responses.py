"""The `tools` array of a request to OpenAI's Responses API: a chat completion's functions, one level up."""

from dataclasses import replace
from functools import partial

from designer.exports import contracts, inputs, openai_chat
from designer.exports.base import Format
from designer.exports.document import ReleaseDocument
from designer.exports.parts import ToolPaths

CONTRACT = contracts.load("openai-responses")
LIMITS = replace(
    openai_chat.LIMITS,
    source="openai-python 3.52.0, types/responses/function_tool_param.py; "
    "https://platform.openai.com/docs/guides/function-calling",
    date="2026-11-22",
    contract=CONTRACT,
)


def write(release: ReleaseDocument) -> object:
    return [{"type": "function", **openai_chat.function(tool.signature, CONTRACT)} for tool in release.tools]


FORMAT = Format(
    name="openai-responses",
    label="OpenAI responses",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire, contract=CONTRACT),
    places=ToolPaths(tools=(), inputs=("parameters",)),
)
