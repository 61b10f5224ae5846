"""Counters and histograms over all processes of an installation, for /metrics.

They add up in the process and go to the broker's server every other second, in one round trip from a
thread of their own: counting waits for nothing, and any web process can show the sum over all web and
worker processes on all machines. A process that is killed loses what it counted in its last two
seconds, and a wiped server starts at zero, as Prometheus' counters may. docs/decisions/0018-metrics.md
says why not files for each process.
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
# Counts are gathered and sent together, so that no request waits for the server.
FLUSH_SECONDS = 2.0
# A label that grew without end would fill memory; what comes after these is not counted.
MAX_SERIES = 20_000
_BETWEEN = "\x1f"
_SUM = "sum"

Labels = tuple[str, ...]


class _Pending:
    """What this process has counted and not yet sent."""

    def __init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> None:
        # Also in a child process after a fork: the parent sends what it has counted itself.
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}
        self.thread: threading.Thread | None = None

    def add(self, amounts: Sequence[tuple[str, int]]) -> None:
        with self.lock:
            for field, amount in amounts:
                if field in self.counts or len(self.counts) < MAX_SERIES:
                    self.counts[field] = self.counts.get(field, 0) + amount
            if self.thread is None:
                self.thread = threading.Thread(target=self._send_for_ever, name="counters", daemon=True)
                self.thread.start()

    def _send_for_ever(self) -> None:
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
os.register_at_fork(after_in_child=_pending.start_afresh)
send = _pending.send
atexit.register(send)


class Metric(ABC):
    """`name` and `labels` as Prometheus takes them; `says` is its one sentence of help."""

    kind = ""
    known: dict[str, "Metric"] = {}

    def __init__(self, name: str, says: str, labels: Labels = ()) -> None:
        self.name, self.says, self.labels = name, says, labels
        Metric.known[name] = self

    def _field(self, part: str, values: Labels) -> str:
        if len(values) != len(self.labels):
            raise TypeError(f"{self.name} takes {len(self.labels)} labels")
        return _BETWEEN.join((self.name, part, *values))

    @abstractmethod
    def lines(self, found: Mapping[Labels, Mapping[str, int]]) -> Iterator[str]:
        """What /metrics says of it, from the counts found for each set of labels."""


class Counter(Metric):
    kind = "counter"

    def add(self, *values: str, by: int = 1) -> None:
        _pending.add([(self._field("", values), by)])

    def lines(self, found: Mapping[Labels, Mapping[str, int]]) -> Iterator[str]:
        for values, parts in sorted(found.items()):
            yield f"{self.name}{braces(self.labels, values)} {parts.get('', 0)}"


class Histogram(Metric):
    """Of seconds. `bounds` are the upper ends of its buckets, the last one without an end."""

    kind = "histogram"

    def __init__(self, name: str, says: str, labels: Labels, bounds: Sequence[float]) -> None:
        super().__init__(name, says, labels)
        self.bounds = tuple(bounds)

    def observe(self, seconds: float, *values: str) -> None:
        bucket = str(bisect_left(self.bounds, seconds))
        micros = int(seconds * 1_000_000)
        _pending.add([(self._field(bucket, values), 1), (self._field(_SUM, values), micros)])

    def lines(self, found: Mapping[Labels, Mapping[str, int]]) -> Iterator[str]:
        labels = (*self.labels, "le")
        for values, parts in sorted(found.items()):
            total = 0
            for bucket, bound in enumerate((*map(str, self.bounds), "+Inf")):
                total += parts.get(str(bucket), 0)
                yield f"{self.name}_bucket{braces(labels, (*values, bound))} {total}"
            yield f"{self.name}_sum{braces(self.labels, values)} {parts.get(_SUM, 0) / 1_000_000}"
            yield f"{self.name}_count{braces(self.labels, values)} {total}"


def braces(labels: Sequence[str], values: Sequence[str]) -> str:
    """`{route="home"}`, or nothing where there are no labels."""
    escaped = (value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for value in values)
    pairs = (f'{label}="{value}"' for label, value in zip(labels, escaped, strict=True))
    return "{" + ",".join(pairs) + "}" if labels else ""


def lines() -> Iterator[str]:
    """All that was counted anywhere, in Prometheus' text format. Raises redis.RedisError."""
    send()
    # The client is made so that it decodes, which its types do not say.
    stored = cast(dict[str, str], redis_client.client().hgetall(KEY))
    found: dict[str, dict[Labels, dict[str, int]]] = {}
    for field, amount in stored.items():
        name, part, *values = field.split(_BETWEEN)
        found.setdefault(name, {}).setdefault(tuple(values), {})[part] = int(amount)
    for name, metric in sorted(Metric.known.items()):
        yield f"# HELP {name} {metric.says}"
        yield f"# TYPE {name} {metric.kind}"
        series = found.get(name, {})
        # A version before this one may have counted under other labels.
        yield from metric.lines({v: parts for v, parts in series.items() if len(v) == len(metric.labels)})
