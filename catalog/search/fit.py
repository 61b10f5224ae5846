"""Why a tool answers a question, and when nothing does. Pure.

A question wants several things, one for each of its words that means something. A tool has a thing by the
word itself, by another verb for the same act, or by a group of everyday words.

`data/fit.json` has the weights that decide whether a question has an answer: by words, with meanings, and
with meanings of a model that can tell chores from questions to software.
`benchmarks/train_fit.py` makes the file.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

# A term of the index, whatever the engine keeps.
Term = TypeVar("Term")
# So many first tools decide.
FIRST = 5
WEIGHTS = Path(__file__).parent / "data" / "fit.json"
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


# A meaning so close is a good fit, whatever else.
CLOSE = 0.7
# More certainty decides nothing more.
MAX_CHORE = 4.0
# The weights depend on which sources the features of a question have.
Sources = Literal["words", "meanings", "chores"]


class FitFeatures(NamedTuple):
    """How well the first tools answer a question.

    share, best_share: the part of the weight of the question that the first tool has, and the best of them,
    from 0 to 1.
    clause_share: the best part of one clause; people explain in the others why they ask.
    share_and_meaning: the largest product of such a part and how close the rephrased meaning is.
    nearest: the closest meaning of all tools.
    length: the number of concepts, as a part of eight.
    unmatched: the number of words that no tool has.
    grouped: the part of the concepts that are everyday words of a trade.
    chore: how much the question reads like work done by hand, from -4 to 4. "Sweep the warehouse" has the
    words of a trade, and no tool sweeps.
    """

    share: float = 0.0
    best_share: float = 0.0
    clause_share: float = 0.0
    share_and_meaning: float = 0.0
    nearest: float = 0.0
    length: float = 0.0
    unmatched: float = 0.0
    grouped: float = 0.0
    chore: float = 0.0


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
    return 1.0 if len(concepts) > _MAX_CONCEPTS else weigh_share(concepts, name, terms)


def weigh_share(concepts: Sequence[Concept[Term]], name: Collection[Term], terms: Set[Term]) -> float:
    """Return the part of the weight of the concepts that the tool has."""
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


@cache
def shipped_weights() -> dict[str, dict[str, float]]:
    return msgspec.json.decode(WEIGHTS.read_bytes(), type=dict[str, dict[str, float]])


def fits_badly(features: FitFeatures, sources: Sources) -> bool:
    """Return whether none of the first tools answers the question well."""
    weights = shipped_weights()[sources]
    value: float = weights["bias"] + sum(
        weights[name] * feature for name, feature in features._asdict().items()
    )
    return value > 0 and features.nearest < CLOSE
