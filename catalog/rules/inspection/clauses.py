"""Patterns that begin with fixed words, which are looked for first: most texts hold none of them. Pure.

A pattern with dozens of branches takes a thousand times as long as a search for a word. So a clause says
by which words it begins, as in “ignor|disregard”, and its pattern is tried right behind these alone.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from catalog.rules.inspection.alarms import Hit
from catalog.rules.inspection.folding import BOUNDARY


class Clause(NamedTuple):
    """`firsts` are the first words of `begins`; empty where words stand without blanks between them."""

    begins: tuple[str, ...]
    goes_on: re.Pattern[str]
    firsts: frozenset[str]


_WORD = re.compile(r"[^\W_]+")


def clause(begins: str | tuple[str, ...], goes_on: str) -> Clause:
    """`begins` are words, or one text of them with “|” between; `goes_on` is a pattern."""
    if isinstance(begins, str):
        begins = tuple(begins.split("|"))
    firsts = frozenset(_WORD.findall(each)[0] for each in begins)
    has_blanks = all(_is_letter(each[0]) for each in firsts)
    return Clause(begins, re.compile(goes_on), firsts if has_blanks else frozenset())


@lru_cache(maxsize=8)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def gap(longest: int) -> str:
    """Other words of the same sentence, at most so many characters."""
    return rf"[^.!?{BOUNDARY}]{{0,{longest}}}?"


def first(clauses: Iterable[Clause], text: str) -> Hit | None:
    words = _words(text)
    for each in clauses:
        if words.isdisjoint(each.firsts) if each.firsts else text.isascii():
            continue
        for begin in each.begins:
            at = text.find(begin)
            while at >= 0:
                # In the middle of a word it is another word. Scripts without blanks have no such place.
                if (at == 0 or not _is_letter(text[at - 1]) or not _is_letter(begin[0])) and (
                    found := each.goes_on.match(text, at + len(begin))
                ):
                    return Hit(at, found.end())
                at = text.find(begin, at + 1)
    return None


def _is_letter(character: str) -> bool:
    # Of an alphabet that has blanks between its words; an apostrophe belongs to one.
    return character.isalnum() and character <= "\u04ff"
