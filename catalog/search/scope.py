from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.models.tools import ItemKind, ToolStatus

_LIVING = """t.endpoint_id NOT IN (
    SELECT e.id FROM catalog_endpoint e JOIN catalog_vendor v ON v.id = e.vendor_id
    WHERE e.removed_at IS NOT NULL OR v.removed_at IS NOT NULL)"""

_OF_VERSION = (
    "t.current_id IN (SELECT v.id FROM catalog_toolversion v WHERE v.label = %(version)s AND v.label <> '')"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: `endpoints` is None for all that are not removed; a tool has every one of `tags`, and
    its current version is called `version` by its vendor. `kinds` are of items, and empty for all.

    `among` narrows to these tools, which were already found.
    """

    endpoints: Sequence[int] | None = None
    tags: tuple[str, ...] = ()
    status: ToolStatus | None = ToolStatus.ACTIVE
    among: Sequence[int] | None = None
    version: str = ""
    kinds: tuple[ItemKind, ...] = (ItemKind.TOOL,)

    @property
    def has_no_tools(self) -> bool:
        return bool(self.kinds) and ItemKind.TOOL not in self.kinds

    def condition(self) -> str:
        """An SQL condition on `t`, a row of catalog_tool; its parameters are the keys of `values`."""
        return " AND ".join(
            [
                _LIVING if self.endpoints is None else "t.endpoint_id = ANY(%(endpoints)s)",
                *(["t.tags @> %(tags)s::text[]"] if self.tags else []),
                *(["t.status = %(status)s"] if self.status else []),
                *([_OF_VERSION] if self.version else []),
                *(["t.kind <> 'tool'"] if self.has_no_tools else []),  # for its index
                *(["t.kind = ANY(%(kinds)s)"] if self.kinds else []),
                *(["t.id = ANY(%(among)s)"] if self.among is not None else []),
            ]
        )

    def values(self) -> dict[str, Any]:
        return {
            "endpoints": self.endpoints,
            "tags": list(self.tags),
            "status": self.status,
            "among": self.among,
            "version": self.version,
            "kinds": list(self.kinds),
        }
