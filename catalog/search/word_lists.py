"""The words that a language has, and the language of a text. Pure: the lists come with a package."""

import gzip
import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import msgspec

from catalog.search.words import fold

ENGLISH = "en"
LANGUAGES = (ENGLISH, "de", "fr", "es")
# The most frequent words of each language; rarer ones are mostly names and mistakes.
_LISTED = 60_000
# The rarest of a list are more often slips of common words: "wether" of "weather".
_WELL_KNOWN = 28_000
# The first so many words of a language join others and mean nothing by themselves; so many are common.
_JOINING, _COMMON = 150, 1_500
# Related languages share words: one that explains so much of a text is likely too.
_LIKELY = 0.85


@dataclass(frozen=True, slots=True)
class _Ranks:
    """The places of the frequent words of a language, from 1, by the hashes of the words in ascending order.

    They take 0.6 MB, and a dictionary takes 12: each of its strings and numbers is an object, which a forked
    process copies as soon as it looks at it. No two words of the lists have the same 64 bits.
    """

    hashes: "array[int]"
    places: "array[int]"

    def get(self, word: str) -> int | None:
        position = bisect_left(self.hashes, key := hash(word))
        is_there = position < len(self.hashes) and self.hashes[position] == key
        return self.places[position] if is_there else None


@cache
def _ranks(language: str) -> _Ranks:
    packed = (resources.files("spellchecker") / "resources" / f"{language}.json.gz").read_bytes()
    counts = msgspec.json.decode(gzip.decompress(packed), type=dict[str, int])
    most_frequent = sorted(counts, key=lambda word: -counts[word])[:_LISTED]
    ranks: dict[int, int] = {}
    for rank, word in enumerate(most_frequent, 1):
        ranks.setdefault(hash(fold(word).replace("ß", "ss")), rank)
    hashes = array("q", sorted(ranks))
    return _Ranks(hashes, array("H", map(ranks.__getitem__, hashes)))


@lru_cache(maxsize=20_000)
def _rank(language: str, word: str) -> int | None:
    return _ranks(language).get(word)


def load() -> None:
    """Read all lists, which takes a second or two, once in each process."""
    for language in LANGUAGES:
        _ranks(language)


def is_listed(word: str, languages: Iterable[str] = LANGUAGES) -> bool:
    """Return whether one of the languages has this word, in small letters and without accents."""
    return any((_rank(language, word) or _LISTED) <= _WELL_KNOWN for language in languages)


def is_common(word: str, languages: Iterable[str] = LANGUAGES) -> bool:
    return any((_rank(language, word) or _LISTED) <= _COMMON for language in languages)


def weigh_languages(words: list[str]) -> dict[str, float]:
    """Return how much these words speak for each language: frequent words of a language most."""
    weights = zip(*map(_weigh_word, words), strict=True) if words else [()] * len(LANGUAGES)
    return dict(zip(LANGUAGES, map(sum, weights), strict=True))


@lru_cache(maxsize=20_000)
def _weigh_word(word: str) -> tuple[float, ...]:
    """Return how much a word speaks for each language."""
    ranks = [_rank(language, word) for language in LANGUAGES]
    return tuple(0.0 if rank is None else 1.0 - math.log(rank) / math.log(2 * _LISTED) for rank in ranks)


def other_languages(words: list[str]) -> frozenset[str]:
    """Return the languages but English that these words may be of: none in an English text."""
    weights = weigh_languages(words)
    english = weights.pop(ENGLISH)
    best = max(weights.values())
    if english > best:
        return frozenset()
    return frozenset(language for language, weight in weights.items() if weight >= best * _LIKELY)


def foreign_stops(words: list[str]) -> frozenset[str]:
    """Return those of the words that only join others in a language that is not English but theirs."""
    return frozenset(
        word
        for language in other_languages(words)
        for word in words
        if (_rank(language, word) or _LISTED) <= _JOINING
    )
