import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from catalog.models.tools import ItemKind, ToolStatus

_LIVING = """t.endpoint_id NOT IN (
    SELECT e.id FROM catalog_endpoint e JOIN catalog_vendor v ON v.id = e.vendor_id
    WHERE e.removed_at IS NOT NULL OR v.removed_at IS NOT NULL)"""

# Of a tool whose vendor is not removed.
OF_LIVING_VENDOR = "variant_endpoint.removed_at IS NULL"
# The same tool at several endpoints of a vendor is in a folded list once, where its id is the lowest. As a
# value and not as a join, and with OFFSET, because PostgreSQL would otherwise compare all tools.
_FOLDED = """(
    SELECT 1 FROM catalog_endpoint e JOIN catalog_endpoint variant_endpoint
        ON variant_endpoint.vendor_id = e.vendor_id AND variant_endpoint.id <> e.id
    CROSS JOIN LATERAL (
        SELECT * FROM catalog_tool o
        WHERE o.endpoint_id = variant_endpoint.id AND o.tool_id = t.tool_id OFFSET 0
    ) other
    JOIN catalog_toolversion v ON v.id = t.current_id JOIN catalog_toolversion w ON w.id = other.current_id
    WHERE e.id = t.endpoint_id AND other.id < t.id AND w.digest = v.digest AND other.status = t.status
    AND (other.stopped_id IS NULL) = (t.stopped_id IS NULL) AND other.is_tuned = t.is_tuned
    AND (NOT t.is_tuned OR (other.name, other.title, other.description, other.tokens)
        = (t.name, t.title, t.description, t.tokens))
    AND {others} LIMIT 1) IS NULL"""
# The row of catalog_tool in a condition.
_T = re.compile(r"\bt\.")
_CHANGED_SINCE = "t.changed_at >= to_timestamp(%(changed_since)s)"
_OF_VERSION = (
    "t.current_id IN (SELECT v.id FROM catalog_toolversion v WHERE v.label = %(version)s AND v.label <> '')"
)


# In seconds, the shortest first.
CHANGE_SPANS = {"day": 86_400, "week": 7 * 86_400, "month": 30 * 86_400}


def change_starts() -> dict[str, int]:
    """Return when each span of `CHANGE_SPANS` began, in seconds since 1970, at a full minute."""
    minute = int(time.time()) // 60 * 60
    return {name: minute - seconds for name, seconds in CHANGE_SPANS.items()}


def start_of_changes(text: str) -> int:
    """Return the beginning of a span, or of a date such as 2026-11-01 in UTC, in seconds since 1970.

    Raises ValueError.
    """
    starts = change_starts()
    if text in starts:
        return starts[text]
    day = date.fromisoformat(text)
    # The index has no earlier time.
    return max(int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()), 0)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look.

    endpoints: None for all that are not removed.
    kinds: of items; empty for all.
    tags: a tool has every one of them, each in any of its spellings.
    effects, requirements: a tool has any one of them. Only an engine knows them; SQL ignores them.
    among: only these tools.
    except_for: none of these tools.
    version: what the vendor calls the current version.
    changed_since: only tools that changed then or later, in seconds since 1970.
    is_folded: the same tool of a vendor counts once (`catalog.search.variants`).
    """

    endpoints: Sequence[int] | None = None
    tags: tuple[tuple[str, ...], ...] = ()
    effects: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    status: ToolStatus | None = ToolStatus.ACTIVE
    among: Sequence[int] | None = None
    except_for: Sequence[int] = ()
    version: str = ""
    kinds: tuple[ItemKind, ...] = (ItemKind.TOOL,)
    changed_since: int | None = None
    is_folded: bool = False

    @property
    def has_labels(self) -> bool:
        """Return whether the scope has conditions that only a search engine can evaluate."""
        return bool(self.effects or self.requirements)

    @property
    def key(self) -> tuple[object, ...]:
        """A key that distinguishes the scope from others in a cache. It leaves out the lists of tools."""
        endpoints = None if self.endpoints is None else tuple(self.endpoints)
        return (
            *(endpoints, self.tags, self.effects, self.requirements, self.status, self.version, self.kinds),
            self.changed_since,
        )

    def among_only(self, tools: Sequence[int]) -> "Scope":
        """Return the part of the scope that contains only these tools."""
        return replace(self, among=tools if self.among is None else list(set(tools) & set(self.among)))

    @property
    def has_no_tools(self) -> bool:
        return bool(self.kinds) and ItemKind.TOOL not in self.kinds

    def condition(self, living: str = _LIVING) -> str:
        """An SQL condition on `t`, a row of catalog_tool; its parameters are the keys of `values`."""
        plain = self._plain_condition(living)
        if not self.is_folded:
            return plain
        return f"{plain} AND {self.folding}"

    @property
    def folding(self) -> str:
        """The part of a folded scope's condition that takes longest: ten microseconds for each tool."""
        return _FOLDED.format(others=_T.sub("other.", self._plain_condition(OF_LIVING_VENDOR)))

    def _plain_condition(self, living: str) -> str:
        return " AND ".join(
            [
                living if self.endpoints is None else "t.endpoint_id = ANY(%(endpoints)s)",
                *(f"t.tags && %(tag_{number})s::text[]" for number in range(len(self.tags))),
                *(["t.status = %(status)s"] if self.status else []),
                *([_OF_VERSION] if self.version else []),
                *(["t.kind <> 'tool'"] if self.has_no_tools else []),  # for its index
                *(["t.kind = ANY(%(kinds)s)"] if self.kinds else []),
                *([_CHANGED_SINCE] if self.changed_since is not None else []),
                *(["t.id = ANY(%(among)s)"] if self.among is not None else []),
                *(["t.id <> ALL(%(except_for)s)"] if self.except_for else []),
            ]
        )

    def values(self) -> dict[str, Any]:
        return {
            "endpoints": self.endpoints,
            **{f"tag_{number}": list(spellings) for number, spellings in enumerate(self.tags)},
            "status": self.status,
            "among": self.among,
            "except_for": list(self.except_for),
            "version": self.version,
            "kinds": list(self.kinds),
            "changed_since": self.changed_since,
        }
