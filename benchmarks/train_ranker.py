"""Trains `catalog/search/data/ranker.json`, and prints how well it ranks questions it was not trained with.

    SEARCH_SETS=FOLDER python -m benchmarks train_ranker

FOLDER has `corpus_NAME.jsonl` (`{id, vendor, name, description, tags, input_parameters}`) and
`queries_NAME.jsonl` (`{query, relevant}`) for each public set, which are searched in the endpoints of it.
The questions for development in `benchmarks/questions` are searched in the whole catalog; those that are held
out are never read.
"""

import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from django.utils.text import slugify

from benchmarks import rows
from benchmarks.frame import Figure
from catalog import search
from catalog.meaning.client import MeaningUnavailableError
from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import candidates, index, meanings, quality, ranker, word_lists
from catalog.search.candidates import Ranking
from catalog.search.job_words import shipped_job_words
from catalog.search.quality import KnownTool
from catalog.search.ranker import Features
from catalog.search.scope import Scope
from protocols.signature import Parameter, Signature

QUESTIONS = Path(__file__).parent / "questions"
OWN_SETS = ("everyday", "languages")
# Every set counts alike, but where a set of few short questions would pay for the others.
# Everyday words were written with the questions of `everyday` in mind, so `recent` shows better what they
# are worth.
SET_WEIGHTS: dict[ranker.Kind, dict[str, float]] = {
    "short": {"metatool": 2.5, "everyday": 2.0, "recent": 2.0, "sealtools": 3.0, "dev_kis": 3.0},
    "story": {"metatool": 2.0, "toolbench": 3.0, "sealtools": 2.0, "story": 2.0, "recent": 1.5},
}
# Weights decay to these. Stories are few, so theirs stay near the order by words and meanings.
PRIORS: dict[ranker.Kind, dict[str, float]] = {"short": {}, "story": {"fused": 10.0}}
DECAYS: dict[ranker.Kind, float] = {"short": 1e-3, "story": 3e-1}
# A set of questions with a part of its own in the training.
OWN_PARTS = ("story", "recent")
# The weights of a kind are written only if no public set loses more nDCG@10 by them.
MAX_LOSS = 0.001
PUBLIC_QUESTIONS, FOLDS, STEPS = 800, 5, 120
RATE, MOMENTUM, SPREAD = 0.08, 0.9, 0.99

