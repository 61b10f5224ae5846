"""Trains `fit.json` and `chores.json`, and prints how well they mark questions they were not trained with.

    SEARCH_SETS=FOLDER python -m benchmarks train_fit

`catalog/meaning/data/chores.json` has a weight for each dimension of the model of meanings: it tells the
vectors of questions without an answer, most of them chores, from those of all others.
`catalog/search/data/fit.json` weighs it with the words and meanings of tools.

The tools are those of `train_ranker`. The questions for development in `benchmarks/questions` are asked in
the whole catalog, and in the catalogs of one and of eight endpoints, because a filter leaves few tools; also
where no tool is an answer. Some of the public questions, which are longer, are asked in the whole catalog. A
question is in one fold with all of its catalogs, and is rated by weights that were trained without it.
"""

import json
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from django.conf import settings

from benchmarks.frame import Figure
from benchmarks.train_ranker import OWN_PARTS, QUESTIONS, fill, make_vectors, rank
from catalog import search
from catalog.meaning.sentence_encoder import CHORES, SentenceEncoder
from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import fit, meanings, quality, word_lists
from catalog.search.fit import MAX_CHORE, FitFeatures
from catalog.search.quality import KnownTool
from catalog.search.scope import Scope

SETS = ("everyday", "languages", "unanswerable")
PUBLIC = "public"
PUBLIC_QUESTIONS, PUBLIC_WEIGHT = 60, 0.25
WHOLE, SMALL = 0, (1, 8)
SMALL_WEIGHT, MIN_TOOLS = 0.3, 60
# Asked where no tool is an answer: an answer may be missing in the list of answers.
ABSENT, ABSENT_WEIGHT = "absent", 0.15
# Weights of less decay are worse at questions of another author than those that they were trained with.
FOLDS, ROUNDS, DECAY, MAX_STEPS = 10, 3, 10.0, 12
# Vectors have length 1, so that their elements are small.
VECTOR_SCALE, CHORE_DECAY, CHORE_ROUNDS, CHORE_QUESTIONS, CHORE_PUBLIC_WEIGHT = 10.0, 10.0, 1, 400, 0.1
# All other features speak for a good fit.
RAISES_DOUBT = {"unmatched": 1.0, "chore": 1.0}
# The share of unanswerable questions that the training leaves marked.
MARKED = {"chores": 0.99, "meanings": 0.87, "words": 0.87}

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
        if self.set == ABSENT:
            return ABSENT_WEIGHT
        return 1.0 if self.endpoints == WHOLE else SMALL_WEIGHT


def main() -> Iterator[Figure]:
    for path in sorted(Path(os.environ["SEARCH_SETS"]).glob("corpus_*")):
        fill(path)
    search.index_pending()
    make_vectors()
    word_lists.load()
    weights = {}
    asked: list[AskedQuestion] = []
    for sources, marked in MARKED.items():
        if sources == "words":
            settings.SEARCH_MEANING = meanings.NONE
        if sources != "meanings":
            asked = list(ask_questions())
        rated = rate_chores(asked) if sources == "chores" else without_chores(asked)
        values = validate(rated)
        is_whole = np.array([one.endpoints == WHOLE for one in rated])
        has_answer = np.array([one.has_answer for one in rated])
        limit = float(np.quantile(values[is_whole & ~has_answer], 1 - marked))
        for name, of_kind in kinds_of(rated).items():
            yield Figure(f"marked by {sources}: {name}", 100 * float(np.mean(values[of_kind] > limit)), "%")
        bias, *others = (round(float(value), 3) for value in train(rated))
        weights[sources] = {"bias": round(bias - limit, 3)} | dict(
            zip(FitFeatures._fields, others, strict=True)
        )
    fit.WEIGHTS.write_text(json.dumps(weights, indent=2) + "\n")


