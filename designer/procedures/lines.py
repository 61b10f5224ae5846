"""Compare two texts line by line. Pure."""

from difflib import SequenceMatcher
from typing import Literal

import msgspec

# Unchanged lines shown before and after a change.
CONTEXT = 2


class NumberedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line. `number`: in the newer text, None if it is not there. A "gap" replaces omitted unchanged
    lines. `before`, `after`: None if there is no line."""

    mark: Literal["same", "changed", "added", "removed", "gap"]
    number: int | None = None
    before: str | None = None
    after: str | None = None


def compare(before: str, after: str) -> list[NumberedLine]:
    """Return the changed lines with their context; empty if the texts are equal."""
    old, new = before.split("\n"), after.split("\n")
    lines: list[NumberedLine] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    end = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if group[0][3] > end:
            lines.append(NumberedLine(mark="gap"))
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [
                    NumberedLine(mark="same", number=n + 1, before=new[n], after=new[n]) for n in range(c, d)
                ]
                continue
            pairs = min(b - a, d - c)
            lines += [
                NumberedLine(mark="changed", number=c + n + 1, before=old[a + n], after=new[c + n])
                for n in range(pairs)
            ]
            lines += [NumberedLine(mark="removed", before=old[n]) for n in range(a + pairs, b)]
            lines += [NumberedLine(mark="added", number=n + 1, after=new[n]) for n in range(c + pairs, d)]
        end = group[-1][4]
    if lines and end < len(new):
        lines.append(NumberedLine(mark="gap"))
    return lines
