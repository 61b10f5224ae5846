"""The tool calls that a procedure requests, in the order of its text. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from designer.procedures.references import Piece


class ToolStep(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a procedure calls, by its pin.

    values: those in the text, by input id.
    line_text: the line of the text.
    """

    pin: int
    line: int
    line_text: str
    values: Mapping[str, str] = {}


def steps_of(pieces: Iterable[Piece]) -> list[ToolStep]:
    """Return the steps. Consecutive references to a tool and its inputs in one line are one step; a tool's
    output is not a step.
    """
    pieces = list(pieces)
    lines = "".join(piece.display_text for piece in pieces).split("\n")
    steps: list[ToolStep] = []
    for piece in pieces:
        reference = piece.reference
        if reference is None or reference.kind not in ("tool", "input") or reference.target is None:
            continue
        values = {member.id: member.literal for member in reference.members if member.literal}
        last = steps[-1] if steps else None
        if last and (last.pin, last.line) == (reference.target, piece.line):
            steps[-1] = msgspec.structs.replace(last, values={**last.values, **values})
            continue
        line_text = lines[piece.line - 1].strip(" #*-\t")
        steps.append(ToolStep(pin=reference.target, line=piece.line, line_text=line_text, values=values))
    return steps
