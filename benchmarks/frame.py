"""Figures of benchmarks, each with its floor from the same run; their ratio is the result.

A machine is never fast or slow by itself, so no figure is compared with one from another day. A
benchmark is a module of this package with `main()`, which yields figures.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Figure:
    """`floor` is the same work done as barely as possible; `target` is the ratio to reach.

    For a rate the ratio is value / floor, at least `target`; for a time, a size or anything else of
    which less is better it is at most `target`. Without a floor, `target` is a bound in the figure's unit.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    target: float | None = None
    less_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        return self.value / max(self.floor, TINY) if self.floor is not None else None

    @property
    def is_met(self) -> bool:
        result = self.value if self.ratio is None else self.ratio
        if self.target is None:
            return True
        return result <= self.target if self.less_is_better else result >= self.target

    def __str__(self) -> str:
        parts = [f"{self.name}: {_number(self.value)} {self.unit}"]
        if self.ratio is not None and self.floor is not None:
            parts += [f"floor {_number(self.floor)} {self.unit}", f"ratio {self.ratio:.2f}"]
        if self.target is not None:
            bound = "at most" if self.less_is_better else "at least"
            unit = "" if self.ratio is not None else f" {self.unit}"
            parts.append(f"{bound} {_number(self.target)}{unit}: {'met' if self.is_met else 'MISSED'}")
        return " | ".join(parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def samples(work: Callable[[], object], times: int, *, warm_up: int = 1) -> list[float]:
    """Return the times in seconds; the first `warm_up` calls do not count."""
    for _ in range(warm_up):
        work()
    return [seconds(work) for _ in range(times)]


def percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
