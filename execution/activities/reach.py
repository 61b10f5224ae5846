"""What an activity would run: the tools that it calls, and other activities, however deep."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.models import Activity, ActivityVersion, ToolVersion
from core.errors import DomainError
from core.prepared_statements import run_prepared
from execution.activities import kinds, nesting, pinned_callees
from execution.activities.nesting import MAX_DEPTH, MAX_STEPS_IN_ALL, Extent, Node

# In place of the key of one that is not saved yet.
NEW = 0
EMPTY = Node(0)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a call of an activity would run: versions of activities, itself the first, and those of tools that
    are called at their vendors."""

    versions: tuple[ActivityVersion, ...]
    tools: tuple[ToolVersion, ...]


def refuse_too_much(activity: Activity, kind: str, config: Mapping[str, Any]) -> None:
    """Raises DomainError for what would run `activity` again, run others too deep, or make too many steps:
    by itself, or in an activity that runs it. What was too much before may become less. `activity` may be
    new."""
    own, now = activity.pk or NEW, activity.current
    before = _node(now.kind, now.config) if now else EMPTY
    nodes, above = _around(own, _node(kind, config), before)
    found, was = nesting.extents(nodes), nesting.extents(nodes | {own: before})
    # Itself first: that is what the user who saves it can change.
    for which in (own, *sorted(above - {own})):
        fault = _too_much(found[which])
        if fault and nesting.is_more(found[which], was[which]):
            code, message = fault
            if which != own:
                name = Activity.objects.get(pk=which)
                message = f"It is a part of “{name}”. {message}"
            raise DomainError(code, message, fields={"steps": message})


def refuse_too_many_steps(version: ActivityVersion) -> None:
    """The same for a call that is about to begin: what it runs may have been changed since it was saved."""
    if not kinds.get(version.kind).activities(version.config):
        return
    known = _below([version])
    nodes = {
        pk: Node(
            len(kinds.get(each.kind).tools(each.config)) + len(parts),
            tuple(callees[part].pk for part in parts if part in callees),
        )
        for pk, (each, callees) in known.items()
        for parts in [kinds.get(each.kind).activities(each.config)]
    }
    if fault := _too_much(nesting.extents(nodes)[version.pk]):
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


def _around(own: int, node: Node, before: Node = EMPTY) -> tuple[dict[int, Node], set[int]]:
    """What runs `own`, however far above, and all that any of these runs; and which of them are above. `own`
    is as it shall be from now on, and what it ran `before` is there too."""
    rows = run_prepared(_AROUND, [own, [*node.parts, *before.parts], own])
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


def reached(versions: Iterable[ActivityVersion]) -> dict[int, Reached]:
    """What a call of each would run, by primary key, in a number of statements that grows only with how deep
    they are."""
    wanted = list(versions)
    known = _below(wanted)
    found = {each.pk: list(_with_callees(each, known)) for each in wanted}
    called = {each.pk: kinds.get(each.kind).tools(each.config) for whole in found.values() for each in whole}
    tools = _tools({tool for each in called.values() for tool in each})
    return {
        pk: Reached(
            tuple(whole),
            tuple({tools[key]: None for each in whole for key in called[each.pk] if key in tools}),
        )
        for pk, whole in found.items()
    }


# A version, and the version that runs for each activity that it calls, by the primary key of the activity.
_Calling = tuple[ActivityVersion, Mapping[int, ActivityVersion]]


def _below(versions: Iterable[ActivityVersion]) -> dict[int, _Calling]:
    """By primary key, these versions and all that they run, as far as one too deep."""
    level = {each.pk: each for each in versions}
    known: dict[int, _Calling] = {}
    for _ in range(MAX_DEPTH + 1):
        if not level:
            break
        callees = pinned_callees.find_callees(
            {pk: set(kinds.get(each.kind).activities(each.config)) for pk, each in level.items()}
        )
        known |= {pk: (each, callees.get(pk, {})) for pk, each in level.items()}
        found = {row.pk: row for rows in callees.values() for row in rows.values()}
        level = {pk: row for pk, row in found.items() if pk not in known}
    return known


def _with_callees(version: ActivityVersion, known: Mapping[int, _Calling]) -> Iterator[ActivityVersion]:
    # Each once.
    seen, waiting = {version.pk}, [version]
    while waiting:
        each = waiting.pop()
        yield each
        for callee in known[each.pk][1].values() if each.pk in known else ():
            if callee.pk not in seen:
                seen.add(callee.pk)
                waiting.append(callee)


def _tools(called: set[tuple[int, int]]) -> dict[tuple[int, int], ToolVersion]:
    if not called:
        return {}
    rows = ToolVersion.objects.filter(tool__in={tool for tool, _ in called})
    rows = rows.select_related("tool__endpoint__vendor", "tool__stopped")
    return {key: row for row in rows if (key := (row.tool_id, row.ordinal)) in called}


def with_all_above(activity: Activity) -> set[int]:
    """By primary key: itself, and the activities that run it, however far above."""
    return _around(activity.pk, EMPTY)[1] | {activity.pk}


def users_of(activity: Activity) -> list[Activity]:
    """Activities that run this one as a step."""
    named = {"steps": [{"activity": activity.pk}]}
    rows = Activity.objects.live().select_related("current")
    return list(rows.filter(current__config__contains=named).exclude(pk=activity.pk))
