"""Which word of the catalog a mistyped word stands for: by keys and by sound. Pure."""

import math
from collections.abc import Iterator
from enum import StrEnum

MIN_REPAIRED_LENGTH, MIN_TWICE_REPAIRED_LENGTH = 4, 7
# In words up to this length a wrong vowel makes another word as easily as a mistake: "paris" is not "parts".
# A wrong consonant mostly makes what cannot be pronounced: "spkce".
_SHORT = 5
_VOWELS = frozenset("aeiouy")
# Words that only join others and that PostgreSQL does not count among the stop words. No search is for them.
_JOINING = frozenset(
    (
        *(
            "also",
            "although",
            "among",
            "else",
            "ever",
            "every",
            "hence",
            "however",
            "instead",
            "may",
            "might",
        ),
        *("must", "otherwise", "per", "shall", "since", "therefore", "though", "thus", "toward", "towards"),
        *("unless", "upon", "via", "whether", "whose", "within", "without"),
    )
)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> Iterator[frozenset[str]]:
    for upper, lower in zip(_KEYS, (*_KEYS[1:], ""), strict=True):
        for place, key in enumerate(upper):
            # Each row stands half a key to the right of the one above it.
            below = (*lower[place : place + 1], *(lower[place - 1 : place] if place else ()))
            for other in (*upper[place + 1 : place + 2], *below):
                yield frozenset((key, other))


_NEIGHBOURS = frozenset(_neighbours())


class Slip(StrEnum):
    """The differences between a word and the typed one."""

    DOUBLED = "one letter of two alike is missing, or one too many"
    SWAPPED = "two letters changed places"
    LEFT_OUT = "a letter is missing"
    VOWEL = "one vowel stands for another"
    NEIGHBOUR = "the key beside it was hit"
    EXTRA = "a letter too many"
    OTHER = "any letter stands for any other"
    SEVERAL = "more than one of these"


# How much less likely each is than the likeliest, as logarithms. What is counted by edits needs nothing more.
_ODDITY = {
    Slip.DOUBLED: 0.0,
    Slip.SWAPPED: 0.3,
    Slip.LEFT_OUT: 0.5,
    Slip.VOWEL: 0.5,
    Slip.NEIGHBOUR: 0.7,
    Slip.EXTRA: 1.0,
    Slip.OTHER: 2.0,
    Slip.SEVERAL: 0.0,
}
_EDIT, _FIRST_LETTER, _FREQUENCY = 6.0, 2.0, 0.5


def edits_allowed(word: str) -> int:
    if len(word) < MIN_REPAIRED_LENGTH or not word.isalpha():
        return 0
    return 1 if len(word) < MIN_TWICE_REPAIRED_LENGTH else 2


def may_mean(typed: str, word: str, edits: int) -> bool:
    """Return whether the user can have meant `word`, which is `edits` edits away from the typed word."""
    if not edits or edits > edits_allowed(typed) or word in _JOINING:
        return False
    # People hardly ever mistype the first letter; they leave it out, or swap it with the second. With a
    # second mistake in the word it is another word.
    if typed[0] != word[0] and (edits > 1 or (word[0] != typed[1] and word[1:2] != typed[0])):
        return False
    if len(typed) > _SHORT or slip(typed, word) != Slip.OTHER:
        return True
    wrong, right, _, _ = _difference(typed, word)
    return not (wrong in _VOWELS and right not in _VOWELS)


def is_surely_meant(typed: str, word: str) -> bool:
    how = slip(typed, word)
    return how != Slip.SEVERAL and not (how == Slip.OTHER and len(typed) <= _SHORT)


def likelihood(typed: str, word: str, edits: int, found_in: int) -> float:
    """Return how likely the user meant `word`: a logarithm, only for comparison. `found_in` counts tools."""
    # People mistype common words more often than rare ones, and seldom make two mistakes in one.
    return (
        _FREQUENCY * math.log(found_in)
        - _EDIT * edits
        - _FIRST_LETTER * (typed[0] != word[0])
        - _ODDITY[slip(typed, word)]
    )


def slip(typed: str, word: str) -> Slip:
    wrong, right, before, after = _difference(typed, word)
    if not wrong or not right:
        letter = wrong or right
        if len(letter) > 1:
            return Slip.SEVERAL
        if letter in (before, after):
            return Slip.DOUBLED
        return Slip.EXTRA if wrong else Slip.LEFT_OUT
    if len(wrong) == len(right) == 1:
        if {wrong, right} <= _VOWELS:
            return Slip.VOWEL
        return Slip.NEIGHBOUR if frozenset((wrong, right)) in _NEIGHBOURS else Slip.OTHER
    return Slip.SWAPPED if wrong == right[::-1] and len(wrong) == 2 else Slip.SEVERAL


def _difference(typed: str, word: str) -> tuple[str, str, str, str]:
    # The part of `typed` that differs, the part of `word` in its place, and the letters before and after.
    shortest = min(len(typed), len(word))
    start = next((index for index in range(shortest) if typed[index] != word[index]), shortest)
    remaining = shortest - start
    end = next((index for index in range(remaining) if typed[-1 - index] != word[-1 - index]), remaining)
    before = word[start - 1 : start] if start else ""
    return typed[start : len(typed) - end], word[start : len(word) - end], before, word[len(word) - end :][:1]
