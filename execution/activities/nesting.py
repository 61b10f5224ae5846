"""The reach of activities that run each other: their depth, and the steps of a call in total. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

MAX_DEPTH = 8
# Of one call: its own steps, and those of all activities that are run for it.
MAX_STEPS_IN_ALL = 100


@dataclass(frozen=True, slots=True)
class ActivityNode:
    """One activity: the number of its steps, and the activities that some of them run."""

    steps: int
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ActivityExtent:
    """The reach of an activity. `depth` is 1 if it runs no other. `steps` counts its own and those of all
    it runs."""

    depth: int
    steps: int


def extents(nodes: Mapping[int, ActivityNode]) -> dict[int, ActivityExtent | None]:
    """Return the extent of each activity, None if it would run itself. Activities outside `nodes` have no
    steps."""
    measured: dict[int, ActivityExtent | None] = {}

    def measure(version_id: int) -> ActivityExtent | None:
        if version_id in measured:
            return measured[version_id]
        # None until it is measured: an activity that is reached again here runs itself.
        measured[version_id] = None
        node = nodes.get(version_id, ActivityNode(0))
        inner = [measure(part) for part in node.parts]
        measured_parts = [extent for extent in inner if extent]
        if len(measured_parts) == len(inner):
            depth = 1 + max((extent.depth for extent in measured_parts), default=0)
            measured[version_id] = ActivityExtent(
                depth, node.steps + sum(extent.steps for extent in measured_parts)
            )
        return measured[version_id]

    for node_id in nodes:
        measure(node_id)
    return measured


def is_more(now: ActivityExtent | None, before: ActivityExtent | None) -> bool:
    """Return whether the extent is larger than before. An endless one always is."""
    if now is None or before is None:
        return True
    return now.depth > before.depth or now.steps > before.steps
