"""From the words of a search to weighed terms. Pure: what the catalog knows comes in as arguments."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from catalog.search import ranking, spelling, word_lists, words
from catalog.search.fit import Concept
from catalog.search.job_words import CHINESE, ENGLISH, JobWords, Match, stem
from catalog.search.stemming import stem_word
from catalog.search.vocabulary import Known, Spelling

MAX_LENGTH = 1_000
# More words than this are a text that was pasted, and each is looked up.
_MAX_RUNS = 250
_LONG = 5
# Of a beginning that hundreds of words share, the most frequent are what was meant.
_MAX_BEGINNINGS = 5
_MIN_TYPED_LENGTH, _MIN_BEGINNING_LENGTH = 2, 4
# A rare word may be meant as it is; it is taken for a mistake beside one so many times as frequent.
_RARITY = 10
# How much a word counts that only asks, that is another verb for one in the question, that only begins so
# or that was put in for a misspelt one. In a long question, or if the mistake is an odd one, that is more
# often a word no tool has.
_ASKING, _SYNONYM, _BEGINNING, _REPAIRED, _GUESSED = 0.3, 0.2, 0.7, 0.8, 0.5
# A rare word is often a name, a place or a date, which no tool has to have.
_MAX_WEIGHT = 3.0
# A common word that names no everyday thing says little about what is wanted: "take", "something".
_COMMON = 0.53
# A word asked n times counts as n to this power.
_REPEATED = 0.2
# How much a group of everyday words counts: for an English word, for one of another language, and for an
# act such as creating. A long question has enough other words.
_GROUP, _FOREIGN_GROUP, _FOREIGN_ACT = 0.8, 1.5, 0.3
_MANY_RUNS, _GROUP_AMONG_MANY = 8, 0.2
# The first terms of a group are those of vendors. More of them hide what was typed.
_REPHRASED_BY, _MAX_REPHRASED = 2, 6
_MIN_CLAUSE_WORDS, _MAX_CLAUSES = 3, 6
_CIRCUMSTANCES = Path(__file__).parent / "data" / "circumstances.txt"
# Before "and" and the like a clause ends, too.
_CLAUSE_END = re.compile(r"[,;:.!?()&/\u2013]|\s-+\s|\b(?=(?:and|but|because|before)\b)", re.IGNORECASE)
# "20", "9am", "75k", "3rd", "12kg".
_AMOUNT = re.compile(r"\d+[a-z]{0,3}")


@dataclass(frozen=True, slots=True)
class Question:
    """The runs of a text and the words in each; a tool may be meant by the whole of it.

    `matches` are its everyday words, `languages` what it may be written in, and `foreign_stops` the words
    that only join others in those but English.
    """

    runs: tuple[str, ...]
    key: str
    acronyms: frozenset[str]
    matches: tuple[Match, ...] = ()
    foreign_stops: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset((ENGLISH,))

    @property
    def words(self) -> set[str]:
        """Return all words to look up. For a verb these include other verbs for the same action."""
        own_words = {word for run in self.runs for word in words.with_compound(run)}
        return own_words | words.SYNONYMS.keys() | {match.group.token for match in self.matches}

    @property
    def group_keys(self) -> frozenset[bytes]:
        """Return the keys of the English words of its groups of everyday words, but those of acts."""
        terms = {
            term
            for match in self.matches
            if not match.group.is_act
            for term in match.group.terms.get(ENGLISH, ())
        }
        return _keys({stem_word(word) or word for term in terms for word in words.words(term)})

    @property
    def names(self) -> frozenset[str]:
        """Return the words with a capital amid others without: no tool has to have a customer or a town."""
        if self.languages != {ENGLISH} or not any(run.islower() for run in self.runs):
            return frozenset()
        return frozenset(run for run in self.runs[1:] if run[:1].isupper() and run[1:].islower())

    @property
    def last(self) -> str:
        return words.parts(self.runs[-1])[-1] if self.runs and words.parts(self.runs[-1]) else ""


@dataclass(slots=True)
class Terms:
    """Terms (stems) with their stress, and what to tell the person about the words.

    `groups` has the words of the question by the tokens of their groups of everyday words, `by_run` the
    terms for each run of letters.
    """

    stress: dict[str, float] = field(default_factory=dict)
    found_in: dict[str, int] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)
    repaired: dict[str, str] = field(default_factory=dict)
    is_typing: bool = False
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_run: dict[str, set[str]] = field(default_factory=dict)

    def include(self, run: str, others: "Terms") -> None:
        """Add the terms of one run of letters, which are in `others`."""
        for term, stress in others.stress.items():
            self.add(term, others.found_in[term], stress)
        self.by_run[run] = set(others.stress)
        self.is_typing |= others.is_typing

    def add(self, term: str | None, found_in: int, stress: float) -> bool:
        if term is None:
            return False
        self.stress[term] = max(stress, self.stress.get(term, 0.0))
        self.found_in[term] = found_in
        return True

    def add_groups(self, question: Question, known: Mapping[str, Known]) -> set[str]:
        """Add the groups of everyday words that tools have, and return the words of the question in them."""
        meanings = Counter(match.places for match in question.matches)
        grouped: set[str] = set()
        for match in question.matches:
            group = known[match.group.token]
            if group.term is None:
                continue
            grouped.update(match.words)
            if match.language == CHINESE:
                grouped.update(run for run in question.runs if match.words[0] in run)
            stress = _group_stress(match, group.found_in, question, known) / meanings[match.places]
            if stress:
                self.add(group.term, group.found_in, stress)
                self.groups[match.group.token] = match.words
        return grouped

    def respell(self, word: str, spellings: Sequence[Spelling], question: Question) -> bool:
        """Add other words for a word that the catalog lacks or that may not be complete.

        These are the words that begin with it, if it is the last one or long enough, or else its likeliest
        repair; both, if those that begin with it are rare beside the repair. Returns whether there were any.
        """
        begins = [candidate for candidate in spellings if candidate.distance is None]
        is_last = word == question.last
        if len(word) < (_MIN_TYPED_LENGTH if is_last else _MIN_BEGINNING_LENGTH):
            begins = []
        for candidate in sorted(begins, key=lambda candidate: -candidate.found_in)[:_MAX_BEGINNINGS]:
            self.is_typing |= is_last
            self.add(candidate.term, candidate.found_in, _BEGINNING)
        common = _RARITY * max((candidate.found_in for candidate in begins), default=0)
        # A word that a language has is no mistake, whatever the catalog knows.
        is_word = word_lists.is_listed(word, question.languages)
        repairs = [
            candidate
            for candidate in spellings
            if candidate.distance is not None and candidate.found_in > common and not is_word
        ]
        if not repairs:
            return bool(begins)
        best = max(
            repairs,
            key=lambda candidate: spelling.likelihood(
                word, candidate.word, candidate.distance or 0, candidate.found_in
            ),
        )
        self.repaired[word] = best.word
        is_sure = len(question.runs) <= _LONG and spelling.is_surely_meant(word, best.word)
        stress = _stress(best.word, 1) * (_REPAIRED if is_sure else _GUESSED)
        return self.add(best.term, best.found_in, stress) or bool(begins)


def read(text: str, job_words: JobWords | None = None) -> Question:
    text = text[:MAX_LENGTH]
    runs = tuple(words.runs(text)[:_MAX_RUNS])
    pieces = [word for run in runs for word in words.parts(run)]
    return Question(
        runs,
        words.name_key(text),
        frozenset(words.acronyms(text)),
        tuple(job_words.find(text)) if job_words else (),
        word_lists.foreign_stops(pieces),
        word_lists.other_languages(pieces) | {ENGLISH},
    )


def unknown(question: Question, known: Mapping[str, Known]) -> list[str]:
    """Return the words to look for in other spellings."""
    # A verb is not looked for when the catalog knows another one for the same action.
    actions = _actions(known)
    return sorted(
        word
        for word in {piece for run in question.runs for piece in words.parts(run)}
        if known[word].term is None
        and _is_telling(word, known)
        and not any(other.term for other in actions.get(known[word].stem, ()))
    )


def _is_telling(word: str, known: Mapping[str, Known]) -> bool:
    return not known[word].is_stop and word not in words.ASKING


def _actions(known: Mapping[str, Known]) -> dict[str, list[Known]]:
    return {known[verb].stem: [known[other] for other in others] for verb, others in words.SYNONYMS.items()}


def weigh(
    question: Question, known: Mapping[str, Known], spellings: Mapping[str, Sequence[Spelling]]
) -> Terms:
    terms = Terms()
    times = Counter(known[word].stem for run in question.runs for word in words.with_compound(run))
    actions = _actions(known)
    grouped = terms.add_groups(question, known)
    for run, pieces in _asked(question, known):
        matched = run in grouped
        run_terms = Terms(repaired=terms.repaired)
        for word in pieces:
            stem = known[word].stem
            stress = _stress(word, times[stem])
            matched |= word in grouped
            matched |= run_terms.add(known[word].term, known[word].found_in, stress)
            matched |= run_terms.respell(word, [] if word in grouped else spellings.get(word, ()), question)
            for other in actions.get(stem, ()):
                matched |= run_terms.add(other.term, other.found_in, stress * _SYNONYM)
        terms.include(run, run_terms)
        if not matched and any(_is_telling(word, known) for word in pieces):
            terms.unmatched.append(run)
    return terms


def find_stems(question: Question, known: Mapping[str, Known], terms: Terms) -> frozenset[str]:
    """Return the English stems of the words to mark in tools: those of the question and of its groups."""
    question_words = {
        word for _, pieces in _asked(question, known) for word in pieces if _is_telling(word, known)
    }
    grouped = {
        term
        for match in question.matches
        if match.group.token in terms.groups
        for term in match.group.terms[ENGLISH]
        if " " not in term
    }
    return frozenset(stem(ENGLISH, word) for word in {*question_words, *grouped, *terms.repaired.values()})


def find_concepts(
    question: Question, known: Mapping[str, Known], terms: Terms, tool_count: int
) -> list[Concept[bytes]]:
    """Return what the question wants: one concept for each word that means something."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    names_thing: defaultdict[str, bool] = defaultdict(bool)
    concepts = []
    for match in question.matches:
        group = known[match.group.token]
        if group.term is None:
            continue
        if match.language == CHINESE:
            weight = ranking.rarity(group.found_in, tool_count)
            concepts.append(Concept(match.words[0], weight, groups=_keys({group.term})))
        for word in match.words:
            groups[word].add(group.term)
            names_thing[word] |= not match.group.is_act
    chinese = tuple(concept.word for concept in concepts)
    for run, pieces in _asked(question, known):
        is_telling = any(_is_telling(word, known) or word in question.acronyms for word in pieces)
        if not is_telling or any(word in run for word in chinese):
            continue
        word_terms = terms.by_run.get(run, set())
        grouped = {token for word in pieces for token in groups[word]}
        found_in = max((terms.found_in[term] for term in word_terms), default=0)
        weight = min(_MAX_WEIGHT, ranking.rarity(found_in, tool_count))
        if not any(names_thing[word] for word in pieces):
            if _names_no_purpose(run.lower()):
                weight = 0.0
            elif word_lists.is_common(run.lower()):
                weight *= _COMMON
        concepts.append(Concept(run, weight, _keys(word_terms), _keys(grouped)))
    known_weights = [concept.weight for concept in concepts if concept.terms or concept.groups]
    most = max(known_weights, default=_MAX_WEIGHT)
    names = question.names
    # In a small catalog, a word that no tool has would outweigh all that some tools have.
    return [
        concept
        if concept.terms or concept.groups
        else replace(concept, weight=0.0 if concept.word in names else min(concept.weight, most))
        for concept in concepts
    ]


