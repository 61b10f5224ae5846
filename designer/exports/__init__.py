"""The registry of export formats. A new one is one file here and one name in `FORMATS`."""

from typing import Any

from designer.exports import (
    a2t,
    anthropic,
    gemini,
    inputs,
    json_schema,
    mcp,
    openai_chat,
    openai_responses,
    openai_strict,
    oxp,
    skill,
    tool_system,
)
from designer.exports.base import Carried, Format, carried
from designer.exports.document import ReleaseDocument
from designer.exports.wire import Wire
from designer.signatures.effective import Effective

FORMATS: tuple[Format, ...] = (
    a2t.FORMAT,
    openai_chat.FORMAT,
    openai_responses.FORMAT,
    openai_strict.FORMAT,
    anthropic.FORMAT,
    gemini.FORMAT,
    mcp.FORMAT,
    oxp.FORMAT,
    tool_system.FORMAT,
    json_schema.FORMAT,
    skill.FORMAT,
)

# By what this one writes of a tool, tools are counted wherever no format was chosen: it writes what every
# model reads, and there is no tool that it cannot carry.
USUAL = anthropic.FORMAT
write_usual = anthropic.write_tool


def get(name: str) -> Format:
    """Raises KeyError for a name that is not registered."""
    return {format_.name: format_ for format_ in FORMATS}[name]


def wires(tool: Effective, name: str = "") -> list[Wire]:
    """The names that a caller of this format uses; without one those of all formats, our own first."""
    spoken = [get(name)] if name else [json_schema.FORMAT, *FORMATS]
    return [format_.wire(tool) for format_ in spoken]


def accepted_inputs(tool: Effective, name: str) -> Any:
    """Return the JSON Schema of the arguments that a caller of this format was told it may send.

    False where the format cannot carry the tool.
    """
    format_ = get(name)
    if format_.accepts:
        return format_.accepts(tool)
    shown = inputs.write(tool, format_.limits.contract)
    return False if shown.refusal else shown.schema


def carried_by_format(release: ReleaseDocument) -> list[tuple[Format, Carried]]:
    """What each format can carry of it, and what it remarks: what blocks, may be refused or gets lost."""
    return [(format_, carried(release, format_.limits)) for format_ in FORMATS]
