"""Everyday words: people write “payslip” or “Lohnzettel” where a vendor wrote “paystub”.

A group lists the words for one thing or one act at work, by language. A tool and a question that contain
words of one group have its token in common, whichever words they are. Pure: the shipped groups are a file
of this package, and the changes of administrators come in as arguments.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import Stemmer

from catalog.search import word_lists, words

ENGLISH, CHINESE = "en", "zh"
LANGUAGES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "zh": "Chinese"}
# A line that starts with it is of an act that almost every tool is about, such as creating.
_ACT_MARK = "!"
_SHIPPED = Path(__file__).parent / "data" / "job_words.txt"
_STEMMERS = {
    "en": Stemmer.Stemmer("english"),
    "de": Stemmer.Stemmer("german"),
    "fr": Stemmer.Stemmer("french"),
    "es": Stemmer.Stemmer("spanish"),
}
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
# German writes several words as one: both parts of such a word have at least so many letters.
_MIN_PART_LENGTH = 4
_JOINTS = ("", "s", "n", "en", "es")


@dataclass(frozen=True, slots=True)
class WordGroup:
    """The words for one thing, by language; the first one is the key, in English if there is one.

    `is_act`: almost every tool has it, so only questions in other languages are helped by it.
    """

    terms: Mapping[str, tuple[str, ...]]
    is_act: bool = False

    @property
    def key(self) -> str:
        return next(term for terms in self.terms.values() for term in terms)

    @property
    def token(self) -> str:
        return words.GROUP_MARK + self.key.lower().replace(" ", "_")


@dataclass(frozen=True, slots=True)
class Match:
    """`words` of a text, from its word `start` to `end`, are a term of a group in a language.

    Of Chinese, which writes no spaces, the places are those of characters.
    """

    start: int
    end: int
    language: str
    group: WordGroup
    words: tuple[str, ...]


_Table = dict[str, list[tuple[str, tuple[str, ...], WordGroup]]]


class JobWords:
    """Finds the groups whose words a text contains: `groups`, and those of `others`."""

    def __init__(self, groups: Iterable[WordGroup], others: "JobWords | None" = None) -> None:
        self.groups = tuple(groups)
        self._others = others
        # By the stem of the first word in its language: the language, all stems, and the group.
        self._table: _Table = defaultdict(list)
        chinese: dict[str, list[WordGroup]] = defaultdict(list)
        for group in self.groups:
            for language, terms in group.terms.items():
                for term in terms:
                    if language == CHINESE:
                        chinese[words.fold(term)].append(group)
                    else:
                        self._add(language, term, group)
        self._chinese = dict(chinese)
        longest_first = sorted(chinese, key=len, reverse=True)
        self._chinese_term = re.compile("|".join(map(re.escape, longest_first))) if chinese else None
        self.look_up = lru_cache(maxsize=50_000)(self._look_up)

    def _add(self, language: str, term: str, group: WordGroup) -> None:
        spellings = {term, term.lower().translate(_UMLAUTS)} if language == "de" else {term}
        for spelling in spellings:
            stems = tuple(stem(language, word) for word in split_words(spelling))
            self._table[f"{language}:{stems[0]}"].append((language, stems, group))

    def _look_up(self, word: str) -> tuple[tuple[str, tuple[str, ...], WordGroup], ...]:
        candidates = [
            candidate
            for language in _STEMMERS
            for candidate in self._table.get(f"{language}:{stem(language, word)}", ())
        ]
        return tuple(candidates) or tuple(self._look_up_parts(word))

    def _look_up_parts(self, word: str) -> Iterator[tuple[str, tuple[str, ...], WordGroup]]:
        """Yield the groups of the parts of a German compound: Paket and Verfolgung in “Paketverfolgung”."""
        for place in range(len(word) - _MIN_PART_LENGTH, _MIN_PART_LENGTH - 1, -1):
            heads = {word[:place].removesuffix(joint) for joint in _JOINTS}
            first = [candidate for head in heads for candidate in self._german(head)]
            last = self._german(word[place:])
            if first and last:
                yield from (("de", (stem("de", word),), group) for _, _, group in (*first, *last))
                return

    def _german(self, part: str) -> list[tuple[str, tuple[str, ...], WordGroup]]:
        if len(part) < _MIN_PART_LENGTH:
            return []
        return [
            candidate for candidate in self._table.get(f"de:{stem('de', part)}", ()) if len(candidate[1]) == 1
        ]

    def find(self, text: str) -> list[Match]:
        """Return the groups that `text` has words of, without terms that lie within a longer one."""
        matches = [*self._find_spaced(split_words(text)), *self._find_chinese(text)]
        if self._others is None:
            return matches
        # A group that begins with the first word of another one extends it: both have one token.
        places = {(match.start, match.end, match.group.token) for match in matches}
        return matches + [
            match
            for match in self._others.find(text)
            if (match.start, match.end, match.group.token) not in places
        ]

    def _find_spaced(self, text: list[str]) -> list[Match]:
        matches = []
        languages = {ENGLISH, *word_lists.other_languages(text)}
        for start, word in enumerate(text):
            for language, stems, group in self.look_up(word):
                if language not in languages:
                    continue
                end = start + len(stems)
                following_words = text[start + 1 : end]
                if len(following_words) == len(stems) - 1 and all(
                    stem(language, other) == expected_stem
                    for other, expected_stem in zip(following_words, stems[1:], strict=True)
                ):
                    matches.append(Match(start, end, language, group, tuple(text[start:end])))
        # Several terms of a group may be forms of one word.
        distinct = {
            (match_.start, match_.end, match_.group.token): match_ for match_ in reversed(matches)
        }.values()
        return [
            match
            for match in distinct
            if not any(
                other.start <= match.start
                and match.end <= other.end
                and other.end - other.start > match.end - match.start
                for other in distinct
            )
        ]

    def _find_chinese(self, text: str) -> list[Match]:
        if text.isascii() or self._chinese_term is None:
            return []
        return [
            Match(occurrence.start(), occurrence.end(), CHINESE, group, (occurrence.group(),))
            for occurrence in self._chinese_term.finditer(words.fold(text))
            for group in self._chinese[occurrence.group()]
        ]


def split_words(text: str) -> list[str]:
    return [word.replace("ß", "ss") for word in words.words(text)]


@lru_cache(maxsize=100_000)
def stem(language: str, word: str) -> str:
    return str(_STEMMERS[language].stemWord(word))


def parse(text: str) -> list[WordGroup]:
    """Read groups, one a line: `parcel, package | de: Paket | fr: colis`. A line of `#` is a comment."""
    lines = (line.strip() for line in text.splitlines())
    return [_parse_line(line) for line in lines if line and not line.startswith("#")]


def _parse_line(line: str) -> WordGroup:
    english, *others = line.removeprefix(_ACT_MARK).split("|")
    terms = {ENGLISH: _split_terms(english)}
    for part in others:
        language, _, term_list = part.partition(":")
        terms[language.strip()] = _split_terms(term_list)
    return WordGroup(terms, is_act=line.startswith(_ACT_MARK))


def _split_terms(listed: str) -> tuple[str, ...]:
    return tuple(term for term in (term_text.strip() for term_text in listed.split(",")) if term)


@cache
def shipped_groups() -> tuple[WordGroup, ...]:
    return tuple(parse(_SHIPPED.read_text(encoding="utf-8")))


@cache
def shipped_job_words() -> JobWords:
    return JobWords(shipped_groups())


def job_words_for(text: str, known: JobWords | None = None) -> frozenset[str]:
    """Return the tokens of the groups that `text` has words of."""
    return frozenset(match.group.token for match in (known or shipped_job_words()).find(text))