def split_clauses(text: str, concepts: Sequence[Concept[bytes]]) -> list[list[Concept[bytes]]]:
    """Return the concepts of each clause that has several of them."""
    runs_of_clauses = [set(words.runs(clause)) for clause in _CLAUSE_END.split(text[:MAX_LENGTH])]
    clauses = [
        [concept for concept in concepts if concept.weight and concept.word in runs]
        for runs in runs_of_clauses
    ]
    return [clause for clause in clauses if len(clause) > 1]


def rephrase(question: Question, text: str) -> str:
    """Return the text with the words that vendors are likely to use for what it names, "" if it has them.

    People write “money back”, vendors “refund”: the meanings of their sentences are closer with such words.
    """
    terms = dict.fromkeys(
        term
        for match in question.matches
        if match.language != ENGLISH or not match.group.is_act
        for term in match.group.terms.get(ENGLISH, ())[:_REPHRASED_BY]
        if term.lower() not in text.lower()
    )
    return f"{text.rstrip(' .?!')}. {' '.join(list(terms)[:_MAX_REPHRASED])}" if terms else ""


def rephrase_clauses(text: str, job_words: JobWords) -> list[str]:
    """Return the last clauses of a story with the words of vendors, or the whole text if it has one clause.

    One of them has the purpose: “I was away for a week, how do I get my costs back?”
    """
    clauses = [clause.strip() for clause in _CLAUSE_END.split(text[:MAX_LENGTH])]
    clauses = [clause for clause in clauses if len(clause.split()) >= _MIN_CLAUSE_WORDS]
    if len(clauses) < 2:
        clauses = [text]
    return [rephrase(read(clause, job_words), clause) or clause for clause in clauses[-_MAX_CLAUSES:]]


