"""Everyday words: people write “payslip” or “Lohnzettel” where a vendor wrote “paystub”.

A group lists the words for one thing or one act at work, by language. A tool and a question that contain
words of one group have its token in common, whichever words they are. Pure: the shipped groups are a file
of this package, and the changes of administrators come in as arguments.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
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
# English writes the object of a phrasal verb before its particle, too: "call the visit off".
_PARTICLES = frozenset(("away", "back", "down", "off", "out", "over", "up"))
_MAX_OBJECT_WORDS = 3


@dataclass(frozen=True, slots=True)
class WordGroup:
    """The words for one thing, by language; the first one is the key, in English if there is one.

    `is_act`: almost every tool has it, so only questions in other languages are helped by it.
    """

    terms: Mapping[str, tuple[str, ...]]
    is_act: bool = False
    key: str = field(init=False, repr=False, compare=False)
    token: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = next(term for terms in self.terms.values() for term in terms)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "token", words.GROUP_MARK + key.lower().replace(" ", "_"))


@dataclass(frozen=True, slots=True)
class Match:
    """`words` of a text, at its `places`, are a term of a group in a language.

    Of Chinese, which writes no spaces, the places are those of characters.
    """

    places: tuple[int, ...]
    language: str
    group: WordGroup
    words: tuple[str, ...]


_Table = dict[str, list[tuple[tuple[str, ...], WordGroup]]]


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms that begin with a word: of that word alone, by their second stem, and those that end with a
    particle, which may have others before it."""

    single: tuple[WordGroup, ...] = ()
    longer: Mapping[str, Sequence[tuple[tuple[str, ...], WordGroup]]] = field(default_factory=dict)
    phrasal: tuple[tuple[tuple[str, ...], WordGroup], ...] = ()


class JobWords:
    """Finds the groups whose words a text contains: `groups`, and those of `others`."""

    def __init__(self, groups: Iterable[WordGroup], others: "JobWords | None" = None) -> None:
        self.groups = tuple(groups)
        self._others = others
        # By the stem of the first word in its language: all stems, and the group.
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
            term_words = split_words(spelling)
            stems = tuple(stem(language, word) for word in term_words)
            # "Goods" and "takings" are not "good" and "take", which are frequent words by themselves.
            is_exact = (
                language == ENGLISH
                and len(stems) == 1
                and word_lists.is_common(stems[0], (ENGLISH,))
                and not word_lists.is_common(term_words[0], (ENGLISH,))
            )
            key = f"{language}={term_words[0]}" if is_exact else f"{language}:{stems[0]}"
            self._table[key].append((stems, group))

    def _look_up(self, word: str, language: str) -> _Terms:
        """Return the terms of a language that begin with the word."""
        terms = self._terms_at(language, word)
        if language == "de" and not any(self._terms_at(other, word) for other in _STEMMERS):
            terms = list(self._look_up_parts(word))
        single, phrasal = [], []
        longer: _Table = defaultdict(list)
        for stems, group in terms:
            if len(stems) == 1:
                single.append(group)
            elif language == ENGLISH and stems[-1] in _PARTICLES:
                phrasal.append((stems, group))
            else:
                longer[stems[1]].append((stems, group))
        return _Terms(tuple(single), longer, tuple(phrasal))

    def _terms_at(self, language: str, word: str) -> list[tuple[tuple[str, ...], WordGroup]]:
        exact = self._table.get(f"{language}={word}", []) if language == ENGLISH else []
        return exact + self._table.get(f"{language}:{stem(language, word)}", [])

    def _look_up_parts(self, word: str) -> Iterator[tuple[tuple[str, ...], WordGroup]]:
        """Yield the groups of the parts of a German compound: Paket and Verfolgung in “Paketverfolgung”."""
        for place in range(len(word) - _MIN_PART_LENGTH, _MIN_PART_LENGTH - 1, -1):
            heads = {word[:place].removesuffix(joint) for joint in _JOINTS}
            first = [candidate for head in heads for candidate in self._german(head)]
            last = self._german(word[place:])
            if first and last:
                yield from (((stem("de", word),), group) for _, group in (*first, *last))
                return

    def _german(self, part: str) -> list[tuple[tuple[str, ...], WordGroup]]:
        if len(part) < _MIN_PART_LENGTH:
            return []
        return [
            candidate for candidate in self._table.get(f"de:{stem('de', part)}", ()) if len(candidate[0]) == 1
        ]

    def find(self, text: str) -> list[Match]:
        """Return the groups that `text` has words of, without terms that lie within a longer one."""
        matches = self._find_spaced(split_words(text))
        if self._chinese_term and not text.isascii():
            matches += [
                Match(tuple(range(*occurrence.span())), CHINESE, group, (occurrence.group(),))
                for occurrence in self._chinese_term.finditer(words.fold(text))
                for group in self._chinese[occurrence.group()]
            ]
        if self._others is None:
            return matches
        # A group that begins with the first word of another one extends it: both have one token.
        places = {(match.places, match.group.token) for match in matches}
        return matches + [
            match for match in self._others.find(text) if (match.places, match.group.token) not in places
        ]

    def _find_spaced(self, text: list[str]) -> list[Match]:
        matches = []
        languages = {ENGLISH, *word_lists.other_languages(text)}
        text_stems = {
            language: [stem(language, word) for word in text]
            for language in _STEMMERS
            if language in languages
        }
        for start, (language, stems_of_text) in product(range(len(text)), text_stems.items()):
            terms = self.look_up(text[start], language)
            matches += [Match((start,), language, group, (text[start],)) for group in terms.single]
            following = terms.longer.get(stems_of_text[start + 1], ()) if start + 1 < len(text) else ()
            for stems, group in (*following, *terms.phrasal):
                if places := _find_places(stems_of_text, start, stems):
                    matches.append(Match(places, language, group, tuple(text[place] for place in places)))
        # Several terms of a group may be forms of one word.
        distinct = {(match_.places, match_.group.token): match_ for match_ in reversed(matches)}.values()
        longer_places = [set(match.places) for match in distinct if len(match.places) > 1]
        return [
            match for match in distinct if not any(places > set(match.places) for places in longer_places)
        ]


def _find_places(text_stems: Sequence[str], start: int, stems: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the places of a term in a text, whose first word is at `start`; None if others follow it."""
    last_place = start + len(stems) - 1
    # Nearly all terms that begin with a word of the text end with another.
    extra = _MAX_OBJECT_WORDS if stems[-1] in _PARTICLES else 0
    possible_ends = text_stems[last_place : last_place + 1 + extra]
    if stems[-1] not in possible_ends or tuple(text_stems[start + 1 : last_place]) != stems[1:-1]:
        return None
    return (*range(start, last_place), last_place + possible_ends.index(stems[-1]))


def split_words(text: str) -> list[str]:
    return [word.replace("ß", "ss") for word in words.words(text)]


@lru_cache(maxsize=100_000)
def stem(language: str, word: str) -> str:
    return str(_STEMMERS[language].stemWord(word))


def parse(text: str) -> list[WordGroup]:
    """Read groups, one a line: `parcel, package | de: Paket | fr: colis`. A line of `#` is a comment."""
    groups = []
    for line in (line.strip() for line in text.splitlines()):
        if not line or line.startswith("#"):
            continue
        english, *others = line.removeprefix(_ACT_MARK).split("|")
        terms = {ENGLISH: _split_terms(english)}
        for part in others:
            language, _, term_list = part.partition(":")
            terms[language.strip()] = _split_terms(term_list)
        groups.append(WordGroup(terms, is_act=line.startswith(_ACT_MARK)))
    return groups


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
