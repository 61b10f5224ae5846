"""`pegboard.lock.json`: a repository commits it to record the release that it was built against. Pure.

`moved` lists the changes since, each with a class: `breaking` may fail a build, `notice` should be read, and
the rest is harmless.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from catalog.rules import diff as signature_diff
from designer.exports.document import ReleaseDocument, ReleasedSubAgent, ReleasedTool
from designer.pins import token_budget
from designer.releases import diff as release_diff
from designer.releases import recorded_bindings
from designer.signatures.words import NOTHING

SCHEMA = "pegboard.lock/1"
Class = Literal["breaking", "notice", "compatible"]
Status = Literal["current", "behind", "breaking"]


@dataclass(frozen=True, slots=True)
class LockChange:
    """A difference between a lock file and a release. tool: the name in the lock file, "" if the change is
    about the release or a sub-agent.
    """

    code: str
    class_: Class
    tool: str
    message: str

    @classmethod
    def of_tool(cls, old: ReleasedTool, new: ReleasedTool, number: int) -> "LockChange":
        """Compare a locked tool with that of release `number`."""
        name = old.signature.name
        # Checked first, because a caller that uses the old name fails in any case.
        if new.signature.name != name:
            message = f"“{name}” is called “{new.signature.name}” in release {number}."
            return cls("tool_renamed", "breaking", name, message)
        signatures = [token_budget.shown_signature(tool.signature) for tool in (old, new)]
        comparison = signature_diff.compare(*signatures)
        broken = [change.sentence for change in comparison.changes if change.class_ == "breaking"]
        if broken:
            return cls(
                "tool_changed", "breaking", name, f"“{name}” breaks in release {number}: {' '.join(broken)}"
            )
        sentences = [change.sentence for change in comparison.changes] or ["What a model reads is the same."]
        at_run_time = list(release_diff.at_run_time(old, new))
        class_: Class = "notice" if at_run_time or comparison.class_ == "notice" else "compatible"
        message = f"“{name}” differs in release {number}: {' '.join([*sentences, *at_run_time])}"
        return cls("tool_changed", class_, name, message)


@dataclass(frozen=True, slots=True)
class CatalogOffer:
    """The vendor's current offer of a tool: the name of its version, None if it is gone."""

    version: str | None
    is_newer: bool


@dataclass(frozen=True, slots=True)
class ReleaseRetirement:
    """The retirement of the lock file's release. `until`: the day when it stops responding, "" for never.
    `successor`: the number of the release to read instead.
    """

    reason: str
    until: str
    is_over: bool
    successor: int | None


