"""BM25F as pure arithmetic: what a word in a tool is worth, and how well a tool answers a question.

A tool keeps the impact of each of its words (frequency, field and length already worked in) as one byte,
so that asking needs only the rarity of the asked words. docs/decisions/0008-search.md has the figures behind
the constants.
"""

import math
import struct
from collections.abc import Mapping, Sequence, Set

NAME, TEXT, PARAMETER, DETAIL, OUTPUT_DETAIL = 5.0, 1.0, 0.5, 0.15, 0.05

_K1, _B = 1.2, 0.75
# The length that counts as ordinary: a constant, so that a tool's impacts never depend on its neighbours.
_PIVOT = 30.0
# An impact is one byte.
_FULL = 255
_NAME_BONUS = 0.4
_HEADER = struct.Struct("<BH")


def impacts(frequencies: Mapping[int, float], stops: Set[int]) -> dict[int, int]:
    """The impact (1 to 255) of every lexeme of a tool, from its frequencies weighted by field."""
    # Stop words can be found but make no tool longer.
    length = sum(frequencies.values()) - sum(frequencies[each] for each in frequencies.keys() & stops)
    norm = _K1 * (1 - _B + _B * length / _PIVOT)
    return {lexeme: int(_FULL * each / (each + norm)) or 1 for lexeme, each in frequencies.items()}


def pack(name: Sequence[int], strengths: Mapping[int, int]) -> bytes:
    """One tool as bytes for `score`: the lexemes of its name first, then the others, then the impacts."""
    first = [lexeme for lexeme in dict.fromkeys(name) if lexeme in strengths][:_FULL]
    order = dict.fromkeys([*first, *strengths])
    count = len(order)
    return _HEADER.pack(len(first), count) + struct.pack(
        f"<{count}I{count}B", *order, *[strengths[lexeme] for lexeme in order]
    )


def unpack(vector: bytes | memoryview) -> dict[int, int]:
    _, count = _HEADER.unpack_from(vector)
    values = struct.unpack_from(f"<{count}I{count}B", vector, _HEADER.size)
    return dict(zip(values[:count], values[count:], strict=True))


def unpack_terms(vector: bytes | memoryview) -> tuple[frozenset[int], frozenset[int]]:
    """Return the lexemes of the name of a tool, and all of its lexemes."""
    named, count = _HEADER.unpack_from(vector)
    values = struct.unpack_from(f"<{count}I", vector, _HEADER.size)
    return frozenset(values[:named]), frozenset(values)


def rarity(found_in: int, tools: int) -> float:
    return math.log1p((max(tools, found_in) - found_in + 0.5) / (found_in + 0.5))


def score(vector: bytes | memoryview, gains: Mapping[int, float], stress: Mapping[int, float]) -> float:
    """BM25F of the asked lexemes, and up to 40 % more for a name that says nothing else.

    `stress` is how much the question wants each lexeme (1 for a plain word), `gains` that times its rarity.
    """
    named, count = _HEADER.unpack_from(vector)
    values: tuple[int, ...] = struct.unpack_from(f"<{count}I{count}B", vector, _HEADER.size)
    total = 0.0
    for place in range(count):
        if values[place] in gains:
            total += gains[values[place]] * values[count + place]
    if named:
        asked = sum([min(1.0, stress[lexeme]) for lexeme in values[:named] if lexeme in stress])
        total *= 1 + _NAME_BONUS * asked / named
    return total / _FULL


def shares(found_in: Mapping[int, int], budget: int) -> dict[int, float]:
    """Which part (0 to 1) of each lexeme's postings to read, so that all together fit the budget.

    Rare lexemes are read whole; common ones share what is left evenly.
    """
    # Leaving common ones out would cost a tenth of the quality; reading them whole, most of the time.
    left = float(budget)
    parts: dict[int, float] = {}
    for waiting, (lexeme, count) in enumerate(sorted(found_in.items(), key=lambda item: item[1])):
        taken = min(float(count), left / (len(found_in) - waiting))
        parts[lexeme] = taken / count if count else 1.0
        left -= taken
    return parts
