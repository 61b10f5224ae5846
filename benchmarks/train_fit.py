"""Trains `catalog/search/data/fit.json`, and prints how well it marks questions it was not trained with.

    SEARCH_SETS=FOLDER python -m benchmarks train_fit

The tools are those of `train_ranker`. The questions for development in `benchmarks/questions` are asked in
the whole catalog, and in the catalogs of one and of eight endpoints, because a filter leaves few tools; some
of the public questions, which are longer, in the whole catalog. A logistic regression learns from them with
and without meanings. A question is in one fold with all of its catalogs.
"""

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from django.conf import settings

from benchmarks.frame import Figure
from benchmarks.train_ranker import OWN_PARTS, QUESTIONS, fill, make_vectors, rank
from catalog import search
from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import fit, meanings, quality, word_lists
from catalog.search.fit import FitFeatures
from catalog.search.quality import KnownTool
from catalog.search.scope import Scope

SETS = ("everyday", "languages", "unanswerable")
PUBLIC = "public"
PUBLIC_QUESTIONS, PUBLIC_WEIGHT = 60, 0.25
WHOLE, SMALL = 0, (1, 8)
SMALL_WEIGHT, MIN_TOOLS = 0.3, 60
# Weights of less decay are worse at questions of another author than those that they were trained with.
FOLDS, ROUNDS, STEPS, DECAY = 10, 6, 3_000, 10.0
# All other features speak for a good fit.
RAISES_DOUBT = {"unmatched": 1.0}
# The share of unanswerable questions that the training leaves marked: more than of errands, whose words tools
# have.
MARKED = {"meanings": 0.9, "words": 0.9}

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question in a catalog; the number of its `endpoints` is 0 for all."""

    text: str
    set: str
    has_answer: bool
    endpoints: int
    features: FitFeatures = field(default_factory=FitFeatures)

    @property
    def weight(self) -> float:
        if self.set == PUBLIC:
            return PUBLIC_WEIGHT
        return 1.0 if self.endpoints == WHOLE else SMALL_WEIGHT


def main() -> Iterator[Figure]:
    for path in sorted(Path(os.environ["SEARCH_SETS"]).glob("corpus_*")):
        fill(path)
    search.index_pending()
    make_vectors()
    word_lists.load()
    weights = {}
    for name, marked in MARKED.items():
        if name == "words":
            settings.SEARCH_MEANING = meanings.NONE
        asked = list(ask_questions())
        values = validate(asked)
        is_whole = np.array([one.endpoints == WHOLE for one in asked])
        has_answer = np.array([one.has_answer for one in asked])
        limit = float(np.quantile(values[is_whole & ~has_answer], 1 - marked))
        yield Figure(f"marked by {name}", 100 * float(np.mean(values[is_whole & ~has_answer] > limit)), "%")
        for kind in dict.fromkeys(one.set for one in asked if one.has_answer):
            of_kind = is_whole & np.array([one.set == kind for one in asked])
            yield Figure(
                f"marked by {name}, wrongly: {kind}", 100 * float(np.mean(values[of_kind] > limit)), "%"
            )
        bias, *others = (round(float(value), 3) for value in train(asked))
        weights[name] = {"bias": round(bias - limit, 3)} | dict(zip(FitFeatures._fields, others, strict=True))
    fit.WEIGHTS.write_text(json.dumps(weights, indent=2) + "\n")


def ask_questions() -> Iterator[AskedQuestion]:
    columns = ("id", "tool_id", "name", "endpoint__vendor__slug", "endpoint_id")
    tools = list(Tool.objects.values_list(*columns))
    endpoint_of = {row[0]: row[4] for row in tools}
    counts = np.bincount(list(endpoint_of.values()))
    large = [int(endpoint) for endpoint in np.flatnonzero(counts >= MIN_TOOLS)]
    dice = random.Random(11)
    for name in SETS:
        questions = quality.parse((QUESTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
        answers = quality.resolve_answers(questions, [KnownTool(*row[:4]) for row in tools])
        for question, grades in zip(questions, answers, strict=True):
            if question.has_answer and not grades:
                continue
            kind = question.set if question.set in OWN_PARTS else name
            for count in (WHOLE, *SMALL):
                within = dice.sample(large, count) if count else None
                if within and grades:
                    having = sorted({endpoint_of[tool] for tool in grades})
                    within[0] = dice.choice([one for one in having if one in large] or having)
                yield from ask(AskedQuestion(question.q, kind, bool(grades), count), within)
    for path in sorted(Path(os.environ["SEARCH_SETS"]).glob("queries_*")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in dice.sample(lines, min(PUBLIC_QUESTIONS, len(lines))):
            yield from ask(AskedQuestion(json.loads(line)["query"], PUBLIC, True, WHOLE), None)


def ask(question: AskedQuestion, within: list[int] | None) -> Iterator[AskedQuestion]:
    """Yield the question with its features, unless it is the name of a tool."""
    ranking = rank(question.text, Scope(within, status=ToolStatus.ACTIVE), is_reranked=True)
    if all(hit.other_name and hit.unlike_name for hit in ranking.hits[: fit.FIRST]):
        yield replace(question, features=ranking.find_fit())


def validate(asked: Sequence[AskedQuestion]) -> Matrix:
    """Return the mean value of each question over rounds of weights that were trained without it."""
    texts = sorted({one.text for one in asked})
    place = {text: number for number, text in enumerate(texts)}
    values = np.zeros(len(asked))
    for seed in range(ROUNDS):
        fold_of_text = np.random.default_rng(seed).integers(0, FOLDS, len(texts))
        folds = np.array([fold_of_text[place[one.text]] for one in asked])
        for fold in range(FOLDS):
            weights = train([one for one, other in zip(asked, folds, strict=True) if other != fold])
            values[folds == fold] += matrix_of(asked)[folds == fold] @ weights / ROUNDS
    values[[one.features.nearest >= fit.CLOSE for one in asked]] = -np.inf
    return values


def matrix_of(asked: Sequence[AskedQuestion]) -> Matrix:
    """Return a row for each question: 1 and its features."""
    return np.array([(1.0, *one.features) for one in asked])


def train(asked: Sequence[AskedQuestion]) -> Matrix:
    """Return the bias and the weights of a logistic regression: greater than 0 is a bad fit."""
    matrix = matrix_of(asked)
    wanted = np.array([not one.has_answer for one in asked], dtype=float)
    stress = np.array([one.weight for one in asked])
    stress[wanted == 1] *= stress[wanted == 0].sum() / stress[wanted == 1].sum()
    mean, spread = matrix.mean(0), matrix.std(0)
    # What never differs decides nothing, and the bias is no feature.
    mean[0], spread[spread < 1e-9] = 0.0, np.inf
    spread[0] = 1.0
    scaled = (matrix - mean) / spread
    decay = np.full(matrix.shape[1], DECAY)
    decay[0] = 1e-6
    signs = np.array([0.0, *(RAISES_DOUBT.get(name, -1.0) for name in FitFeatures._fields)])
    # The largest curvature there can be, so that no step goes too far.
    step = 1 / (np.linalg.norm(scaled * np.sqrt(stress)[:, None], 2) ** 2 / 4 + DECAY)
    weights = np.zeros(matrix.shape[1])
    for _ in range(STEPS):
        powers = 1 / (1 + np.exp(-scaled @ weights))
        weights -= step * (scaled.T @ (stress * (powers - wanted)) + decay * weights)
        # More of a question in a tool is never a worse fit.
        weights[weights * signs < 0] = 0.0
    weights = weights / spread
    weights[0] -= float(mean @ weights)
    return np.asarray(weights)
