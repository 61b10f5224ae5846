"""Orders the first tools of a question by features of words and meanings together. Pure.

`data/ranker.json` has two weights for each feature, for short questions and for stories: one for every
question, and one that counts the more, the less of the question the best tool by words has.
`benchmarks/train_ranker.py` makes the file.
"""

import heapq
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from catalog.search import ranking, stemming, words
from catalog.search.cosines import Cosines
from catalog.search.fit import Concept, share_of
from catalog.search.question import Question
from catalog.search.searched_texts import GROUP_IN_NAME

# A longer question tells a story around one need. A still longer one describes several needs, in words that
# state enough by themselves.
MAX_CONCEPTS, MAX_CONCEPTS_OF_STORY = 8, 14
# The words of the question that one of the first so many tools has are covered.
COVERED_BY = 5
# So many tools are ordered; the others remain behind them.
RERANKED = 120
# The act of a question is in its first words.
_ACT_WORDS = 3
# A feature by length of a tool that meaning alone has found.
_USUAL_LENGTH = 1.5
# A question of so many concepts has groups that explain names by chance.
_MANY_CONCEPTS = 6
# A tool that has so much of a question in a name without other words is an answer.
_MIN_SHARE_IN_NAME = 0.5
Kind = Literal["short", "story"]
WEIGHTS = Path(__file__).parent / "data" / "ranker.json"
_ACTS = {
    "delete": "delete remove cancel destroy erase drop stop",
    "create": "create add make new post insert register generate open book reserve schedule send deliver "
    "write upload",
    "update": "update edit modify change put patch set replace move assign",
    "read": "get fetch retrieve read show view lookup obtain display return list browse enumerate find "
    "search query check verify see look",
}
ANY_ACT = "any"
_ASKS_TO_READ = frozenset(
    (
        *("what", "which", "who", "where", "when", "how", "any"),
        *("is", "are", "does", "do", "did", "was", "were", "has"),
    )
)


class Features(NamedTuple):
    """How one tool answers a question; shares of the best tool or of the question are from 0 to 1.

    words, name: the score by all words, and by those of the name.
    meaning, cosine: the cosine as a share of the best, and itself.
    share, share_in_name, share_in_groups: the weight of the question that the tool has.
    share_in_named_groups: the weight that its name has by groups of everyday words, and not by the words.
    precision: the share of the name that the question has.
    name_length: the logarithm of the number of words in the name.
    is_act, is_other_act: the name has the act of the question, or only others.
    both: words times meaning.
    word_place: 1 for the best score by words, 1/2 for the second, and so on.
    rephrased: the cosine with the rephrased question.
    explained: the share of the name that has only words of groups of the question; less of one that is not
    very short, whose groups explain names by chance.
    fused: the score by words and meanings.
    clause: the cosine with the nearest clause of a story.
    """

    words: float = 0.0
    name: float = 0.0
    meaning: float = 0.0
    cosine: float = 0.0
    share: float = 0.0
    share_in_name: float = 0.0
    share_in_groups: float = 0.0
    precision: float = 0.0
    name_length: float = _USUAL_LENGTH
    is_act: float = 0.0
    is_other_act: float = 0.0
    both: float = 0.0
    share_in_named_groups: float = 0.0
    word_place: float = 0.0
    rephrased: float = 0.0
    explained: float = 0.0
    fused: float = 0.0
    clause: float = 0.0


@dataclass(frozen=True)
class RankedQuestion:
    """The parts of a question that the features of all tools use.

    gains: what each term of the index is worth, by its key.
    best_score, best_cosine: of the candidates.
    covered: the part of the weight of the question that the best tool by words has.
    act: "read", "create", "update", "delete", or "" for a question that names none.
    clauses: the concepts in each clause that has several of them.
    group_keys: the keys of the words of its groups.
    """

    concepts: Sequence[Concept[bytes]]
    gains: Mapping[bytes, float]
    best_score: float
    best_cosine: float
    covered: float
    act: str
    clauses: Sequence[Sequence[Concept[bytes]]] = ()
    group_keys: frozenset[bytes] = frozenset()

    @cached_property
    def terms(self) -> frozenset[bytes]:
        """The keys of all terms that the question wants."""
        return frozenset(self.gains).union(*(concept.terms | concept.groups for concept in self.concepts))

    @cached_property
    def weight(self) -> float:
        return sum(concept.weight for concept in self.concepts) or 1.0

    @cached_property
    def explaining_keys(self) -> frozenset[bytes]:
        """The keys of the words of its groups that it does not contain itself."""
        return self.group_keys - self.gains.keys()

    @cached_property
    def shortness(self) -> float:
        return max(0.0, 1.0 - len(self.concepts) / _MANY_CONCEPTS)

    @property
    def kind(self) -> Kind | None:
        """Return which weights apply; None if most of its words are unknown, or it is too long."""
        known_count = sum(1 for concept in self.concepts if concept.terms or concept.groups)
        return find_kind(len(self.concepts)) if 2 * known_count >= len(self.concepts) else None

    def weigh_concepts(
        self, name: Collection[bytes], impacts: Mapping[bytes, int]
    ) -> tuple[float, float, float, float]:
        """Return the weights of the concepts in the name of a tool, only in other texts, only by a group, and
        of those that the name has by a group and not by the word."""
        in_name = mentioned = grouped = named_by_group = 0.0
        terms = impacts.keys()
        for concept in self.concepts:
            is_grouped = not concept.groups.isdisjoint(terms)
            if not concept.terms.isdisjoint(name):
                in_name += concept.weight
                continue
            if not concept.terms.isdisjoint(terms):
                mentioned += concept.weight
            elif is_grouped:
                grouped += concept.weight
            if is_grouped and max(impacts.get(key, 0) for key in concept.groups) >= GROUP_IN_NAME:
                named_by_group += concept.weight
        return in_name, mentioned, grouped, named_by_group


def describe_question(
    concepts: Sequence[Concept[bytes]],
    gains: Mapping[bytes, float],
    scores: Mapping[int, float],
    cosines: Cosines,
    vectors: Mapping[int, bytes],
    asked: Question,
    clauses: Sequence[Sequence[Concept[bytes]]],
) -> RankedQuestion:
    """Return the question with the best score, the nearest meaning and the best share of its concepts."""
    first = heapq.nlargest(COVERED_BY, scores, key=lambda tool: scores[tool])
    return RankedQuestion(
        concepts,
        gains,
        max(scores.values(), default=0.0),
        max(cosines.typed.values(), default=0.0),
        max((share_of(concepts, *ranking.unpack_terms(vectors[tool])) for tool in first), default=0.0),
        find_act(asked.runs),
        clauses,
        asked.group_keys,
    )


def find_kind(concept_count: int) -> Kind | None:
    if concept_count <= MAX_CONCEPTS:
        return "short"
    return "story" if concept_count <= MAX_CONCEPTS_OF_STORY else None


def find_act(runs: Sequence[str]) -> str:
    """Return the act that the runs of a question begin with."""
    first_words = [word for run in runs[:_ACT_WORDS] for word in words.parts(run)][:_ACT_WORDS]
    for word in first_words:
        key = _key_of(word)
        for act in _ACTS:
            if key in _act_keys()[act]:
                return act
    return "read" if first_words and first_words[0] in _ASKS_TO_READ else ""


def _key_of(word: str) -> bytes:
    return ranking.term_key(stemming.stem_word(word) or word)


@cache
def _act_keys() -> dict[str, frozenset[bytes]]:
    keys = {act: frozenset(map(_key_of, verbs.split())) for act, verbs in _ACTS.items()}
    return keys | {ANY_ACT: frozenset[bytes]().union(*keys.values())}


