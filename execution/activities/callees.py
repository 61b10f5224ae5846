"""The tools and activities that activities call or stand in for, read by reference in a few statements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from catalog.models import Activity, ToolVersion
from core.outbound.errors import printable
from protocols.signature import Parameter, Signature


class CalleeReference(NamedTuple):
    """A version of a tool, or an activity: `tool:12:3` or `activity:7`, as forms write it."""

    tool: int = 0
    ordinal: int = 0
    activity: int = 0

    def __str__(self) -> str:
        return f"activity:{self.activity}" if self.activity else f"tool:{self.tool}:{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> "CalleeReference | None":
        kind, *numbers = text.split(":")
        digits = [int(number) for number in numbers if number.isdecimal() and len(number) <= 15]
        if kind == "tool" and len(numbers) == len(digits) == 2:
            return cls(tool=digits[0], ordinal=digits[1])
        return cls(activity=digits[0]) if kind == "activity" and len(numbers) == len(digits) == 1 else None


@dataclass(frozen=True, slots=True)
class Callee:
    """A tool or an activity. `version` is the name of its version.

    newest: the reference of the newest version if that is another one. signature: None if the inputs and
    outputs are unknown. configuration: the input with the configuration of a run, None if it has none.
    """

    reference: CalleeReference
    name: str
    vendor: str
    version: str
    signature: Signature | None
    newest: CalleeReference | None = None
    newest_version: str = ""
    configuration: Parameter | None = None

    @classmethod
    def of_version(cls, version: ToolVersion) -> "Callee":
        tool, signature = version.tool, version.decoded()
        newer = tool.current if tool.current and tool.current.ordinal > version.ordinal else None
        return cls(
            CalleeReference(tool=version.tool_id, ordinal=version.ordinal),
            tool.name,
            tool.endpoint.vendor.name,
            version.name,
            signature,
            CalleeReference(tool=version.tool_id, ordinal=newer.ordinal) if newer else None,
            newer.name if newer else "",
            tool.endpoint.build_protocol().configuration(signature),
        )

    @property
    def words(self) -> str:
        name = printable(self.name, 60)
        return f"{name} of {self.vendor}" if self.vendor else f"the implementation “{name}”"


CalleesByReference = Mapping[CalleeReference, Callee]


def find_callees(references: Iterable[CalleeReference]) -> dict[CalleeReference, Callee]:
    """Return the callees that exist. A removed activity does not."""
    unique_references = set(references)
    callees: dict[CalleeReference, Callee] = {}
    if tools := {reference.tool for reference in unique_references if reference.tool}:
        ordinals = {reference.ordinal for reference in unique_references}
        rows = ToolVersion.objects.filter(tool__in=tools, ordinal__in=ordinals)
        rows = rows.select_related("tool__endpoint__vendor", "tool__current")
        for version in rows.defer("raw", "tool__current__raw"):
            reference = CalleeReference(tool=version.tool_id, ordinal=version.ordinal)
            if reference in unique_references:
                callees[reference] = Callee.of_version(version)
    if activities := {reference.activity for reference in unique_references if reference.activity}:
        for row in Activity.objects.shared().filter(pk__in=activities).select_related("current__interface"):
            reference = CalleeReference(activity=row.pk)
            interface = row.current.interface if row.current else None
            signature = interface.decoded() if interface else None
            callees[reference] = Callee(reference, row.name, "", "", signature)
    return callees
