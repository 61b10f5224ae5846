"""What a storm is given: servers, a seed, and a place to write down what it did and what went wrong."""

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
    def of(cls, seconds: list[float], limit: float | None) -> "Recovery":
        ordered = sorted(seconds)

        def at(share: float) -> float:
            return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2)

        return cls(len(ordered), at(0.5), at(0.95), at(1.0), limit)

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

    def skip(self, why: str) -> None:
        """This machine lacks what the storm needs. It counts as not run, which is not passed."""
        self.not_run = why

    def violation(self, sentence: str) -> None:
        self.violations.append(sentence)

    def expect(self, is_so: bool, sentence: str) -> bool:
        """`sentence` says what is wrong if it is not so."""
        if not is_so:
            self.violation(sentence)
        return is_so

    def figure(self, name: str, value: Any) -> None:
        """Anything measured that is neither a fault nor a recovery."""
        self.figures[name] = value

    def recoveries(self) -> dict[str, Recovery]:
        kinds = dict.fromkeys(each.kind for each in self.faults)
        found = {kind: [f.recovery for f in self.faults if f.kind == kind] for kind in kinds}
        known = {kind: [each for each in seconds if each is not None] for kind, seconds in found.items()}
        return {
            kind: Recovery.of(seconds, self.limits.get(kind)) for kind, seconds in known.items() if seconds
        }

    def report(self) -> dict[str, Any]:
        """As `faults.json` holds it for one storm."""
        return {
            "storm": self.name,
            "seed": self.seed,
            "not_run": self.not_run,
            "interrupted": self.is_interrupted,
            "faults": [asdict(each) for each in self.faults],
            "kills": sum(is_kill(each.kind) for each in self.faults),
            "recovery": {kind: asdict(each) for kind, each in self.recoveries().items()},
            "figures": self.figures,
            "violations": self.violations,
        }

    def __str__(self) -> str:
        end = ", interrupted" if self.is_interrupted else ""
        lines = [f"{self.name}: {len(self.faults):,} faults, {len(self.violations)} violations{end}"]
        lines += [f"  NOT RUN: {self.not_run}"] if self.not_run else []
        for kind in dict.fromkeys(each.kind for each in self.faults):
            count = sum(each.kind == kind for each in self.faults)
            lines.append(f"  {count:6,} x {kind}")
        lines += [f"  recovery from {kind}: {each}" for kind, each in self.recoveries().items()]
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