def _names_no_purpose(word: str) -> bool:
    """Return whether a word is a time, an amount, a name or a letter: "from A to B on Friday for 20kg"."""
    is_letter = len(word) == 1 and word.isascii()
    return is_letter or word in circumstances() or _AMOUNT.fullmatch(word) is not None


@cache
def circumstances() -> frozenset[str]:
    """Return the shipped words for times, amounts, people and places."""
    lines = _CIRCUMSTANCES.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _keys(terms: Collection[str]) -> frozenset[bytes]:
    return frozenset(map(ranking.term_key, terms))


def _group_stress(match: Match, found_in: int, question: Question, known: Mapping[str, Known]) -> float:
    if match.language != ENGLISH:
        return _FOREIGN_ACT if match.group.is_act else _FOREIGN_GROUP
    if match.group.is_act:
        return 0.0
    stress = _GROUP * (_GROUP_AMONG_MANY if len(question.runs) > _MANY_RUNS else 1.0)
    if len(match.words) > 1:
        return stress
    # A word counts for its group as far as the tools of the group use other words.
    word = known.get(match.words[0])
    return stress * (1.0 - min(1.0, word.found_in / found_in)) if word else stress


def _asked(question: Question, known: Mapping[str, Known]) -> list[tuple[str, list[str]]]:
    # Each run with the words in it. Stop words only if there is nothing else, or as acronyms: "IT".
    everything = [(run, list(words.with_compound(run))) for run in dict.fromkeys(question.runs)]
    telling = [
        (
            run,
            [
                word
                for word in is_found
                if not (known[word].is_stop or word in question.foreign_stops) or word in question.acronyms
            ],
        )
        for run, is_found in everything
    ]
    return telling if any(is_found for _, is_found in telling) else everything


def _stress(word: str, times: int) -> float:
    return (_ASKING if word in words.ASKING else 1.0) * math.pow(times, _REPEATED)
