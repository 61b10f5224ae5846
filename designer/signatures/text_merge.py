"""Two texts that were both made out of a third one, merged where they do not touch. Pure.

First by lines; where both changed the same lines, by words.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

# Beyond so many pieces a comparison takes too long for a page.
MAX_PIECES = 4_000


def merged(base: str, one: str, other: str) -> str | None:
    """None where both changed the same place, or places that touch."""
    if one == other or other == base:
        return one
    if one == base:
        return other
    for pattern in (r"[^\n]*\n|[^\n]+", r"\s+|\w+|[^\w\s]"):
        pieces = [re.findall(pattern, text) for text in (base, one, other)]
        if max(map(len, pieces)) > MAX_PIECES:
            return None
        if (found := _merged(*pieces)) is not None:
            return "".join(found)
    return None


def _merged(base: Sequence[str], one: Sequence[str], other: Sequence[str]) -> list[str] | None:
    # Between two pieces that all three have, only one of the texts may differ from the base.
    ours, theirs = _kept(base, one), _kept(base, other)
    anchors = [(at, ours[at], theirs[at]) for at in range(len(base)) if at in ours and at in theirs]
    found: list[str] = []
    start = (0, 0, 0)
    for anchor in [*anchors, (len(base), len(one), len(other))]:
        was, mine, yours = (
            list(text[begin:end]) for text, begin, end in zip((base, one, other), start, anchor, strict=True)
        )
        if mine != was and yours not in (was, mine):
            return None
        found += yours if mine == was else mine
        found += base[anchor[0] : anchor[0] + 1]
        start = (anchor[0] + 1, anchor[1] + 1, anchor[2] + 1)
    return found


def _kept(base: Sequence[str], text: Sequence[str]) -> dict[int, int]:
    # Where each piece of the base that is still there stands now.
    blocks = SequenceMatcher(None, base, text, autojunk=False).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}
