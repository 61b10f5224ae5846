"""The tools of `benchmarks/million.py`: makes what is missing of them, their index and their vectors."""

import itertools
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from django.conf import settings

from benchmarks import rows
from benchmarks.frame import Figure
from catalog import search
from catalog.meaning.models import MODELS
from catalog.meaning.sentence_encoder import SentenceEncoder
from catalog.meaning.vector_file import VectorFile, Vectors
from catalog.models import Tool
from catalog.search import changes, index, meanings
from catalog.search.index import IndexedTool

TOOLS, ENDPOINTS = 1_000_000, 300
VECTOR_BATCH, NOISE = 5_000, 0.3


def main() -> Iterator[Figure]:
    """Make what is missing of the tools, their index and their vectors."""
    count = Tool.objects.filter(endpoint__removed_at=None).count()
    if count < TOOLS:
        homes = [rows.make_endpoint(number) for number in range(ENDPOINTS)]
        rows.fill_into(homes, TOOLS)
    search.index_pending()
    write_vectors()
    yield Figure("tools", TOOLS, "")


def write_vectors() -> None:
    model = MODELS[settings.SEARCH_MEANING]
    directory = Path(settings.SEARCH_DIRECTORY)
    file = VectorFile(directory / "meaning", model.recipe, model.dimensions)
    moment = changes.database_moment()
    state = changes.read_state(file.state)
    if state is None or not changes.is_usable(state, moment):
        file.clear()
        state = changes.first_state(moment, f"{meanings.TEXT_RECIPE} {model.recipe}")
    make = VectorMaker(directory)

    def write(rows_of_tools: list[IndexedTool], removed: Collection[int], now: changes.IndexState) -> None:
        tools = [row.tool for row in rows_of_tools]
        vectors = make(rows_of_tools)
        file.write(tools, [row.endpoint for row in rows_of_tools], vectors, removed, now.dump())

    for _ in index.follow_changes(write, state, moment, float("inf"), VECTOR_BATCH):
        pass


class VectorMaker:
    """Makes the vectors of tools: those of their texts, which are few, with noise for each tool."""

    def __init__(self, directory: Path) -> None:
        combinations = itertools.product(rows.VERBS, rows.NOUNS, rows.PLACES)
        names = [f"{verb} {noun} of {place}" for verb, noun, place in combinations]
        self._places = {name.replace(" ", "_"): place for place, name in enumerate(names)}
        self._vectors = SentenceEncoder(directory).encode_tools([f"{name}." for name in names], names)
        self._dice = np.random.default_rng(1)

    def __call__(self, tools: list[IndexedTool]) -> Vectors:
        places = [
            self._places[index.decode_signature(row.signature).name.rpartition("_")[0]] for row in tools
        ]
        vectors = self._vectors[places]
        noise = self._dice.standard_normal(vectors.shape, np.float32) / vectors.shape[1] ** 0.5
        vectors = vectors + NOISE * noise
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit
