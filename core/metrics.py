"""Counters and histograms over all processes of an installation, for /metrics.

Each process adds up its counts and sends them to Redis every two seconds, in one round trip from a separate
thread. Counting never waits, and any web process can report the totals of all processes on all machines. A
process that is killed loses the counts of its last two seconds. An emptied Redis starts at zero, which
Prometheus allows. docs/decisions/0018-metrics.md explains why there are no files per process.
"""

import atexit
import os
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import redis

from core import redis_client

KEY = "pegboard:metrics"
# Counts are collected and sent together, so that no request waits for Redis.
FLUSH_SECONDS = 2.0
# A label with unlimited values would fill memory. Further series are not counted.
MAX_SERIES = 20_000
_SEPARATOR = "\x1f"
_SUM = "sum"

Labels = tuple[str, ...]


class _Pending:
    """Counts of this process that are not sent yet."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        # Also runs in a child process after a fork: the parent sends its own counts.
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}
        self.thread: threading.Thread | None = None

    def add(self, amounts: Sequence[tuple[str, int]]) -> None:
        with self.lock:
            for field, amount in amounts:
                if field in self.counts or len(self.counts) < MAX_SERIES:
                    self.counts[field] = self.counts.get(field, 0) + amount
            if self.thread is None:
                self.thread = threading.Thread(target=self._send_periodically, name="counters", daemon=True)
                self.thread.start()

    def _send_periodically(self) -> None:
        while True:
            time.sleep(FLUSH_SECONDS)
            self.send()

    def send(self) -> bool:
        with self.lock:
            counts, self.counts = self.counts, {}
        if not counts:
            return True
        try:
            with redis_client.client().pipeline(transaction=True) as pipeline:
                for field, amount in counts.items():
                    pipeline.hincrby(KEY, field, amount)
                pipeline.execute()
        except (redis.RedisError, OSError):
            self.add(list(counts.items()))
            return False
        return True


_pending = _Pending()
os.register_at_fork(after_in_child=_pending.reset)
send = _pending.send
atexit.register(send)


class Metric(ABC):
    """A metric with its help text. name, labels: in the syntax of Prometheus. help: one sentence."""

    kind = ""
    registry: dict[str, "Metric"] = {}

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        Metric.registry[name] = self

    def _field_name(self, part: str, values: Labels) -> str:
        if len(values) != len(self.labels):
            raise TypeError(f"{self.name} takes {len(self.labels)} labels")
        return _SEPARATOR.join((self.name, part, *values))

    @abstractmethod
    def lines(self, counts: Mapping[Labels, Mapping[str, int]]) -> Iterator[str]:
        """Return the lines of the metric in /metrics, from the counts for each set of label values."""


class Counter(Metric):
    kind = "counter"

    def add(self, *values: str, by: int = 1) -> None:
        _pending.add([(self._field_name("", values), by)])

    def lines(self, counts: Mapping[Labels, Mapping[str, int]]) -> Iterator[str]:
        for values, parts in sorted(counts.items()):
            yield f"{self.name}{braces(self.labels, values)} {parts.get('', 0)}"


class Histogram(Metric):
    """A histogram of seconds. bounds: the upper bounds of its buckets, without the last, which is
    infinite."""

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: Labels, bounds: Sequence[float]) -> None:
        super().__init__(name, help, labels)
        self.bounds = tuple(bounds)

    def observe(self, seconds: float, *values: str) -> None:
        bucket = str(bisect_left(self.bounds, seconds))
        micros = int(seconds * 1_000_000)
        _pending.add([(self._field_name(bucket, values), 1), (self._field_name(_SUM, values), micros)])

    def lines(self, counts: Mapping[Labels, Mapping[str, int]]) -> Iterator[str]:
        labels = (*self.labels, "le")
        for values, parts in sorted(counts.items()):
            total = 0
            for bucket, bound in enumerate((*map(str, self.bounds), "+Inf")):
                total += parts.get(str(bucket), 0)
                yield f"{self.name}_bucket{braces(labels, (*values, bound))} {total}"
            yield f"{self.name}_sum{braces(self.labels, values)} {parts.get(_SUM, 0) / 1_000_000}"
            yield f"{self.name}_count{braces(self.labels, values)} {total}"


def braces(labels: Sequence[str], values: Sequence[str]) -> str:
    """Return labels such as `{route="home"}`, or "" without labels."""
    escaped = (value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for value in values)
    pairs = (f'{label}="{value}"' for label, value in zip(labels, escaped, strict=True))
    return "{" + ",".join(pairs) + "}" if labels else ""


def lines() -> Iterator[str]:
    """Return the metrics of all processes in Prometheus' text format. Raises redis.RedisError."""
    send()
    # The client decodes replies, but its types do not state that.
    stored = cast(dict[str, str], redis_client.client().hgetall(KEY))
    counts: dict[str, dict[Labels, dict[str, int]]] = {}
    for field, amount in stored.items():
        name, part, *values = field.split(_SEPARATOR)
        counts.setdefault(name, {}).setdefault(tuple(values), {})[part] = int(amount)
    for name, metric in sorted(Metric.registry.items()):
        yield f"# HELP {name} {metric.help}"
        yield f"# TYPE {name} {metric.kind}"
        series = counts.get(name, {})
        # An older version may have counted with other labels.
        yield from metric.lines({v: parts for v, parts in series.items() if len(v) == len(metric.labels)})
