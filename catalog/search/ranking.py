"""BM25F as pure arithmetic: what a word in a tool is worth, and how well a tool answers a question.

A tool keeps the impact of each of its words (frequency, field and length already worked in) as one byte,
so that asking needs only the rarity of the asked words. docs/decisions/0095-search-engine.md has the figures
behind the constants.
"""

import math
import struct
import zlib
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache

NAME, TEXT, PARAMETER, DETAIL, OUTPUT_DETAIL = 5.0, 1.0, 0.5, 0.15, 0.05
# A translation of all texts of a tool, in each language.
TRANSLATION = 0.5

_K1, _B = 1.2, 0.75
# The length that counts as ordinary: a constant, so that a tool's impacts never depend on its neighbours.
_PIVOT = 30.0
# An impact is one byte.
FULL = 255
_NAME_BONUS = 0.4
# How many terms the name has, and how many the tool has.
_HEADER = struct.Struct("<BH")
# Two of the sixty terms of a tool have the same key once in ten thousand tools.
_KEY_LENGTH = 3


def impacts(frequencies: Mapping[str, float], stops: Set[str]) -> dict[str, int]:
    """Return the impact (1 to 255) of every term of a tool, from its frequencies weighted by field."""
    # Stop words can be found but make no tool longer.
    length = sum(frequencies.values()) - sum(frequencies[term] for term in frequencies.keys() & stops)
    norm = _K1 * (1 - _B + _B * length / _PIVOT)
    return {term: int(FULL * count / (count + norm)) or 1 for term, count in frequencies.items()}


@lru_cache(maxsize=50_000)
def term_key(term: str) -> bytes:
    """Return the bytes that stand for a term in the vector of a tool."""
    return zlib.crc32(term.encode(errors="replace")).to_bytes(4, "big")[:_KEY_LENGTH]


def by_key(values: Mapping[str, float]) -> dict[bytes, float]:
    return {term_key(term): value for term, value in values.items()}


def pack(name: Sequence[str], strengths: Mapping[str, int]) -> bytes:
    """Return one tool as bytes for `score`: the keys of its name first, then the others, then the impacts."""
    first = [term for term in dict.fromkeys(name) if term in strengths][:FULL]
    order = list(dict.fromkeys([*first, *strengths]))[: 2**16 - 1]
    keys = b"".join(map(term_key, order))
    return _HEADER.pack(len(first), len(order)) + keys + bytes([strengths[term] for term in order])


def unpack_terms(vector: bytes) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Return the keys of the terms in the name of a tool, and of all of its terms."""
    name_term_count, keys = _keys_of(vector)
    return frozenset(keys[:name_term_count]), frozenset(keys)


def unpack(vector: bytes, terms: frozenset[bytes]) -> tuple[frozenset[bytes], dict[bytes, int]]:
    """Return the keys of the terms in the name of a tool, and the impacts of those of `terms` that it has."""
    name_term_count, keys = _keys_of(vector)
    # Of two terms with one key the first counts, as in `score`.
    impacts = dict(zip(reversed(keys), reversed(vector), strict=False))
    return frozenset(keys[:name_term_count]), {key: impacts[key] for key in terms & impacts.keys()}


def _keys_of(vector: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Return how many terms the name has, and the keys of all terms, those of the name first."""
    name_term_count, count = _HEADER.unpack_from(vector)
    return name_term_count, _keys_struct(count).unpack_from(vector, _HEADER.size)


@lru_cache(maxsize=4_096)
def _keys_struct(count: int) -> struct.Struct:
    return struct.Struct(f"{_KEY_LENGTH}s" * count)


def rarity(found_in: int, tools: int) -> float:
    return math.log1p((max(tools, found_in) - found_in + 0.5) / (found_in + 0.5))


def find_gains(stress: Mapping[str, float], found_in: Mapping[str, int], tools: int) -> dict[str, float]:
    """Return what each term of a question is worth: its stress times its rarity."""
    return {term: weight * rarity(found_in[term], tools) for term, weight in stress.items()}


def score(vector: bytes, gains: Mapping[bytes, float], stress: Mapping[bytes, float]) -> float:
    """Return BM25F of the question's terms, and up to 40 % more for a name that contains nothing else.

    `stress` is how much the question wants each term (1 for a plain word), by its key; `gains` is that
    times its rarity.
    """
    name_term_count, keys = _keys_of(vector)
    impacts_start = _HEADER.size + _KEY_LENGTH * len(keys)
    total = 0.0
    tool_keys = set(keys)
    for key, gain in gains.items():
        if key in tool_keys:
            total += gain * vector[impacts_start + keys.index(key)]
    if name_term_count:
        name_stress = sum([min(1.0, stress[key]) for key in keys[:name_term_count] if key in stress])
        total *= 1 + _NAME_BONUS * name_stress / name_term_count
    return total / FULL
