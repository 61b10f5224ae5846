"""Merge two texts that were derived from a third one, if their changes do not touch. Pure.

By lines first; if both changed the same lines, by words.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

# With more pieces a comparison takes too long for a page.
MAX_PIECES = 4_000


def merge_texts(base: str, one: str, other: str) -> str | None:
    """Return the merged text; None if both changed the same position, or positions that touch."""
    if one == other or other == base:
        return one
    if one == base:
        return other
    for pattern in (r"[^\n]*\n|[^\n]+", r"\s+|\w+|[^\w\s]"):
        pieces = [re.findall(pattern, text) for text in (base, one, other)]
        if max(map(len, pieces)) > MAX_PIECES:
            return None
        if (merged_pieces := _merge_tokens(*pieces)) is not None:
            return "".join(merged_pieces)
    return None


def _merge_tokens(base: Sequence[str], one: Sequence[str], other: Sequence[str]) -> list[str] | None:
    # Between two pieces that all three texts share, only one text may differ from the base.
    positions, other_positions = _kept_positions(base, one), _kept_positions(base, other)
    anchors = [
        (index, positions[index], other_positions[index])
        for index in range(len(base))
        if index in positions and index in other_positions
    ]
    result: list[str] = []
    start = (0, 0, 0)
    for anchor in [*anchors, (len(base), len(one), len(other))]:
        base_part, own_part, other_part = (
            list(text[begin:end]) for text, begin, end in zip((base, one, other), start, anchor, strict=True)
        )
        if own_part != base_part and other_part not in (base_part, own_part):
            return None
        result += other_part if own_part == base_part else own_part
        result += base[anchor[0] : anchor[0] + 1]
        start = (anchor[0] + 1, anchor[1] + 1, anchor[2] + 1)
    return result


def _kept_positions(base: Sequence[str], text: Sequence[str]) -> dict[int, int]:
    # Maps the index of each unchanged piece of the base to its current index.
    blocks = SequenceMatcher(None, base, text, autojunk=False).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}
