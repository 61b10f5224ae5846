"""Patterns that begin with fixed words. A search for these words excludes most texts. Pure.

A pattern with dozens of branches takes a thousand times as long as a search for a word. So a clause lists the
words that it begins with, as in “ignor|disregard”, and its pattern is tried only directly after one of
them.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from catalog.rules.inspection.alarms import AlarmMatch
from catalog.rules.inspection.folding import BOUNDARY


class Clause(NamedTuple):
    """One pattern. `firsts`: the first words of `begins`, empty for scripts without spaces between words."""

    begins: tuple[str, ...]
    continuation: re.Pattern[str]
    firsts: frozenset[str]


_WORD = re.compile(r"[^\W_]+")


def clause(begins: str | tuple[str, ...], continuation: str) -> Clause:
    """Compile a clause. `begins`: words, or one text of them with “|” between. `continuation`: a pattern."""
    if isinstance(begins, str):
        begins = tuple(begins.split("|"))
    firsts = frozenset(_WORD.findall(beginning)[0] for beginning in begins)
    has_blanks = all(_is_letter(beginning[0]) for beginning in firsts)
    return Clause(begins, re.compile(continuation), firsts if has_blanks else frozenset())


@lru_cache(maxsize=8)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def gap(max_length: int) -> str:
    """Return a pattern for other words of the same sentence, of at most `max_length` characters."""
    return rf"[^.!?{BOUNDARY}]{{0,{max_length}}}?"


def find_clause(clauses: Iterable[Clause], text: str) -> AlarmMatch | None:
    """Return the first match of the first clause that occurs in the text."""
    words = _words(text)
    for candidate in clauses:
        if words.isdisjoint(candidate.firsts) if candidate.firsts else text.isascii():
            continue
        for beginning in candidate.begins:
            offset = text.find(beginning)
            while offset >= 0:
                # A match within a word does not count, except in scripts without spaces between words.
                if (offset == 0 or not _is_letter(text[offset - 1]) or not _is_letter(beginning[0])) and (
                    match := candidate.continuation.match(text, offset + len(beginning))
                ):
                    return AlarmMatch(offset, match.end())
                offset = text.find(beginning, offset + 1)
    return None


def _is_letter(character: str) -> bool:
    """Return whether it is a letter of an alphabet with spaces between words."""
    return character.isalnum() and character <= "\u04ff"
