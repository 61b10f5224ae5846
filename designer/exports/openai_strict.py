"""The `tools` array of an OpenAI chat completion with strict functions only, so that a model's arguments
always fit. Optional inputs are required here, and null means an absent one."""

from dataclasses import replace
from functools import partial
from typing import Any

from designer.exports import contracts, inputs, openai_chat
from designer.exports.base import Format
from designer.exports.document import ReleaseDocument

CONTRACT = contracts.load("openai-strict")
LIMITS = replace(
    openai_chat.LIMITS,
    source="https://platform.openai.com/docs/guides/structured-outputs, Supported schemas",
    date="2026-11-22",
    carries=frozenset({"rules", "schemas"}),
    contract=CONTRACT,
)


def write(release: ReleaseDocument) -> object:
    tools = []
    for signature in (tool.signature for tool in release.tools):
        parameters = inputs.write(signature, CONTRACT).schema
        function: dict[str, Any] = {"name": signature.name, "parameters": parameters, "strict": True}
        if signature.description:
            function["description"] = signature.description
        tools.append({"type": "function", "function": function})
    return tools


FORMAT = Format(
    name="openai-strict",
    label="OpenAI chat completions, strict",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire, contract=CONTRACT),
    places=openai_chat.FORMAT.places,
)
