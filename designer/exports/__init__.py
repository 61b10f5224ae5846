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
from designer.exports.base import CarriedTools, Format, carried
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

# The format that counts tokens where no format was chosen: all models read it, and it can carry every tool.
USUAL = anthropic.FORMAT
write_usual = anthropic.write_tool


def get(name: str) -> Format:
    """Return a format by its name. Raises KeyError if it is not registered."""
    return {format_.name: format_ for format_ in FORMATS}[name]


def wires(tool: Effective, name: str = "") -> list[Wire]:
    """Return the name mapping of this format, or of all formats if `name` is empty. JSON Schema comes
    first then."""
    formats = [get(name)] if name else [json_schema.FORMAT, *FORMATS]
    return [format_.wire(tool) for format_ in formats]


def accepted_inputs(tool: Effective, name: str) -> Any:
    """Return the JSON Schema of the arguments that a caller may send in this format. False if the format
    cannot carry the tool."""
    format_ = get(name)
    if format_.accepts:
        return format_.accepts(tool)
    written_inputs = inputs.write(tool, format_.limits.contract)
    return False if written_inputs.refusal else written_inputs.schema


def carried_by_format(release: ReleaseDocument) -> list[tuple[Format, CarriedTools]]:
    """Return the tools that each format can carry, with the warnings of that format."""
    return [(format_, carried(release, format_.limits)) for format_ in FORMATS]
