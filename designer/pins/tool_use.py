"""Counts the agents that use each tool."""

from typing import Any

from django.db.models import Count

from core.compiled_queries import CompiledQuery
from designer.models import Pin


def agents_by_tool() -> dict[int, int]:
    """Return the number of agents that pin a tool, for each tool that any agent pins."""
    return {tool: count for tool, count in _USE_COUNTS.rows() if tool}


_USE_COUNTS: CompiledQuery[tuple[Any, int]] = CompiledQuery(
    lambda: (
        Pin.objects.live()
        .order_by()
        .values("tool")
        .annotate(used_by=Count("agent", distinct=True))
        .values_list("tool", "used_by")
    )
)