def kinds_of(asked: Sequence[AskedQuestion]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which questions are of each set, asked in the whole catalog or where no tool is an answer."""
    return {
        kind: np.array([one.set == kind and (one.endpoints == WHOLE or kind == ABSENT) for one in asked])
        for kind in dict.fromkeys(one.set for one in asked)
    }


def without_chores(asked: Sequence[AskedQuestion]) -> list[AskedQuestion]:
    """Return the questions as other models know them.

    Without those that lack an answer only in their catalog: these look like questions with one, and would
    mark many of them.
    """
    return [replace(one, features=one.features._replace(chore=0.0)) for one in asked if one.set != ABSENT]


def rate_chores(asked: Sequence[AskedQuestion]) -> list[AskedQuestion]:
    """Write `chores.json`, and return the questions, each rated by weights that were trained without it."""
    is_chore = {one.text: not one.has_answer for one in asked if one.set != ABSENT}
    public = dict.fromkeys(read_public_questions(CHORE_QUESTIONS), False) | dict.fromkeys(
        (one.text for one in asked if one.set == PUBLIC), False
    )
    texts = [*is_chore, *(text for text in public if text not in is_chore)]
    with tempfile.TemporaryDirectory() as directory:
        vectors = SentenceEncoder(Path(directory)).encode(texts) * VECTOR_SCALE
    matrix = np.hstack([np.ones((len(texts), 1)), vectors])
    wanted = np.array([is_chore.get(text, False) for text in texts], dtype=float)
    stress = balance(np.array([CHORE_PUBLIC_WEIGHT if text in public else 1.0 for text in texts]), wanted)
    decay = np.full(matrix.shape[1], CHORE_DECAY)
    decay[0] = 1e-6
    values = np.zeros(len(texts))
    for seed in range(CHORE_ROUNDS):
        folds = np.random.default_rng(seed).integers(0, FOLDS, len(texts))
        for fold in range(FOLDS):
            rows = folds != fold
            values[~rows] += matrix[~rows] @ fit_logistic(matrix[rows], wanted[rows], stress[rows], decay)
    bias, *weights = fit_logistic(matrix, wanted, stress, decay)
    scaled = [bias, *(weight * VECTOR_SCALE for weight in weights)]
    CHORES.write_text(json.dumps([round(float(value), 2) for value in scaled]) + "\n")
    chores = dict(zip(texts, np.clip(values / CHORE_ROUNDS, -MAX_CHORE, MAX_CHORE), strict=True))
    return [replace(one, features=one.features._replace(chore=float(chores[one.text]))) for one in asked]


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
            if grades:
                having = sorted({endpoint_of[tool] for tool in grades})
                absent = dice.sample([one for one in large if one not in having], max(SMALL))
                yield from ask(AskedQuestion(question.q, ABSENT, False, max(SMALL)), absent)
    for text in read_public_questions(PUBLIC_QUESTIONS):
        yield from ask(AskedQuestion(text, PUBLIC, True, WHOLE), None)


def read_public_questions(count: int) -> Iterator[str]:
    """Yield so many questions of each public set."""
    for path in sorted(Path(os.environ["SEARCH_SETS"]).glob("queries_*")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in random.Random(11).sample(lines, min(count, len(lines))):
            yield json.loads(line)["query"]


def ask(question: AskedQuestion, within: list[int] | None) -> Iterator[AskedQuestion]:
    """Yield the question with its features, unless it is the name of a tool."""
    ranking = rank(question.text, Scope(within, status=ToolStatus.ACTIVE), is_reranked=True)
    if all(hit.other_name and hit.unlike_name for hit in ranking.hits[: fit.FIRST]):
        yield replace(question, features=ranking.find_fit())


def validate(asked: Sequence[AskedQuestion]) -> Matrix:
    """Return the mean value of each question over rounds of weights that were trained without it."""
    texts = sorted({one.text for one in asked})
    place = {text: number for number, text in enumerate(texts)}
    matrix, values = matrix_of(asked), np.zeros(len(asked))
    for seed in range(ROUNDS):
        fold_of_text = np.random.default_rng(seed).integers(0, FOLDS, len(texts))
        folds = np.array([fold_of_text[place[one.text]] for one in asked])
        for fold in range(FOLDS):
            weights = train([one for one, other in zip(asked, folds, strict=True) if other != fold])
            values[folds == fold] += matrix[folds == fold] @ weights / ROUNDS
    values[[one.features.nearest >= fit.CLOSE for one in asked]] = -np.inf
    return values


def matrix_of(asked: Sequence[AskedQuestion]) -> Matrix:
    """Return a row for each question: 1 and its features."""
    return np.array([(1.0, *one.features) for one in asked])


def train(asked: Sequence[AskedQuestion]) -> Matrix:
    """Return the bias and the weights of a logistic regression: greater than 0 is a bad fit."""
    matrix = matrix_of(asked)
    wanted = np.array([not one.has_answer for one in asked], dtype=float)
    stress = balance(np.array([one.weight for one in asked]), wanted)
    mean, spread = matrix.mean(0), matrix.std(0)
    # What never differs decides nothing, and the bias is no feature.
    mean[0], spread[spread < 1e-9] = 0.0, np.inf
    spread[0] = 1.0
    scaled = (matrix - mean) / spread
    decay = np.full(matrix.shape[1], DECAY)
    decay[0] = 1e-6
    signs = np.array([0.0, *(RAISES_DOUBT.get(name, -1.0) for name in FitFeatures._fields)])
    used = np.ones(matrix.shape[1], dtype=bool)
    while True:
        weights = np.zeros(matrix.shape[1])
        weights[used] = fit_logistic(scaled[:, used], wanted, stress, decay[used])
        # More of a question in a tool is never a worse fit.
        if not (wrong := weights * signs < 0).any():
            break
        used &= ~wrong
    weights = weights / spread
    weights[0] -= float(mean @ weights)
    return np.asarray(weights)


def balance(stress: Matrix, wanted: Matrix) -> Matrix:
    """Return the stress of each question, so that both answers count alike."""
    share = stress[wanted == 0].sum() / stress[wanted == 1].sum()
    return np.where(wanted == 1, stress * share, stress)


def fit_logistic(matrix: Matrix, wanted: Matrix, stress: Matrix, decay: Matrix) -> Matrix:
    """Return the weights of a logistic regression, by Newton's method."""
    weights = np.zeros(matrix.shape[1])
    for _ in range(MAX_STEPS):
        shares = 1 / (1 + np.exp(-np.clip(matrix @ weights, -30, 30)))
        gradient = matrix.T @ (stress * (shares - wanted)) + decay * weights
        curvature = (matrix * (stress * shares * (1 - shares))[:, None]).T @ matrix + np.diag(decay)
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-4:
            break
    return weights
