"""Transfers to sub-agents as a model sees them: tools without inputs, after the agent's own tools."""

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


def with_transfers_as_tools(release: ReleaseDocument) -> ReleaseDocument:
    """Return the release as formats write it."""
    transfer_tools = tuple(as_tool(transfer, release.agent) for transfer in release.transfers)
    return structs.replace(release, tools=(*release.tools, *transfer_tools), transfers=())


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
    """Return the signature of a transfer. Its `wire_name` is the slug of the agent that takes over."""
    return Effective(
        name=transfer.name, wire_name=transfer.agent, description=transfer.description, kind=KIND
    )


def reverse_mapping(tool: Effective, names: Wire) -> dict[str, Any]:
    """Return what a caller in the format of `names` needs to know: the vendor's names, or the agent that
    takes over."""
    if tool.kind == KIND:
        return {"kind": KIND, "agent": tool.wire_name}
    return names.altered()
