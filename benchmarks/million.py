"""A million tools of 300 endpoints: searches with meanings, pages, memory, files, and one more vendor.

    python -m benchmarks million

The tools, their index and vectors are made once and kept. The floor of a search is what the engine needs
for 200 tools with the same stems, and the models for the nearest 50; that of an enumeration is in
`benchmarks/enumeration.py`. Vectors are those of 1,800 texts, each with some noise for its tools.
"""

import itertools
import random
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import psutil
from django.conf import settings
from django.test import Client

from benchmarks import enumeration, pages, rows
from benchmarks.frame import Figure, seconds
from benchmarks.million_rows import TOOLS
from benchmarks.search import p95, queries_by_kind, questions
from benchmarks.train_ranker import make_vectors
from catalog import search
from catalog.meaning import client
from catalog.meaning.messages import FindNearest
from catalog.models import Endpoint
from catalog.search import candidates, index, meanings, stemming
from catalog.search.candidates import Ranking
from catalog.search.engines.contract import Candidate
from catalog.search.job_words import shipped_job_words
from catalog.search.scope import Scope
from catalog.vendors.operations import remove_endpoint
from people.models import Role, User

ENGINE_LIMIT = 200
MAX_SEARCH_MS, MAX_PAGE_MS, MAX_KB = 40, 50, 60
MAX_WORKER_MB, MAX_INDEX_BYTES = 250, 300
# Recall is that of the ten best scores, for so many questions: an exhaustive order takes seconds.
FIRST, JUDGED, MIN_RECALL = 10, 16, 0.99
PAGES = {
    "all tools": "/tools/",
    "tools by words": "/tools/?q=cancel+an+appointment",
    "tools by tag": "/tools/?tag=health&sort=name",
    "tools of a vendor": "/tools/?vendor=vendor-3",
    "API list": "/api/v1/tools/?limit=50",
    "API search": "/api/v1/tools/?q=shipment+of+supplier",
    "vendors": "/vendors/",
}


def main() -> Iterator[Figure]:
    # In a process of its own: what it leaves in memory is no web worker's.
    subprocess.run([sys.executable, "-m", "benchmarks", "--alone", "million_rows"], check=True)
    make_vectors()
    dice = random.Random(5)
    texts = questions(dice)
    yield from search_figures(texts, dice)
    yield from page_figures()
    memory = psutil.Process().memory_full_info()
    yield Figure("memory of a web worker", memory.uss / 1e6, "MB", target=MAX_WORKER_MB, less_is_better=True)
    yield Figure("of that, pages of the index, which all workers of a host share", mapped_mb(), "MB")
    per_tool = size("tantivy-*") / TOOLS
    yield Figure("index, per tool", per_tool, "bytes", target=MAX_INDEX_BYTES, less_is_better=True)
    yield Figure("vectors, per tool", size("meaning") / TOOLS, "bytes")
    yield Figure("recall of the best ten scores", recall(texts[:JUDGED]), "", target=MIN_RECALL)
    yield enumeration_figure()


def search_figures(texts: list[str], dice: random.Random) -> Iterator[Figure]:
    floor = p95([partial(search_barely, text) for text in texts])
    for name, queries in queries_by_kind(texts, dice).items():
        time = p95([partial(search.search, query) for query in queries])
        yield Figure(f"{name}, p95", time, "ms", target=MAX_SEARCH_MS, less_is_better=True)
        yield Figure(f"{name}, p95 beside the bare search", time, "ms", floor=floor)


def search_barely(text: str) -> None:
    weights = {stem: 1.0 for _, stem in stemming.stem_text(text)}
    nothing: list[Candidate] = []
    index.read(lambda reader: reader.candidates(weights, Scope(), ENGINE_LIMIT), nothing)
    request = FindNearest(text, None, [], meanings.NEAREST)
    client.send(Path(settings.SEARCH_DIRECTORY), request, meanings.FIND_SECONDS)


def page_figures() -> Iterator[Figure]:
    browser = Client(SERVER_NAME="127.0.0.1")
    browser.force_login(administrator())
    for name, path in PAGES.items():
        now = pages.measure(browser, path)
        yield Figure(f"page “{name}”, p95", now.p95, "ms", target=MAX_PAGE_MS, less_is_better=True)
        yield Figure(f"page “{name}”, size", now.size, "KB", target=MAX_KB, less_is_better=True)


def administrator() -> User:
    user, _ = User.objects.get_or_create(username="benchmark", defaults={"role": Role.ADMIN})
    return user


def mapped_mb() -> float:
    """Return the megabytes that this process has read of the files of the index."""
    maps = psutil.Process().memory_maps()
    mapped: int = sum(file.private_clean for file in maps if settings.SEARCH_DIRECTORY in file.path)
    return mapped / 1e6


def size(pattern: str) -> int:
    """Return the bytes on disk below the directories of the search that match."""
    directories = Path(settings.SEARCH_DIRECTORY).glob(pattern)
    files = itertools.chain.from_iterable(directory.rglob("*") for directory in directories)
    return sum(512 * path.stat().st_blocks for path in files if path.is_file())


def recall(texts: Collection[str]) -> float:
    """Return how many of the best ten scores of all tools the search finds."""
    reached_counts = [sum(score >= best[-1] for score in first) for first, best in map(both_scores, texts)]
    return sum(reached_counts) / FIRST / len(reached_counts)


def both_scores(text: str) -> tuple[list[float], list[float]]:
    first = best_scores(text)
    with mock.patch.object(candidates, "EXACT", TOOLS):
        return first, best_scores(text, TOOLS)


def best_scores(text: str, limit: int = candidates.EXACT) -> list[float]:
    ranking, _ = index.read(
        lambda reader: candidates.rank(text, Scope(), reader, limit, job_words=shipped_job_words()), Ranking()
    )
    return [-hit.negative_score for hit in ranking.hits[:FIRST]]


def enumeration_figure() -> Figure:
    with enumeration.vendor() as port:
        floor = min(seconds(lambda: enumeration.Floor(port).read_new()) for _ in range(enumeration.ROUNDS))
        urls = [f"http://127.0.0.1:{port}/plain/{number}" for number in range(enumeration.ROUNDS)]
        endpoints = list(map(endpoint_at, urls))
        took = min(seconds(partial(enumeration.run, endpoint)) for endpoint in endpoints)
    for endpoint in endpoints:
        remove_endpoint(endpoint, actor=administrator())
    search.index_pending()
    return enumeration.rate("first enumeration, indexed for search", took, floor, 0.6)


def endpoint_at(url: str) -> Endpoint:
    endpoint = rows.make_endpoint_of("another", "Another vendor")
    endpoint.url = url
    endpoint.save()
    return endpoint
