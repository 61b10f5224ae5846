"""Finds and ranks the tools that answer a question: the engine's candidates, the first of them exactly.

docs/decisions/0095-search-engine.md has the measurements behind the ranking. Exact scores of the first
candidates of an engine are as good as exact scores of everything.
"""

import heapq
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from catalog.search import meanings, orders, question, ranker, ranking, vocabulary
from catalog.search.cosines import Cosines
from catalog.search.engines import Candidate, Reader
from catalog.search.fit import (
    FIRST,
    MAX_CHORE,
    FitFeatures,
    Reasons,
    Sources,
    find_reasons,
    fits_badly,
    weigh_share,
)
from catalog.search.job_words import JobWords
from catalog.search.question import Question
from catalog.search.ranker import Features, RankedQuestion
from catalog.search.scope import Scope

# The first pages rank so many tools, exactly; the pages after them and other orders go deeper, less exactly.
# Of a long question, whose words many tools have, the best tool may be far down in the order of the engine.
EXACT, MAX_CANDIDATES = 400, 1_000
NAMESAKES, NAMES_BEGINNING = 200, 50
# More concepts than this make no question longer.
MAX_LENGTH = 12


class Hit(NamedTuple):
    """Sorts best first."""

    other_name: bool
    unlike_name: bool
    inexact: bool
    negative_score: float
    tool: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tools that were found, best first.

    question: what the features of all tools need; None if nothing could be searched.
    vectors: the tools with an exact score by their words.
    cosines: how close the meanings of tools are to that of the question.
    features: those of the tools that the ranker has ordered.
    weights: the stems that were searched, by how much the question wants each.
    leaders: the tools that the engine has found by these stems.
    stems: the stems of the words to mark in texts.
    """

    hits: list[Hit] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    repaired: dict[str, str] = field(default_factory=dict)
    question: RankedQuestion | None = None
    vectors: dict[int, bytes] = field(default_factory=dict)
    cosines: Cosines = field(default_factory=lambda: Cosines({}, {}))
    features: dict[int, Features] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    leaders: frozenset[int] = frozenset()
    stems: frozenset[str] = frozenset()

    def explain(self, tool: int) -> Reasons | None:
        """Return why the tool was found, None if that is not known."""
        if not self._is_explained(tool):
            return None
        cosine = self.cosines.typed.get(tool)
        meaning = None if cosine is None else round(min(1.0, max(0.0, cosine)), 2)
        concepts = self.question.concepts if self.question else ()
        if self.repaired:  # the tool has the word that was meant
            concepts = [
                replace(concept, word=self.repaired.get(concept.word.lower(), concept.word))
                for concept in concepts
            ]
        return find_reasons(concepts, *self._terms_of(tool), meaning)

    def _is_explained(self, tool: int) -> bool:
        return tool in self.vectors or tool in self.cosines.typed

    def _terms_of(self, tool: int) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """Return the terms in the name of a tool, and all; none of one that its meaning alone has found."""
        vector = self.vectors.get(tool)
        return ranking.unpack_terms(vector) if vector else (frozenset(), frozenset())

    @property
    def fits_badly(self) -> bool:
        """Return whether the first tools fit the question badly; False while some are not explained."""
        first = self.hits[:FIRST]
        if not all(hit.other_name and hit.unlike_name and self._is_explained(hit.tool) for hit in first):
            return False
        if self.question and any(
            ranker.has_whole_name(self._find_features(self.question, hit.tool)) for hit in first
        ):
            return False
        if not first:
            return True
        sources: Sources = "words"
        if self.cosines.typed:
            sources = "meanings" if self.cosines.chore is None else "chores"
        return fits_badly(self.find_fit(), sources)

    def find_fit(self) -> FitFeatures:
        """Return how well the first tools answer the question."""
        if self.question is None:
            return FitFeatures()
        features = [self._find_features(self.question, hit.tool) for hit in self.hits[:FIRST]]
        best_share = max((row.share for row in features), default=0.0)
        clause_shares = [
            weigh_share(clause, *self._terms_of(hit.tool))
            for clause in self.question.clauses
            for hit in self.hits[:FIRST]
        ]
        concepts = [concept for concept in self.question.concepts if concept.weight]
        return FitFeatures(
            share=features[0].share if features else 0.0,
            best_share=best_share,
            clause_share=max((best_share, *clause_shares)),
            share_and_meaning=max((row.share * row.rephrased for row in features), default=0.0),
            nearest=max(self.cosines.typed.values(), default=0.0),
            length=min(len(self.question.concepts), MAX_LENGTH) / ranker.MAX_CONCEPTS,
            unmatched=sum(1 for concept in concepts if not (concept.terms or concept.groups)),
            grouped=sum(1 for concept in concepts if concept.groups) / max(len(concepts), 1),
            chore=min(max(self.cosines.chore or 0.0, -MAX_CHORE), MAX_CHORE),
        )

    def _find_features(self, question: RankedQuestion, tool: int) -> Features:
        # The ranker orders the first tools alone, and no questions that are too long.
        return self.features.get(tool) or ranker.find_features(
            question, 0.0, self.cosines.find_pair(tool), self.vectors.get(tool)
        )


def rank(
    text: str,
    scope: Scope,
    reader: Reader,
    limit: int = MAX_CANDIDATES,
    *,
    job_words: JobWords,
    as_typed: bool = False,
    is_reranked: bool = True,
    count_early: Callable[[frozenset[str]], object] | None = None,
) -> Ranking:
    """Rank the tools of the scope for a text. Raises IndexUnusableError.

    as_typed: no word is repaired.
    is_reranked: the order is that of the ranker; a script that trains it needs the former one.
    count_early: called with the stems while meanings are compared, if more than `limit` tools may have any.
    """
    asked = question.read(text, job_words)
    known_words = vocabulary.look_up(asked.words, reader)
    unknown_words = [] if as_typed else question.unknown(asked, known_words)
    terms = question.weigh(asked, known_words, vocabulary.near(unknown_words, reader))
    tool_count = reader.document_count()
    gains = ranking.find_gains(terms.stress, terms.found_in, tool_count)
    concepts = question.find_concepts(asked, known_words, terms, tool_count)
    with closing(_begin_comparison(text, asked, len(concepts), scope, job_words)) as comparison:
        leaders = reader.candidates(terms.stress, scope, limit)
        namesakes = reader.named(asked.key, scope, NAMESAKES) if asked.key else []
        beginnings = reader.names_beginning(asked.key, scope, NAMES_BEGINNING) if len(asked.key) > 1 else []
        first = (*namesakes, *beginnings, *leaders[:EXACT])
        exact = {candidate.tool: candidate for candidate in first}
        comparison.add_tools(exact)
        if count_early and len(leaders) == limit:
            count_early(frozenset(terms.stress))
        # The index may be some seconds behind, the database is not.
        leading_tools = frozenset(candidate.tool for candidate in leaders)
        by_words = exact.keys() | leading_tools
        present = orders.in_scope(list(by_words), scope)
        vectors = _read_vectors(exact.values(), reader)
        cosines = _with_labels(comparison.read_cosines(), scope, reader)
    if near := cosines.typed.keys() - exact.keys():
        among = replace(scope, among=list(near))
        vectors |= _read_vectors(reader.candidates(terms.stress, among, len(near)), reader)
        present += orders.in_scope(list(near - by_words), scope)
    keyed_gains, keyed_stress = ranking.by_key(gains), ranking.by_key(terms.stress)
    scores = {tool: ranking.score(vector, keyed_gains, keyed_stress) for tool, vector in vectors.items()}
    clauses = question.split_clauses(text, concepts)
    described = ranker.describe_question(concepts, keyed_gains, scores, cosines, vectors, asked, clauses)
    features: dict[int, Features] = {}
    if cosines.typed:
        scores, features = _add_meanings(scores, described, cosines, vectors, is_reranked=is_reranked)
    scores = {candidate.tool: candidate.score for candidate in leaders[EXACT:]} | scores
    same = {each.tool for each in namesakes}
    alike = {each.tool for each in beginnings} | same if terms.is_typing else set()
    tools = meanings.without_far(present, vectors, cosines.find_nearest_wording())
    scored = vectors.keys() | cosines.typed.keys()
    hits = [
        Hit(tool not in same, tool not in alike, tool not in scored, -round(scores[tool], 5), tool)
        for tool in tools
    ]
    return Ranking(
        sorted(hits),
        terms.unmatched,
        terms.repaired,
        described,
        vectors,
        cosines,
        features,
        weights=terms.stress,
        leaders=leading_tools,
        stems=question.find_stems(asked, known_words, terms),
    )


def _begin_comparison(
    text: str, asked: Question, concept_count: int, scope: Scope, job_words: JobWords
) -> meanings.PendingComparison:
    """Begin to compare the meaning of the text, or of the clauses of a story, with those of tools."""
    kind = ranker.find_kind(concept_count)
    rephrased_text = question.rephrase(asked, text) if kind == "short" else ""
    clauses = question.rephrase_clauses(text, job_words) if kind == "story" else []
    return meanings.PendingComparison(text, rephrased_text, scope, clauses)


def _read_vectors(tools: Collection[Candidate], reader: Reader) -> dict[int, bytes]:
    vectors = reader.vectors([candidate.reference for candidate in tools])
    return {candidate.tool: vector for candidate, vector in zip(tools, vectors, strict=True)}


def _with_labels(cosines: Cosines, scope: Scope, reader: Reader) -> Cosines:
    """Return the cosines of the tools that have the labels of the scope: vectors know no labels."""
    if not (scope.has_labels and cosines.typed):
        return cosines
    return cosines.among(reader.tools_in(scope.among_only(list(cosines.typed)), len(cosines.typed)))


def _add_meanings(
    word_scores: dict[int, float],
    ranked_question: RankedQuestion,
    cosines: Cosines,
    vectors: dict[int, bytes],
    *,
    is_reranked: bool,
) -> tuple[dict[int, float], dict[int, Features]]:
    """Return scores by words and meanings, and the features of the tools that the ranker has ordered."""
    features: dict[int, Features] = {}
    scores = meanings.fuse(
        word_scores, cosines.find_closeness(), ranked_question.concepts, ranked_question.covered
    )
    if kind := ranked_question.kind:
        leading = heapq.nlargest(ranker.RERANKED, scores, key=lambda tool: scores[tool])
        features = ranker.find_all_features(ranked_question, leading, word_scores, scores, cosines, vectors)
        if is_reranked:
            scores = ranker.order(scores, features, ranked_question.covered, kind)
    return scores, features
