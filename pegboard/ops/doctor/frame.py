"""A check is a function that yields problems. It is skipped while one that it depends on fails."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem: what happened, why it matters, and what to do. One sentence each."""

    summary: str
    impact: str
    act: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence about something that is well and worth knowing."""

    sentence: str


@dataclass(frozen=True, slots=True)
class DoctorLimits:
    """The limits beyond which a value is a problem; options of the command."""

    free_percent: float = 10.0
    skew_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A check of this installation.

    claim: the statement that is true if the check finds nothing. deployed: only for installations that serve
    others.
    """

    name: str
    claim: str
    find: Callable[[DoctorLimits], Iterator[Trouble | Fact]]
    after: tuple[str, ...] = ()
    deployed: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. `facts` are sentences about parts that work."""

    check: DoctorCheck
    troubles: tuple[Trouble, ...]
    facts: tuple[str, ...] = ()
    skipped: bool = False


CHECKS: dict[str, DoctorCheck] = {}
Find = Callable[[DoctorLimits], Iterator[Trouble | Fact]]


def check(
    name: str, claim: str, *, after: tuple[str, ...] = (), deployed: bool = False
) -> Callable[[Find], Find]:
    """Register a check. `after` names the checks that it depends on."""

    def register(find: Find) -> Find:
        CHECKS[name] = DoctorCheck(name, claim, find, after, deployed)
        return find

    return register


def examine(limits: DoctorLimits, *, is_local: bool, skip: Collection[str] = ()) -> Iterator[CheckResult]:
    """Run the checks, each after those that it depends on."""
    failed: set[str] = set()
    order = TopologicalSorter({check_.name: check_.after for check_ in CHECKS.values()}).static_order()
    for check_ in map(CHECKS.__getitem__, order):
        if check_.name in skip or (check_.deployed and is_local) or failed.intersection(check_.after):
            failed |= {check_.name} if failed.intersection(check_.after) else set()
            yield CheckResult(check_, (), skipped=True)
            continue
        findings = tuple(check_.find(limits))
        troubles = tuple(finding for finding in findings if isinstance(finding, Trouble))
        failed |= {check_.name} if troubles else set()
        yield CheckResult(
            check_, troubles, tuple(fact.sentence for fact in findings if isinstance(fact, Fact))
        )
