"""Why a tool answers a question, and when nothing does. Pure.

A question wants several things, one for each of its words that means something. A tool has a thing by the
word itself, by another verb for the same act, or by a group of everyday words.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Generic, TypeVar

# A term of the index, whatever the engine keeps.
Term = TypeVar("Term")
# The best of so many first tools decides.
FIRST = 5
# Less of a question than this share in the best tool is a bad fit.
_MIN_SHARE = 0.5
# A meaning so close is a good fit, whatever the words.
_MIN_MEANING = 0.65
# A longer question tells a story, and no tool has most of its words.
_MAX_CONCEPTS = 8
# The name of a tool states its purpose; a word in its description may only be mentioned there.
_MENTIONED, _GROUPED = 0.8, 1.0


@dataclass(frozen=True, slots=True)
class Concept(Generic[Term]):
    """One word of a question.

    word: as it was typed.
    weight: how rare it is in the catalog.
    terms: the terms of the index for the word itself and its synonyms; none if no tool has one.
    groups: the terms of its groups of everyday words.
    """

    word: str
    weight: float
    terms: frozenset[Term] = frozenset()
    groups: frozenset[Term] = frozenset()


@dataclass(frozen=True, slots=True)
class Reasons:
    """The words of the question that a tool has: in its name, elsewhere in its texts, or by a group.

    meaning: how close the meaning is, from 0 to 1; None where meanings are not compared.
    """

    name: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    job_words: list[str] = field(default_factory=list)
    meaning: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """The features of one tool for one question.

    share: the part of the weight of the question that the tool has, from 0 to 1.
    is_name: the question is the name of the tool.
    meaning: how close the meaning is, from 0 to 1; None where meanings are not compared.
    """

    share: float
    is_name: bool = False
    meaning: float | None = None


def find_reasons(
    concepts: Iterable[Concept[Term]],
    name: Collection[Term],
    terms: Set[Term],
    meaning: float | None = None,
) -> Reasons:
    reasons = Reasons(meaning=meaning)
    for concept in concepts:
        if concept.terms & set(name):
            reasons.name.append(concept.word)
        elif concept.terms & terms:
            reasons.words.append(concept.word)
        elif concept.groups & terms:
            reasons.job_words.append(concept.word)
    return reasons


def share_of(concepts: Sequence[Concept[Term]], name: Collection[Term], terms: Set[Term]) -> float:
    """Return the part of the question's weight that the tool has; 1 for a question too long to compare."""
    if len(concepts) > _MAX_CONCEPTS:
        return 1.0
    total = sum(concept.weight for concept in concepts)
    matched_weight = 0.0
    for concept in concepts:
        if concept.terms & set(name):
            matched_weight += concept.weight
        elif concept.terms & terms:
            matched_weight += concept.weight * _MENTIONED
        elif concept.groups & terms:
            matched_weight += concept.weight * _GROUPED
    return matched_weight / total if total else 1.0


def fits_badly(fits: Sequence[Fit]) -> bool:
    """Return whether none of the first tools answers the question well."""
    first = fits[:FIRST]
    return not any(
        fit.is_name or fit.share >= _MIN_SHARE or (fit.meaning or 0.0) >= _MIN_MEANING for fit in first
    )