def find_all_features(
    question: RankedQuestion,
    tools: Sequence[int],
    scores: Mapping[int, float],
    fused_scores: Mapping[int, float],
    cosines: Cosines,
    vectors: Mapping[int, bytes],
) -> dict[int, Features]:
    """Return the features of tools, of those among which they are ordered.

    scores, fused_scores: by words, and by words and meanings.
    """
    by_words = sorted(tools, key=lambda tool: -scores.get(tool, 0.0))
    scale = max([fused_scores[tool] for tool in tools], default=0.0) or 1.0
    return {
        tool: find_features(
            question, scores.get(tool, 0.0), cosines.find_pair(tool), vectors.get(tool)
        )._replace(word_place=1 / place, fused=fused_scores[tool] / scale, clause=cosines.find_clause(tool))
        for place, tool in enumerate(by_words, 1)
    }


def find_features(
    question: RankedQuestion,
    score: float,
    cosines: tuple[float, float],
    vector: bytes | None,
) -> Features:
    """Return the features of a tool but those that compare it with others.

    score: by words. vector: None if only its meaning is near.

    cosines: with the question as it was typed, and with the rephrased one.
    """
    cosine, rephrased = cosines
    meaning = cosine / max(question.best_cosine, 0.05)
    if vector is None:
        return Features(meaning=meaning, cosine=cosine, rephrased=rephrased)
    name, impacts = ranking.unpack(vector, question.terms)
    in_name, mentioned, grouped, named_by_group = question.weigh_concepts(name, impacts)
    total = question.weight
    scale = question.best_score or 1.0
    gains = question.gains
    name_terms = [key for key in name if key in gains]
    name_score = sum([gains[key] * impacts[key] for key in name_terms])
    has_act = bool(question.act) and not _act_keys()[ANY_ACT].isdisjoint(name)
    is_act = has_act and not _act_keys()[question.act].isdisjoint(name)
    return Features(
        words=score / scale,
        name=name_score / ranking.FULL / scale,
        meaning=meaning,
        cosine=cosine,
        share=(in_name + 0.8 * mentioned + grouped) / total,
        share_in_name=in_name / total,
        share_in_groups=grouped / total,
        precision=len(name_terms) / max(len(name), 1),
        name_length=math.log1p(len(name)),
        is_act=float(is_act),
        is_other_act=float(has_act and not is_act),
        both=score / scale * meaning,
        share_in_named_groups=named_by_group / total,
        rephrased=rephrased,
        explained=len(name & question.explaining_keys) / max(len(name), 1) * question.shortness,
    )


def has_whole_name(features: Features) -> bool:
    """Return whether the question has all words of a name, of at least two, and they are most of it."""
    is_longer = features.name_length >= math.log1p(2)
    return is_longer and features.precision >= 1.0 and features.share_in_name >= _MIN_SHARE_IN_NAME


@cache
def shipped_weights(kind: Kind) -> tuple[tuple[float, float], ...]:
    weights = msgspec.json.decode(WEIGHTS.read_bytes(), type=dict[Kind, dict[str, tuple[float, float]]])
    return tuple(weights[kind][name] for name in Features._fields)


def order(
    scores: Mapping[int, float], features: Mapping[int, Features], covered: float, kind: Kind
) -> dict[int, float]:
    """Return the scores, given to the tools with features in the order of the weights.

    The scores remain those of the fusion, so that they can be compared with those of other tools.
    """
    uncovered = 1.0 - covered
    weights = [base + uncovered * added for base, added in shipped_weights(kind)]
    values = {
        tool: sum(map(operator.mul, weights, tool_features)) for tool, tool_features in features.items()
    }
    tools = sorted(values, key=lambda tool: (-values[tool], tool))
    ranked_scores = sorted((scores[tool] for tool in tools), reverse=True)
    return {**scores, **dict(zip(tools, ranked_scores, strict=True))}
