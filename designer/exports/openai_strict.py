"""The `tools` array of an OpenAI chat completion whose every function is strict, so that a model's arguments
always fit. What may be left out is required here, and null says that it is."""

from dataclasses import replace
from functools import partial
from typing import Any

from designer.exports import dialects, openai_chat, root_rules
from designer.exports.base import Format
from designer.exports.dialects import Dialect
from designer.exports.document import ReleaseDocument
from designer.exports.strict import Sizes
from designer.signatures.effective import Effective

LIMITS = replace(
    openai_chat.LIMITS,
    source="https://platform.openai.com/docs/guides/structured-outputs, Supported schemas",
    date="2026-11-22",
    carries=frozenset({"rules", "schemas"}),
    dialect=Dialect(
        refused_at_top=root_rules.REFUSED,
        refuses_references=True,
        strict_sizes=Sizes(
            properties=5_000,
            levels=10,
            characters=120_000,
            enum_values=openai_chat.STRICT_ENUM_VALUES,
            long_enum=openai_chat.STRICT_LONG_ENUM,
        ),
    ),
)


def write(release: ReleaseDocument) -> object:
    return [{"type": "function", "function": _function(tool.signature)} for tool in release.tools]


def _function(tool: Effective) -> dict[str, Any]:
    parameters = dialects.inputs(tool, LIMITS.dialect).schema
    written: dict[str, Any] = {"name": tool.name, "parameters": parameters, "strict": True}
    if tool.description:
        written["description"] = tool.description
    return written


FORMAT = Format(
    name="openai-strict",
    label="OpenAI chat completions, strict",
    limits=LIMITS,
    write=write,
    wire=partial(dialects.wire, dialect=LIMITS.dialect),
    places=openai_chat.FORMAT.places,
)
