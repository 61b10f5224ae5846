"""What differs between two texts, line by line. Pure."""

from difflib import SequenceMatcher
from typing import Literal

import msgspec

# Unchanged lines that are shown before and after a change.
CONTEXT = 2


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """`number` is that of the line in the newer text, None where it has none. A "gap" stands for unchanged
    lines that are left out. `before` and `after` are None where there is no line.
    """

    mark: Literal["same", "changed", "added", "removed", "gap"]
    number: int | None = None
    before: str | None = None
    after: str | None = None


def compare(before: str, after: str) -> list[Line]:
    """The changed lines with their surroundings; empty when the texts are the same."""
    old, new = before.split("\n"), after.split("\n")
    found: list[Line] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    end = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if group[0][3] > end:
            found.append(Line(mark="gap"))
        for kind, a, b, c, d in group:
            if kind == "equal":
                found += [Line(mark="same", number=n + 1, before=new[n], after=new[n]) for n in range(c, d)]
                continue
            pairs = min(b - a, d - c)
            found += [
                Line(mark="changed", number=c + n + 1, before=old[a + n], after=new[c + n])
                for n in range(pairs)
            ]
            found += [Line(mark="removed", before=old[n]) for n in range(a + pairs, b)]
            found += [Line(mark="added", number=n + 1, after=new[n]) for n in range(c + pairs, d)]
        end = group[-1][4]
    if found and end < len(new):
        found.append(Line(mark="gap"))
    return found
