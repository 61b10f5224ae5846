"""The cost of counting a request (floor: an increment) and of showing all counts (floor: fetching them)."""

import logging
import threading
from collections.abc import Iterator

from benchmarks.frame import Figure, percentile, samples
from core import metrics, redis_client
from core.log_context import REQUESTS

ROUNDS, TIMES = 50, 2_000
ROUTES, CLASSES = 120, 4


def main() -> Iterator[Figure]:
    logging.getLogger("pegboard.requests").setLevel(logging.WARNING)
    yield Figure(
        "count one request", micros(count), "µs", floor=micros(increment), target=12, less_is_better=True
    )
    for route in range(ROUTES):
        for status in range(CLASSES):
            for seconds in (0.004, 0.02, 0.2, 3.0):
                REQUESTS.observe(seconds, f"route-{route}", f"{status + 2}xx")
    metrics.send()
    figure = percentile(samples(lambda: list(metrics.lines()), ROUNDS), 50) * 1000
    fetched = percentile(samples(lambda: redis_client.client().hgetall(metrics.KEY), ROUNDS), 50) * 1000
    yield Figure("show 480 histograms", figure, "ms", floor=fetched, target=5, less_is_better=True)


def micros(work: object) -> float:
    """Return the median of many rounds of one piece of work, in microseconds."""
    assert callable(work)
    return percentile(samples(work, ROUNDS), 50) / TIMES * 1_000_000


def count() -> None:
    for _ in range(TIMES):
        REQUESTS.observe(0.012, "tool-list", "2xx")


_lock = threading.Lock()
_counts = {"one": 0}


def increment() -> None:
    for _ in range(TIMES):
        with _lock:
            _counts["one"] += 1
