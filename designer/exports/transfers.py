"""Transfers to sub-agents as a model is shown them: as tools without inputs, behind the agent's own."""

from typing import Any, Literal

from msgspec import structs

from designer.exports.document import (
    ReleasedAgent,
    ReleaseDocument,
    ReleasedTool,
    ReleasedTransfer,
    ReleasedVersion,
)
from designer.exports.wire import Wire
from designer.signatures.effective import Effective

KIND: Literal["transfer"] = "transfer"
# In place of a vendor, for formats whose tools have one.
VENDOR = "pegboard"


def shown(release: ReleaseDocument) -> ReleaseDocument:
    """The release as formats write it."""
    handed = tuple(as_tool(each, release.agent) for each in release.transfers)
    return structs.replace(release, tools=(*release.tools, *handed), transfers=())


def as_tool(transfer: ReleasedTransfer, agent: ReleasedAgent) -> ReleasedTool:
    return ReleasedTool(
        id=0,
        tool_id=transfer.agent,
        vendor=VENDOR,
        endpoint=f"urn:pegboard:agent:{agent.slug}",
        protocol="",
        version=ReleasedVersion(ordinal=1, label="", digest=""),
        signature=signature_of(transfer),
        tuning={},
    )


def signature_of(transfer: ReleasedTransfer) -> Effective:
    """Its `wire_name` is the slug of the agent that takes over."""
    return Effective(
        name=transfer.name, wire_name=transfer.agent, description=transfer.description, kind=KIND
    )


def way_back(tool: Effective, names: Wire) -> dict[str, Any]:
    """What a caller in the format of `names` has to know: the vendor's names, or which agent takes over."""
    if tool.kind == KIND:
        return {"kind": KIND, "agent": tool.wire_name}
    return names.altered()
