"""What activities call and stand for, by its name: read in a few statements, however many they are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from catalog.models import Activity, ToolVersion
from core.outbound.errors import printable
from protocols.signature import Signature


class Reference(NamedTuple):
    """A version of a tool, or an activity: `tool:12:3` or `activity:7`, as forms write it."""

    tool: int = 0
    ordinal: int = 0
    activity: int = 0

    def __str__(self) -> str:
        return f"activity:{self.activity}" if self.activity else f"tool:{self.tool}:{self.ordinal}"

    @classmethod
    def read(cls, text: str) -> "Reference | None":
        kind, *rest = text.split(":")
        digits = [int(each) for each in rest if each.isdecimal() and len(each) <= 15]
        if kind == "tool" and len(rest) == len(digits) == 2:
            return cls(tool=digits[0], ordinal=digits[1])
        return cls(activity=digits[0]) if kind == "activity" and len(rest) == len(digits) == 1 else None


@dataclass(frozen=True, slots=True)
class Callee:
    """`version` is its name, and `newest` the reference of the newest version where that is another one.
    Without a signature nothing is known of its inputs and outputs."""

    reference: Reference
    name: str
    vendor: str
    version: str
    signature: Signature | None
    newest: Reference | None = None
    newest_version: str = ""

    @property
    def words(self) -> str:
        name = printable(self.name, 60)
        return f"{name} of {self.vendor}" if self.vendor else f"the activity “{name}”"


Known = Mapping[Reference, Callee]


def known(references: Iterable[Reference]) -> dict[Reference, Callee]:
    """Those that are there; a removed activity is not."""
    asked = set(references)
    return {**_tools(asked), **_activities(asked)}


def _tools(asked: set[Reference]) -> dict[Reference, Callee]:
    tools = {each.tool for each in asked if each.tool}
    if not tools:
        return {}
    rows = ToolVersion.objects.filter(tool__in=tools, ordinal__in={each.ordinal for each in asked})
    rows = rows.select_related("tool__endpoint__vendor", "tool__current").defer("raw", "tool__current__raw")
    found = {}
    for row in rows:
        reference = Reference(tool=row.tool_id, ordinal=row.ordinal)
        if reference in asked:
            current = row.tool.current
            is_older = current is not None and current.ordinal > row.ordinal
            found[reference] = Callee(
                reference,
                row.tool.name,
                row.tool.endpoint.vendor.name,
                row.name,
                row.decoded(),
                Reference(tool=row.tool_id, ordinal=current.ordinal) if current and is_older else None,
                current.name if current and is_older else "",
            )
    return found


def _activities(asked: set[Reference]) -> dict[Reference, Callee]:
    activities = {each.activity for each in asked if each.activity}
    if not activities:
        return {}
    rows = Activity.objects.shared().filter(pk__in=activities).select_related("current__interface")
    return {
        Reference(activity=row.pk): Callee(
            Reference(activity=row.pk),
            row.name,
            "",
            "",
            row.current.interface.decoded() if row.current and row.current.interface else None,
        )
        for row in rows
    }
