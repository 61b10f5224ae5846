"""Conventions of the drafts (section 6.1) for names and texts. Pure. A tool that breaks one is noted."""

import re
import unicodedata

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_CAPITAL_SNAKE_CASE = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)*")
# Function words of English texts, and function words that do not occur in English.
_ENGLISH = frozenset(
    {*("the", "an", "of", "to", "and", "for", "with", "by", "from"), *("this", "that", "its", "be")}
)
_FOREIGN = frozenset(
    {
        *("der", "das", "eine", "einen", "einer", "und", "oder", "nicht", "wird", "für", "vom", "zur"),
        *("le", "les", "une", "pour", "dans", "avec", "sur", "est", "et", "aux", "cette"),
        *("el", "los", "las", "una", "del", "por", "según", "esta", "y"),
        *("il", "gli", "della", "delle", "dei", "uma", "não", "dos"),
        *("het", "een", "voor", "niet", "och", "för", "ett", "av"),
    }
)
MIN_FOREIGN_WORDS, MIN_LETTERS = 2, 3


def is_snake_case(name: str) -> bool:
    return _SNAKE_CASE.fullmatch(name) is not None


def is_capital_snake_case(name: str) -> bool:
    return _CAPITAL_SNAKE_CASE.fullmatch(name) is not None


def is_foreign(*texts: str) -> bool:
    """Return whether a text is certainly not English.

    Most of its letters are not Latin, or it has function words of other languages and none of English.
    """
    for text in texts:
        words = set(text.lower().split())
        if len(words & _FOREIGN) >= MIN_FOREIGN_WORDS and words.isdisjoint(_ENGLISH):
            return True
        letters = [] if text.isascii() else [letter for letter in text if letter.isalpha()]
        foreign = [letter for letter in letters if not unicodedata.name(letter, "").startswith("LATIN ")]
        if len(foreign) >= MIN_LETTERS and len(foreign) * 2 > len(letters):
            return True
    return False
