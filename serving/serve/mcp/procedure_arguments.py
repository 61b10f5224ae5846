"""The arguments of a procedure as a prompt: the inputs and items that its text refers to.

All are optional. The values that a client sends are appended to the text, as data.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from designer.exports.document import ReleaseDocument, ReleasedProcedure
from designer.signatures.effective import Input

MAX_VALUE_LENGTH = 2000
_BOOLEANS = ("true", "false")


@dataclass(frozen=True, kw_only=True)
class Argument:
    """`values` are the allowed ones; empty if any text is allowed."""

    name: str
    description: str
    values: tuple[str, ...] = ()


def arguments_of(procedure: ReleasedProcedure, document: ReleaseDocument) -> dict[str, Argument]:
    """Return the arguments by name, in the order in which the text names them first."""
    signatures = {tool.signature.name: tool.signature for tool in document.tools}
    arguments: dict[str, Argument] = {}
    for reference in procedure.references:
        name = reference.member
        if reference.kind == "item":
            arguments.setdefault(name, Argument(name=name, description=f"A value for {{{name}}}"))
        elif reference.kind == "input" and (signature := signatures.get(reference.name)):
            for tool_input in signature.inputs:
                if name in (tool_input.alias, tool_input.shown_name):
                    arguments.setdefault(
                        name,
                        Argument(
                            name=name,
                            description=tool_input.parameter.description or f"An input of {reference.name}",
                            values=values_of(tool_input),
                        ),
                    )
    return arguments


def values_of(tool_input: Input) -> tuple[str, ...]:
    """Return the allowed values of an input, as a model sees them; empty if any is allowed."""
    if tool_input.parameter.type == "boolean":
        return _BOOLEANS
    values = [allowed.name for allowed in tool_input.parameter.allowed_values]
    return tuple(value for value in values if value not in tool_input.hidden_values)


def with_values(text: str, values: Iterable[tuple[str, str]]) -> str:
    lines = [f"- `{name}`: {msgspec.json.encode(value).decode()}" for name, value in values]
    return "\n".join([text, "", "The user gave these values:", "", *lines]) if lines else text


def faults_in(values: Mapping[str, object], arguments: Mapping[str, Argument]) -> dict[str, str]:
    """Return why values are refused, by name."""
    faults = {}
    for name, value in values.items():
        if name not in arguments:
            faults[name[:100]] = "is no argument of this prompt"
        elif not isinstance(value, str) or len(value) > MAX_VALUE_LENGTH:
            faults[name] = f"must be a text of at most {MAX_VALUE_LENGTH} characters"
    return faults
