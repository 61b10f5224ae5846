"""What an activity would run: the tools that it calls, and other activities, however deep."""

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.activities import kinds
from catalog.activities.engine import MAX_DEPTH
from catalog.models import Activity, ActivityVersion, ToolVersion
from core.errors import DomainError


def refuse_endless(activity: Activity, kind: str, config: Mapping[str, Any]) -> None:
    """Raises DomainError for what would run `activity` again, or run others too deep. `activity` may be
    new."""
    current = set(kinds.get(kind).activities(config))
    depth = 1
    while current:
        depth += 1
        if activity.pk in current:
            message = f"“{activity}” would run itself. Choose another activity."
            raise DomainError("activity_reaches_itself", message, fields={"steps": message})
        if depth > MAX_DEPTH:
            message = f"Activities run each other {MAX_DEPTH} deep at most. Take one out."
            raise DomainError("activity_too_deep", message, fields={"steps": message})
        versions = ActivityVersion.objects.filter(pk__in=_current(current))
        current = {
            each for version in versions for each in kinds.get(version.kind).activities(version.config)
        }


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
