from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.models.tools import ToolStatus

_LIVING = """t.endpoint_id NOT IN (
    SELECT e.id FROM catalog_endpoint e JOIN catalog_vendor v ON v.id = e.vendor_id
    WHERE e.removed_at IS NOT NULL OR v.removed_at IS NOT NULL)"""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: `endpoints` is None for all that are not removed; a tool has every one of `tags`.

    `among` narrows to these tools, which were already found.
    """

    endpoints: Sequence[int] | None = None
    tags: tuple[str, ...] = ()
    status: ToolStatus | None = ToolStatus.ACTIVE
    among: Sequence[int] | None = None

    @property
    def is_narrowed(self) -> bool:
        return self.endpoints is not None or bool(self.tags) or self.status == ToolStatus.WITHDRAWN

    def condition(self) -> str:
        """An SQL condition on `t`, a row of catalog_tool; its parameters are the keys of `values`."""
        return " AND ".join(
            [
                _LIVING if self.endpoints is None else "t.endpoint_id = ANY(%(endpoints)s)",
                *(["t.tags @> %(tags)s::text[]"] if self.tags else []),
                *(["t.status = %(status)s"] if self.status else []),
                *(["t.id = ANY(%(among)s)"] if self.among is not None else []),
            ]
        )

    def values(self) -> dict[str, Any]:
        return {
            "endpoints": self.endpoints,
            "tags": list(self.tags),
            "status": self.status,
            "among": self.among,
        }
