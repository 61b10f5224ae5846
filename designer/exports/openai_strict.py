"""The `tools` array of an OpenAI chat completion with strict functions only, so that a model's arguments
always fit. Optional inputs are required here, and null means an absent one."""

from dataclasses import replace
from functools import partial
from typing import Any

from designer.exports import contracts, inputs, openai_chat
from designer.exports.base import Format
from designer.exports.document import ReleaseDocument
from designer.signatures.effective import Effective

CONTRACT = contracts.load("openai-strict")
LIMITS = replace(
    openai_chat.LIMITS,
    source="https://platform.openai.com/docs/guides/structured-outputs, Supported schemas",
    date="2026-11-22",
    carries=frozenset({"rules", "schemas"}),
    contract=CONTRACT,
)


def write(release: ReleaseDocument) -> object:
    return [{"type": "function", "function": _function(tool.signature)} for tool in release.tools]


def _function(tool: Effective) -> dict[str, Any]:
    parameters = inputs.write(tool, CONTRACT).schema
    document: dict[str, Any] = {"name": tool.name, "parameters": parameters, "strict": True}
    if tool.description:
        document["description"] = tool.description
    return document


FORMAT = Format(
    name="openai-strict",
    label="OpenAI chat completions, strict",
    limits=LIMITS,
    write=write,
    wire=partial(inputs.wire, contract=CONTRACT),
    places=openai_chat.FORMAT.places,
)
