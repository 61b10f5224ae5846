"""The tools and activities that an activity would run, at any depth."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.models import Activity, ActivityVersion, ToolVersion
from core.errors import DomainError
from core.prepared_statements import run_prepared
from execution.activities import kinds, nesting, pinned_callees
from execution.activities.nesting import MAX_DEPTH, MAX_STEPS_IN_ALL, ActivityExtent, ActivityNode

# The key of an activity that is not saved yet.
NEW = 0
EMPTY = ActivityNode(0)


@dataclass(frozen=True, slots=True)
class ActivityReach:
    """The versions that a call of an activity would run: of activities, the first being its own, and of
    tools that are called at their vendors."""

    versions: tuple[ActivityVersion, ...]
    tools: tuple[ToolVersion, ...]


def refuse_too_much(activity: Activity, kind: str, config: Mapping[str, Any]) -> None:
    """Raise DomainError if `activity` would run itself, run others too deep, or run too many steps, by
    itself or in an activity that runs it. An activity that exceeds a limit may be changed to exceed it
    less. `activity` may be new."""
    key, now = activity.pk or NEW, activity.current
    before = _build_node(now.kind, now.config) if now else EMPTY
    nodes, above = _nodes_around(key, _build_node(kind, config), before)
    extents_now, extents_before = nesting.extents(nodes), nesting.extents(nodes | {key: before})
    # Its own fault first, because the user who saves it can change that one.
    for which in (key, *sorted(above - {key})):
        fault = _too_much(extents_now[which])
        if fault and nesting.is_more(extents_now[which], extents_before[which]):
            code, message = fault
            if which != key:
                name = Activity.objects.get(pk=which)
                message = _("It is a part of “{name}”. {message}").format(name=name, message=message)
            raise DomainError(code, message, fields={"steps": message})


def refuse_too_many_steps(version: ActivityVersion) -> None:
    """Raise DomainError if a call that is about to begin is too large: callees may have changed since it
    was saved."""
    if not kinds.get(version.kind).activities(version.config):
        return
    calling = _versions_below([version])
    nodes = {
        pk: ActivityNode(
            len(kinds.get(caller.kind).tools(caller.config)) + len(parts),
            tuple(callees[part].pk for part in parts if part in callees),
        )
        for pk, (caller, callees) in calling.items()
        for parts in [kinds.get(caller.kind).activities(caller.config)]
    }
    if fault := _too_much(nesting.extents(nodes)[version.pk]):
        raise DomainError(*fault, status=409)


def _too_much(extent: ActivityExtent | None) -> tuple[str, str] | None:
    # As a code and a sentence.
    if extent is None:
        return "activity_reaches_itself", _("An implementation would run itself. Choose another one.")
    if extent.depth > MAX_DEPTH:
        return "activity_too_deep", _(
            "Implementations can be nested {maximum} deep at most. Remove one."
        ).format(maximum=MAX_DEPTH)
    if extent.steps > MAX_STEPS_IN_ALL:
        message = _(
            "A call would run {steps} steps in all, and the limit is {maximum}. Steps of the "
            "implementations that it runs count. Remove some."
        ).format(steps=number_format(extent.steps, force_grouping=True), maximum=MAX_STEPS_IN_ALL)
        return "activity_too_many_steps", message
    return None


def _build_node(kind: str, config: Mapping[str, Any]) -> ActivityNode:
    activity_kind = kinds.get(kind)
    parts = tuple(activity_kind.activities(config))
    return ActivityNode(len(activity_kind.tools(config)) + len(parts), parts)


def _nodes_around(
    key: int, node: ActivityNode, before: ActivityNode = EMPTY
) -> tuple[dict[int, ActivityNode], set[int]]:
    """Return the activities that run `key` at any depth with all that these run, and the keys of those above
    it.

    node: the activity as it will be. before: as it was, whose callees are included.
    """
    rows = run_prepared(_AROUND, [key, [*node.parts, *before.parts], key])
    nodes = {
        activity_id: ActivityNode(steps, tuple(parts)) for activity_id, steps, parts, _unused in rows
    } | {key: node}
    return nodes, {activity_id for activity_id, *_unused, is_above in rows if is_above}


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


def find_reach(versions: Iterable[ActivityVersion]) -> dict[int, ActivityReach]:
    """Return by primary key the versions and tools that a call of each version would run. The number of
    statements grows only with the depth.
    """
    all_versions = list(versions)
    calling = _versions_below(all_versions)
    chains: dict[int, list[ActivityVersion]] = {}
    for version in all_versions:
        # Each version once, itself first.
        visited, waiting, chain = {version.pk}, [version], []
        while waiting:
            current = waiting.pop()
            chain.append(current)
            callees = calling[current.pk][1].values() if current.pk in calling else ()
            unvisited = {callee.pk: callee for callee in callees if callee.pk not in visited}
            visited |= unvisited.keys()
            waiting += unvisited.values()
        chains[version.pk] = chain
    tool_keys = {row.pk: kinds.get(row.kind).tools(row.config) for chain in chains.values() for row in chain}
    called_keys = {key for keys in tool_keys.values() for key in keys}
    versions_of_tools = ToolVersion.objects.filter(tool__in={tool for tool, _unused in called_keys})
    rows = versions_of_tools.select_related("tool__endpoint__vendor", "tool__stopped") if called_keys else []
    tools = {key: row for row in rows if (key := (row.tool_id, row.ordinal)) in called_keys}
    return {
        pk: ActivityReach(
            tuple(chain),
            tuple({tools[key]: None for row in chain for key in tool_keys[row.pk] if key in tools}),
        )
        for pk, chain in chains.items()
    }


# A version, and the version that runs for each activity that it calls, by the primary key of the activity.
_Calling = tuple[ActivityVersion, Mapping[int, ActivityVersion]]


def _versions_below(versions: Iterable[ActivityVersion]) -> dict[int, _Calling]:
    """Return these versions and all that they run by primary key, down to one level more than is allowed."""
    level = {row.pk: row for row in versions}
    calling: dict[int, _Calling] = {}
    for _unused in range(MAX_DEPTH + 1):
        if not level:
            break
        callees = pinned_callees.find_callees(
            {pk: set(kinds.get(version.kind).activities(version.config)) for pk, version in level.items()}
        )
        calling |= {pk: (version, callees.get(pk, {})) for pk, version in level.items()}
        next_level = {row.pk: row for rows in callees.values() for row in rows.values()}
        level = {pk: row for pk, row in next_level.items() if pk not in calling}
    return calling


def with_all_above(activity: Activity) -> set[int]:
    """Return the primary keys of the activity and of all activities that run it, at any depth."""
    return _nodes_around(activity.pk, EMPTY)[1] | {activity.pk}


def users_of(activity: Activity) -> list[Activity]:
    """Return the activities that run this one as a step."""
    pattern = {"steps": [{"activity": activity.pk}]}
    rows = Activity.objects.live().select_related("current")
    return list(rows.filter(current__config__contains=pattern).exclude(pk=activity.pk))