Matrix = npt.NDArray[np.float64]
Weights = dict[ranker.Kind, Matrix]
Grades = dict[int, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """A question with the tools that answer it, and its ranking before the ranker."""

    set: str
    grades: Grades
    ranking: Ranking

    @property
    def tools(self) -> list[int]:
        return list(self.ranking.features)

    @property
    def kind(self) -> ranker.Kind | None:
        return self.ranking.question.kind if self.ranking.question else None

    def matrix(self) -> Matrix:
        """Return a row for each tool: its features, and the same by how much of the question is uncovered."""
        assert self.ranking.question is not None
        features = np.array(list(self.ranking.features.values()))
        return np.hstack([features, features * (1.0 - self.ranking.question.covered)])

    def order(self, weights: Weights) -> list[int]:
        hits = self.ranking.hits
        if self.kind is None or not self.ranking.features:
            return [hit.tool for hit in hits]
        values = dict(zip(self.tools, self.matrix() @ weights[self.kind], strict=True))
        # The others stay behind the tools with features, and exact names before all.
        return [
            hit.tool
            for hit in sorted(
                hits, key=lambda hit: (*hit[:2], hit.tool not in values, -values.get(hit.tool, 0.0))
            )
        ]


def main() -> Iterator[Figure]:
    folder = Path(os.environ["SEARCH_SETS"])
    endpoints = {path.stem.removeprefix("corpus_"): fill(path) for path in sorted(folder.glob("corpus_*"))}
    search.index_pending()
    make_vectors()
    yield from train_and_write(read_samples(folder, endpoints), endpoints.keys())


def train_and_write(samples: Sequence[Sample], public_sets: Collection[str]) -> Iterator[Figure]:
    """Write the weights of each kind of question unless a public set loses by them; yield how well questions
    are ranked that each fold was not trained with, beside the weights that are shipped."""
    weights = {kind: np.array(ranker.shipped_weights(kind)).T.ravel() for kind in PRIORS}
    sizes = Counter(sample.set for sample in samples)
    for kind in PRIORS:
        of_kind = [sample for sample in samples if sample.kind == kind]
        ranked = list(zip(of_kind, cross_validate(of_kind, kind), strict=True))
        losses = []
        for name in dict.fromkeys(sample.set for sample in of_kind):
            of_set = [(sample, order) for sample, order in ranked if sample.set == name]
            gains = [quality.ndcg(order, sample.grades) for sample, order in of_set]
            before = [quality.ndcg(sample.order(weights), sample.grades) for sample, _ in of_set]
            losses += [(sum(before) - sum(gains)) / sizes[name]] if name in public_sets else []
            label = f"{name}, {kind}"
            yield Figure(
                f"nDCG@10 of {label}", float(np.mean(gains)), "", floor=float(np.mean(before)), target=1.0
            )
            for depth in (quality.FIRST, quality.DEPTH):
                hits = [any(tool in sample.grades for tool in order[:depth]) for sample, order in of_set]
                yield Figure(f"answered in the first {depth}: {label}", 100 * float(np.mean(hits)), "%")
        yield Figure(f"greatest loss of a public set, {kind}", max(losses), "nDCG@10")
        if max(losses) <= MAX_LOSS:
            weights[kind] = train(of_kind, kind)
    write(weights)


def cross_validate(samples: Sequence[Sample], kind: ranker.Kind) -> list[list[int]]:
    """Return the order for each sample by weights that were trained without its fold."""
    folds = np.random.default_rng(3).integers(0, FOLDS, len(samples)).tolist()
    weights = [
        train([sample for sample, other in zip(samples, folds, strict=True) if other != fold], kind)
        for fold in range(FOLDS)
    ]
    return [sample.order({kind: weights[fold]}) for sample, fold in zip(samples, folds, strict=True)]


def fill(path: Path) -> list[int]:
    """Add the tools of a corpus, with an endpoint for each vendor, and return the ids of the endpoints."""
    by_vendor: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        by_vendor[row["vendor"]].setdefault(row["id"], row)
    ids = []
    for vendor, tools in by_vendor.items():
        prefix = "" if path.stem == "corpus_dev_kis" else path.stem.removeprefix("corpus_") + "-"
        slug = f"{prefix}{slugify(vendor) or 'vendor'}"[:50]
        endpoint = rows.make_endpoint_of(slug, vendor[:100])
        rows.add_signatures([(endpoint, tool_id, signature_of(row)) for tool_id, row in tools.items()])
        ids.append(endpoint.pk)
    return ids


def signature_of(row: dict[str, Any]) -> Signature:
    return Signature(
        name=row["name"],
        description=row["description"],
        tags=tuple(sorted(set(row["tags"]))),
        inputs=tuple(
            Parameter(
                id=f"p{number}",
                name=parameter["name"] or "value",
                type="json",
                required=bool(parameter.get("required")),
                description=parameter.get("description") or "",
            )
            for number, parameter in enumerate(row["input_parameters"])
        ),
    )


def make_vectors() -> None:
    # A question that a busy machine reads without meanings would be learned as one that has none.
    meanings.FIND_SECONDS = meanings.STORE_SECONDS
    process = meanings.start_process()
    assert process is not None
    process.ensure_running()
    while True:
        try:
            meanings.follow()
            return
        except MeaningUnavailableError:
            time.sleep(0.5)


def read_samples(folder: Path, endpoints: dict[str, list[int]]) -> list[Sample]:
    columns = ("id", "tool_id", "name", "endpoint__vendor__slug", "endpoint_id")
    tools = list(Tool.objects.values_list(*columns))
    asked: list[tuple[str, str, Grades, list[int] | None]] = []
    for name, of_set in endpoints.items():
        by_id = {tool_id: tool for tool, tool_id, _, _, endpoint in tools if endpoint in set(of_set)}
        lines = (folder / f"queries_{name}.jsonl").read_text(encoding="utf-8").splitlines()
        random.Random(7).shuffle(lines)
        for line in lines[:PUBLIC_QUESTIONS]:
            query = json.loads(line)
            relevant = query["relevant"]
            grades = relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1)
            known = {by_id[tool_id]: grade for tool_id, grade in grades.items() if tool_id in by_id}
            asked.append((name, query["query"], known, of_set))
    for name in OWN_SETS:
        lines = (QUESTIONS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        questions = quality.parse(lines)
        answers = quality.resolve_answers(questions, [KnownTool(*row[:4]) for row in tools])
        for one, grades in zip(questions, answers, strict=True):
            asked.append((one.set if one.set in OWN_PARTS else name, one.q, grades, None))
    word_lists.load()
    return [
        Sample(name, grades, rank(text, Scope(within, status=ToolStatus.ACTIVE)))
        for name, text, grades, within in asked
        if grades
    ]


def rank(text: str, scope: Scope, *, is_reranked: bool = False) -> Ranking:
    """Rank as the product does, without the order by the ranker unless `is_reranked`."""
    ranking, _ = index.read(
        lambda reader: candidates.rank(
            text, scope, reader, candidates.EXACT, job_words=shipped_job_words(), is_reranked=is_reranked
        ),
        Ranking(),
    )
    return ranking


def train(samples: Sequence[Sample], kind: ranker.Kind) -> Matrix:
    """Return the weights that give the tools that answer the most of a softmax over each question."""
    usable = [sample for sample in samples if sample.grades.keys() & sample.ranking.features.keys()]
    sizes: defaultdict[str, int] = defaultdict(int)
    for sample in usable:
        sizes[sample.set] += 1
    matrix = np.vstack([sample.matrix() for sample in usable])
    spread = matrix.std(0) + 1e-6
    base = [PRIORS[kind].get(name, 0.0) for name in Features._fields]
    prior = np.array([*base, *([0.0] * len(base))]) * spread
    matrix = (matrix / spread).astype(np.float32)
    counts = [len(sample.tools) for sample in usable]
    starts, questions = np.cumsum([0, *counts[:-1]]), np.repeat(np.arange(len(usable)), counts)
    gains = [np.array([2.0 ** sample.grades.get(tool, 0) - 1 for tool in sample.tools]) for sample in usable]
    wanted = np.concatenate([gain / gain.sum() for gain in gains])
    stress = np.array([SET_WEIGHTS[kind].get(sample.set, 1.0) / sizes[sample.set] for sample in usable])
    stress = (stress / stress.sum())[questions]
    weights, mean, square = prior.copy(), np.zeros_like(prior), np.zeros_like(prior)
    for step in range(1, STEPS + 1):
        values = matrix @ weights
        powers = np.exp(values - np.maximum.reduceat(values, starts)[questions])
        shares = powers / np.add.reduceat(powers, starts)[questions]
        slope = matrix.T @ ((shares - wanted) * stress) + DECAYS[kind] * (weights - prior)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * slope
        square = SPREAD * square + (1 - SPREAD) * slope**2
        weights -= RATE * mean / (1 - MOMENTUM**step) / (np.sqrt(square / (1 - SPREAD**step)) + 1e-8)
    return np.asarray(weights / spread)


def write(weights: Weights) -> None:
    parts = []
    for kind, of_kind in weights.items():
        pairs = of_kind.reshape(2, -1).T.round(3).tolist()
        lines = [
            f"    {json.dumps(name)}: {json.dumps(pair)}"
            for name, pair in zip(Features._fields, pairs, strict=True)
        ]
        parts.append(f"  {json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n  }")
    ranker.WEIGHTS.write_text("{\n" + ",\n".join(parts) + "\n}\n")
