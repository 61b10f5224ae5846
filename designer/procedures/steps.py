"""The calls of tools that a procedure asks for, in the order of its text. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from designer.procedures.references import Piece


class ToolStep(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is to be called, by its pin. `given` are values that the text says, by the ids of inputs.
    `says` is the line that it stands in."""

    pin: int
    line: int
    says: str
    given: Mapping[str, str] = {}


def of(pieces: Iterable[Piece]) -> list[ToolStep]:
    """References to a tool and its inputs that follow each other in one line are one step; what comes back
    from a tool is no step of its own."""
    pieces = list(pieces)
    lines = "".join(piece.shown for piece in pieces).split("\n")
    found: list[ToolStep] = []
    for piece in pieces:
        reference = piece.reference
        if reference is None or reference.kind not in ("tool", "input") or reference.target is None:
            continue
        given = {member.id: member.literal for member in reference.members if member.literal}
        last = found[-1] if found else None
        if last and (last.pin, last.line) == (reference.target, piece.line):
            found[-1] = msgspec.structs.replace(last, given={**last.given, **given})
            continue
        says = lines[piece.line - 1].strip(" #*-\t")
        found.append(ToolStep(pin=reference.target, line=piece.line, says=says, given=given))
    return found
