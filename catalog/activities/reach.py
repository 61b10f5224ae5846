"""What an activity would run: the tools that it calls, and other activities, however deep."""

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.activities import kinds, nesting
from catalog.activities.nesting import MAX_DEPTH, MAX_STEPS_IN_ALL, Extent, Node
from catalog.models import Activity, ActivityVersion, ToolVersion
from core.errors import DomainError
from core.prepared_statements import run_prepared

# In place of the key of one that is not saved yet.
NEW = 0


def refuse_too_much(activity: Activity, kind: str, config: Mapping[str, Any]) -> None:
    """Raises DomainError for what would run `activity` again, run others too deep, or make too many steps:
    by itself, or in an activity that runs it. `activity` may be new."""
    own = activity.pk or NEW
    nodes, above = _around(own, _node(kind, config))
    found = nesting.extents(nodes)
    # Itself first: that is what the user who saves it can change.
    for which in (own, *sorted(above - {own})):
        if fault := _too_much(found[which]):
            code, message = fault
            if which != own:
                name = Activity.objects.get(pk=which)
                message = f"It is a part of “{name}”. {message}"
            raise DomainError(code, message, fields={"steps": message})


def refuse_too_many_steps(version: ActivityVersion) -> None:
    """The same for a call that is about to begin: what it runs may have been changed since it was saved."""
    node = _node(version.kind, version.config)
    if not node.parts:
        return
    nodes, _ = _around(NEW, node)
    if fault := _too_much(nesting.extents(nodes)[NEW]):
        raise DomainError(*fault, status=409)


def _too_much(extent: Extent | None) -> tuple[str, str] | None:
    # As a code and a sentence.
    if extent is None:
        return "activity_reaches_itself", "An activity would run itself. Choose another one."
    if extent.depth > MAX_DEPTH:
        return "activity_too_deep", f"Activities run each other {MAX_DEPTH} deep at most. Take one out."
    if extent.steps > MAX_STEPS_IN_ALL:
        message = (
            f"A call of it would make {extent.steps:,} steps in all, and {MAX_STEPS_IN_ALL} is the most. "
            "Those of the activities that it runs count. Take some out."
        )
        return "activity_too_many_steps", message
    return None


def _node(kind: str, config: Mapping[str, Any]) -> Node:
    which = kinds.get(kind)
    parts = tuple(which.activities(config))
    return Node(len(which.tools(config)) + len(parts), parts)


def _around(own: int, node: Node) -> tuple[dict[int, Node], set[int]]:
    """What runs `own`, however far above, and all that any of these runs; and which of them are above. `own`
    is as it shall be from now on."""
    rows = run_prepared(_AROUND, [own, list(node.parts), own])
    nodes = {which: Node(steps, tuple(parts)) for which, steps, parts, _ in rows} | {own: node}
    return nodes, {which for which, *_, is_above in rows if is_above}


_AROUND = """
    WITH RECURSIVE step (whole, part) AS (
        SELECT activity.id, nullif((step ->> 'activity')::bigint, 0)
        FROM catalog_activity activity
        JOIN catalog_activityversion version ON version.id = activity.current_id
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE jsonb_typeof(version.config -> 'steps') WHEN 'array' THEN version.config -> 'steps'
            ELSE '[]' END
        ) AS step
        WHERE activity.removed_at IS NULL AND activity.agent IS NULL
    ), above (id) AS (
        SELECT %s::bigint UNION SELECT step.whole FROM step JOIN above ON step.part = above.id
    ), around (id) AS (
        (SELECT id FROM above UNION SELECT unnest(%s::bigint[]))
        UNION SELECT step.part FROM step JOIN around ON step.whole = around.id
        WHERE step.part IS NOT NULL AND step.whole <> %s::bigint
    )
    SELECT around.id, count(step.whole),
        coalesce(array_agg(step.part) FILTER (WHERE step.part IS NOT NULL), '{}'),
        around.id IN (SELECT id FROM above)
    FROM around LEFT JOIN step ON step.whole = around.id GROUP BY around.id
"""


def tools(version: ActivityVersion) -> Sequence[ToolVersion]:
    """The versions of tools that it would call at their vendors."""
    found: dict[tuple[int, int], None] = {}
    level = [version]
    for _ in range(MAX_DEPTH):
        found |= dict.fromkeys(tool for each in level for tool in kinds.get(each.kind).tools(each.config))
        inner = {other for each in level for other in kinds.get(each.kind).activities(each.config)}
        if not inner:
            break
        level = list(ActivityVersion.objects.filter(pk__in=_current(inner)))
    rows = ToolVersion.objects.filter(tool__in={tool for tool, _ in found}).select_related("tool__endpoint")
    return [row for row in rows.select_related("tool__stopped") if (row.tool_id, row.ordinal) in found]


def users_of(activity: Activity) -> list[Activity]:
    """Activities that run this one as a step."""
    named = {"steps": [{"activity": activity.pk}]}
    rows = Activity.objects.live().select_related("current")
    return list(rows.filter(current__config__contains=named).exclude(pk=activity.pk))


def _current(activities: set[int]) -> Any:
    return Activity.objects.live().filter(pk__in=activities).values("current")