def lock(
    document: ReleaseDocument, *, digest: str, channel: str, bindings: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the lock file. `channel`: the requested one, "" for a number or a digest. `bindings`: the record
    of the release.
    """
    bound = recorded_bindings.locked_bindings(bindings)
    context = [
        ({"agent": node.slug} if node.parent else {}) | {"kind": item.signature.kind} | _locked_tool(item)
        for node in document.nodes
        for item in node.context
    ]
    return {
        "schema": SCHEMA,
        "agent": document.agent.slug,
        "channel": channel or None,
        "release": document.number,
        "digest": f"sha256:{digest}",
        "tools": [
            # A single agent is locked as before sub-agents existed.
            ({"agent": node.slug} if node.parent else {}) | _locked_tool(tool)
            for node in document.nodes
            for tool in node.tools
        ],
        # Left out where there is none, as before there were prompts and resources.
        **({"context": context} if context else {}),
        # A release whose tools all run at their vendors is locked as before activities existed.
        **({"environment": bindings["environment"], "bindings": bound} if bound else {}),
    }


def _locked_tool(tool: ReleasedTool) -> dict[str, Any]:
    return {
        "name": tool.signature.name,
        "vendor": tool.vendor,
        "tool_id": tool.tool_id,
        "version": tool.version.label,
        "ordinal": tool.version.ordinal,
        "digest": tool.version.digest,
        "tuned": any(words != NOTHING for words in tool.tuning.values()),
        # A tool in the default mode is locked as before other modes existed.
        **({"mode": tool.mode} if tool.follows_vendor else {}),
    }


def list_changes(
    locked_release: ReleaseDocument,
    now: ReleaseDocument | None,
    offers: Mapping[int, CatalogOffer],
    *,
    channel: str,
    retired: ReleaseRetirement | None = None,
) -> list[LockChange]:
    """List the changes since the lock file was written.

    locked_release: the release of the lock file.
    now: the release that its channel points to.
    offers: the vendors' current offers by the catalog's id of a tool.
    """
    changes: list[LockChange] = []
    if retired:
        state_text = f", and answers until {retired.until}" if retired.until else ""
        if retired.is_over:
            state_text = f", and has not answered since {retired.until}"
        successor_text = f" Read release {retired.successor} in its place." if retired.successor else ""
        message = (
            f"Release {locked_release.number} is retired{state_text}: “{retired.reason}”.{successor_text}"
        )
        class_: Class = "breaking" if retired.is_over else "notice"
        changes.append(LockChange("release_retired", class_, "", message))
    if now is None:
        changes.append(
            LockChange("channel_empty", "breaking", "", f"“{channel}” leads to no release any more.")
        )
    elif now.number != locked_release.number:
        message = (
            f"“{channel}” leads to release {now.number}; the lock file names release {locked_release.number}."
        )
        changes.append(LockChange("channel_moved", "compatible", "", message))
        changes += _compare_trees(locked_release, now)
    for tool in locked_release.all_items:
        # Reported in addition to the release's changes: its texts remain, while calls go to the vendor as it
        # is today.
        offer, name = offers.get(tool.id), tool.signature.name
        if offer is None or offer.version is None:
            message = f"The vendor does not offer “{name}” any more; calls of it may fail."
            changes.append(LockChange("tool_withdrawn", "notice", name, message))
        elif offer.is_newer:
            message = f"The vendor offers version {offer.version} of “{name}”. The release keeps its own."
            changes.append(LockChange("newer_version", "notice", name, message))
    return changes


def moved_bindings(record: Mapping[str, Any], now: Mapping[str, Any]) -> list[LockChange]:
    """Compare the bindings that the locked release recorded with the present ones (`now`)."""
    return [
        LockChange("binding_changed", "breaking", change.tool, change.message)
        for change in recorded_bindings.compare(record, now)
    ]


def status(changes: Iterable[LockChange]) -> Status:
    classes = {change.class_ for change in changes}
    return "breaking" if "breaking" in classes else "behind" if classes else "current"


def _compare_trees(locked_release: ReleaseDocument, now: ReleaseDocument) -> Iterator[LockChange]:
    """Compare the agents: the root under any name, sub-agents by their id."""
    root, *sub_agents = now.nodes
    new = {node.id: node for node in sub_agents}
    slugs = {node.slug: new[node.id].slug for node in locked_release.nodes if node.id in new}
    for node in locked_release.nodes:
        other = new.pop(node.id, None) if node.parent else root
        if other is None:
            message = f"Release {now.number} does not have the sub-agent “{node.slug}” any more."
            yield LockChange("agent_removed", "breaking", "", message)
            continue
        if node.parent and other.slug != node.slug:
            message = f"The sub-agent “{node.slug}” has the address “{other.slug}” in release {now.number}."
            yield LockChange("agent_renamed", "breaking", "", message)
        prefix = f"Sub-agent “{node.slug}”: " if node.parent else ""
        for change in _compare_agents(node, other, now.number, slugs):
            yield replace(change, message=prefix + change.message)
    for node in new.values():
        message = f"Release {now.number} has the sub-agent “{node.slug}” as well."
        yield LockChange("agent_added", "compatible", "", message)


def _compare_agents(
    locked_agent: ReleasedSubAgent, now: ReleasedSubAgent, number: int, slugs: Mapping[str, str]
) -> Iterator[LockChange]:
    """Compare the tools and the transfers of an agent. slugs: current ones of sub-agents by earlier ones."""
    # Tools that remain in it after the loop were added.
    new = {tool.id: tool for tool in (*now.tools, *now.context)}
    for tool in (*locked_agent.tools, *locked_agent.context):
        name, other = tool.signature.name, new.pop(tool.id, None)
        if other is None:
            message = f"Release {number} does not have “{name}” any more."
            yield LockChange("tool_removed", "breaking", name, message)
        elif other != tool:
            yield LockChange.of_tool(tool, other, number)
    for tool in new.values():
        name = tool.signature.name
        yield LockChange("tool_added", "compatible", name, f"Release {number} has “{name}” as well.")
    new_transfers = {transfer.agent: transfer for transfer in now.transfers}
    for transfer in locked_agent.transfers:
        name, follower = transfer.name, new_transfers.pop(slugs.get(transfer.agent, ""), None)
        if follower is None:
            message = f"Release {number} does not hand over by “{name}” any more."
            yield LockChange("transfer_removed", "breaking", name, message)
        elif follower.name != name:
            message = f"The transfer “{name}” is called “{follower.name}” in release {number}."
            yield LockChange("transfer_renamed", "breaking", name, message)
        elif follower.description != transfer.description:
            message = f"Release {number} says otherwise when to hand over by “{name}”."
            yield LockChange("transfer_changed", "notice", name, message)
    for transfer in new_transfers.values():
        message = f"Release {number} hands over by “{transfer.name}” as well."
        yield LockChange("transfer_added", "compatible", transfer.name, message)
