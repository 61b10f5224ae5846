"""The servers, the seed and the report of one storm."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pegboard.local.embedded import Embedded


@dataclass(frozen=True)
class Fault:
    """One fault: `recovery` is in seconds, None where there was nothing to recover from."""

    kind: str
    detail: str = ""
    recovery: float | None = None


def is_kill(kind: str) -> bool:
    """Faults that end a process with `kill -9` have the word in their name."""
    return "killed" in kind.split()


@dataclass
class Recovery:
    """How long it took, in seconds, and how long it may take."""

    count: int
    p50: float
    p95: float
    worst: float
    limit: float | None

    @classmethod
    def from_seconds(cls, seconds: list[float], limit: float | None) -> "Recovery":
        ordered = sorted(seconds)

        def percentile(share: float) -> float:
            return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2)

        return cls(len(ordered), percentile(0.5), percentile(0.95), percentile(1.0), limit)

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" (limit {self.limit:g} s)"
        return f"p50 {self.p50:.2f} s, p95 {self.p95:.2f} s, max {self.worst:.2f} s{limit}, n={self.count}"


@dataclass
class Field:
    """Where one storm takes place.

    `environment` lets a child process reach the same servers; `directory` is the storm's own and goes
    away after it. `random` is seeded: a storm that draws from nothing else can be replayed.
    """

    name: str
    is_short: bool
    seed: int
    servers: Embedded
    environment: dict[str, str]
    directory: Path
    random: Random = field(init=False)
    faults: list[Fault] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    not_run: str = ""
    is_interrupted: bool = False

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed}/{self.name}")

    def times(self, *, short: int, long: int) -> int:
        """How often to do something."""
        return short if self.is_short else long

    def fault(
        self, kind: str, detail: str = "", *, recovery: float | None = None, limit: float | None = None
    ) -> None:
        """One fault was injected. A recovery beyond the limit (both in seconds) is a violation."""
        self.faults.append(Fault(kind, detail, recovery))
        if limit is not None:
            self.limits[kind] = limit
            if recovery is not None and recovery > limit:
                self.violation(f"{kind} {detail}: recovered after {recovery:.1f} s; {limit:g} s are allowed")

    def skip(self, reason: str) -> None:
        """This machine lacks what the storm needs. It counts as not run, which is not passed."""
        self.not_run = reason

    def violation(self, sentence: str) -> None:
        self.violations.append(sentence)

    def expect(self, is_so: bool, sentence: str) -> bool:
        """Report `sentence` as a violation unless `is_so`."""
        if not is_so:
            self.violation(sentence)
        return is_so

    def figure(self, name: str, value: Any) -> None:
        """Anything measured that is neither a fault nor a recovery."""
        self.figures[name] = value

    def recoveries(self) -> dict[str, Recovery]:
        kinds = dict.fromkeys(fault.kind for fault in self.faults)
        recoveries_by_kind = {kind: [f.recovery for f in self.faults if f.kind == kind] for kind in kinds}
        seconds_by_kind = {
            kind: [value for value in seconds if value is not None]
            for kind, seconds in recoveries_by_kind.items()
        }
        return {
            kind: Recovery.from_seconds(seconds, self.limits.get(kind))
            for kind, seconds in seconds_by_kind.items()
            if seconds
        }

    def report(self) -> dict[str, Any]:
        """As `faults.json` holds it for one storm."""
        return {
            "storm": self.name,
            "seed": self.seed,
            "not_run": self.not_run,
            "interrupted": self.is_interrupted,
            "faults": [asdict(fault) for fault in self.faults],
            "kills": sum(is_kill(fault.kind) for fault in self.faults),
            "recovery": {kind: asdict(recovery) for kind, recovery in self.recoveries().items()},
            "figures": self.figures,
            "violations": self.violations,
        }

    def __str__(self) -> str:
        end = ", interrupted" if self.is_interrupted else ""
        lines = [f"{self.name}: {len(self.faults):,} faults, {len(self.violations)} violations{end}"]
        lines += [f"  NOT RUN: {self.not_run}"] if self.not_run else []
        for kind in dict.fromkeys(fault.kind for fault in self.faults):
            count = sum(fault.kind == kind for fault in self.faults)
            lines.append(f"  {count:6,} x {kind}")
        lines += [f"  recovery from {kind}: {recovery}" for kind, recovery in self.recoveries().items()]
        lines += [f"  {name}: {value}" for name, value in self.figures.items()]
        lines += [f"  VIOLATION: {sentence}" for sentence in self.violations]
        return "\n".join(lines)


def wait_for(is_so: Callable[[], object], seconds: float, pause: float = 0.1) -> float | None:
    """How many seconds it took; None when it did not come true in time."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            return None
        time.sleep(pause)
    return time.monotonic() - began


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    began = time.monotonic()
    yield lambda: time.monotonic() - began
