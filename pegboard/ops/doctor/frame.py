"""A check is a function that yields what is wrong. It is not asked while one that it depends on fails."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was found, why it matters, and what to do: one sentence each."""

    found: str
    why: str
    act: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence about something that is well and worth knowing."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is trouble; options of the command."""

    free_percent: float = 10.0
    skew_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    """`says` is what holds when it finds nothing. `deployed` is for installations that serve others."""

    name: str
    says: str
    find: Callable[[Limits], Iterator[Trouble | Fact]]
    after: tuple[str, ...] = ()
    deployed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check found. `facts` are sentences that are no trouble."""

    check: Check
    troubles: tuple[Trouble, ...]
    facts: tuple[str, ...] = ()
    skipped: bool = False


CHECKS: dict[str, Check] = {}
Find = Callable[[Limits], Iterator[Trouble | Fact]]


def check(
    name: str, says: str, *, after: tuple[str, ...] = (), deployed: bool = False
) -> Callable[[Find], Find]:
    """Registers a function. `after` names the checks that it depends on."""

    def register(find: Find) -> Find:
        CHECKS[name] = Check(name, says, find, after, deployed)
        return find

    return register


def examine(limits: Limits, *, is_local: bool, skip: Collection[str] = ()) -> Iterator[Answer]:
    """Each after those that it depends on."""
    failed: set[str] = set()
    order = TopologicalSorter({each.name: each.after for each in CHECKS.values()}).static_order()
    for each in map(CHECKS.__getitem__, order):
        if each.name in skip or (each.deployed and is_local) or failed.intersection(each.after):
            failed |= {each.name} if failed.intersection(each.after) else set()
            yield Answer(each, (), skipped=True)
            continue
        findings = tuple(each.find(limits))
        troubles = tuple(finding for finding in findings if isinstance(finding, Trouble))
        failed |= {each.name} if troubles else set()
        yield Answer(each, troubles, tuple(fact.sentence for fact in findings if isinstance(fact, Fact)))
