"""How far activities reach that run each other: how deep, and how many steps a call makes in all. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

MAX_DEPTH = 8
# Of one call: its own steps, and those of all activities that are run for it.
MAX_STEPS_IN_ALL = 100


@dataclass(frozen=True, slots=True)
class Node:
    """One activity: how many steps it has, and the activities that some of them run, one for each."""

    steps: int
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Extent:
    """`depth` is 1 for what runs no other activity. A step that runs one counts, and so do all of its."""

    depth: int
    steps: int


def extents(nodes: Mapping[int, Node]) -> dict[int, Extent | None]:
    """Of each; None for what would run itself, or what does. What is not among `nodes` has no steps."""
    found: dict[int, Extent | None] = {}

    def measure(which: int) -> Extent | None:
        if which in found:
            return found[which]
        # Until it is known: what comes back here runs itself.
        found[which] = None
        node = nodes.get(which, Node(0))
        inner = [measure(part) for part in node.parts]
        known = [each for each in inner if each]
        if len(known) == len(inner):
            depth = 1 + max((each.depth for each in known), default=0)
            found[which] = Extent(depth, node.steps + sum(each.steps for each in known))
        return found[which]

    for which in nodes:
        measure(which)
    return found


def is_more(now: Extent | None, before: Extent | None) -> bool:
    """Whether it reaches further than before. What would run itself always does."""
    if now is None or before is None:
        return True
    return now.depth > before.depth or now.steps > before.steps
