"""`pegboard.lock.json`: what a repository commits to know which release it was built against. Pure.

`moved` says what has moved since, each with a class: `breaking` may fail a build, `notice` wants a look, and
the rest does no harm.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from catalog.rules import diff as signature_diff
from designer import token_budget
from designer.exports.document import ReleaseDocument, ReleasedSubAgent, ReleasedTool
from designer.releases import diff as release_diff
from designer.releases import recorded_bindings
from designer.signatures.words import NOTHING

SCHEMA = "pegboard.lock/1"
Class = Literal["breaking", "notice", "compatible"]
Status = Literal["current", "behind", "breaking"]


@dataclass(frozen=True, slots=True)
class Moved:
    """`tool` is the name in the lock file, "" where it is about the whole or about a sub-agent."""

    code: str
    class_: Class
    tool: str
    message: str


@dataclass(frozen=True, slots=True)
class Offer:
    """What the vendor offers now of a tool: the name of its current version, None where it is gone."""

    version: str | None
    is_newer: bool


@dataclass(frozen=True, slots=True)
class Retired:
    """That the release of the lock file is retired; `until` is the day when it stops answering, "" for
    never. `successor` is the number of the release to read in its place."""

    reason: str
    until: str
    is_over: bool
    successor: int | None


def lock(
    document: ReleaseDocument, *, digest: str, channel: str, bindings: Mapping[str, Any]
) -> dict[str, Any]:
    """`channel` is the one by which it was asked for, "" for a number or a digest; `bindings` is the record
    of the release."""
    bound = recorded_bindings.locked_bindings(bindings)
    return {
        "schema": SCHEMA,
        "agent": document.agent.slug,
        "channel": channel or None,
        "release": document.number,
        "digest": f"sha256:{digest}",
        "tools": [
            # An agent alone is locked as it was before there were trees.
            ({"agent": node.slug} if node.parent else {}) | _locked(tool)
            for node in document.nodes
            for tool in node.tools
        ],
        # Left out where there is none, as before there were prompts and resources.
        **({"context": context} if (context := _locked_context(document)) else {}),
        # A release whose tools all run at their vendors is locked as it was before there were activities.
        **({"environment": bindings["environment"], "bindings": bound} if bound else {}),
    }


def _locked_context(document: ReleaseDocument) -> list[dict[str, Any]]:
    return [
        ({"agent": node.slug} if node.parent else {}) | {"kind": item.signature.kind} | _locked(item)
        for node in document.nodes
        for item in node.context
    ]


def _locked(tool: ReleasedTool) -> dict[str, Any]:
    return {
        "name": tool.signature.name,
        "vendor": tool.vendor,
        "tool_id": tool.tool_id,
        "version": tool.version.label,
        "ordinal": tool.version.ordinal,
        "digest": tool.version.digest,
        "tuned": any(words != NOTHING for words in tool.tuning.values()),
        # One that is shown as it was published is locked as it was before there was another mode.
        **({"mode": tool.mode} if tool.follows_vendor else {}),
    }


def moved(
    locked: ReleaseDocument,
    now: ReleaseDocument | None,
    offers: Mapping[int, Offer],
    *,
    channel: str,
    retired: Retired | None = None,
) -> list[Moved]:
    """`locked` is the release that the file names, `now` the one that its channel leads to.

    `offers` are by the catalog's id of a tool.
    """
    found: list[Moved] = []
    if retired:
        found.append(_retired(locked.number, retired))
    if now is None:
        found.append(Moved("channel_empty", "breaking", "", f"“{channel}” leads to no release any more."))
    elif now.number != locked.number:
        message = f"“{channel}” leads to release {now.number}; the lock file names release {locked.number}."
        found.append(Moved("channel_moved", "compatible", "", message))
        found += _between_trees(locked, now)
    found += _offered(locked.all_items, offers)
    return found


def moved_bindings(record: Mapping[str, Any], now: Mapping[str, Any]) -> list[Moved]:
    """`record` is that of the locked release, and `now` what runs for its tools today."""
    return [
        Moved("binding_changed", "breaking", change.tool, change.message)
        for change in recorded_bindings.compare(record, now)
    ]


def status(found: Iterable[Moved]) -> Status:
    classes = {each.class_ for each in found}
    return "breaking" if "breaking" in classes else "behind" if classes else "current"


def _retired(number: int, retired: Retired) -> Moved:
    how = f", and has not answered since {retired.until}" if retired.is_over else ""
    if retired.until and not retired.is_over:
        how = f", and answers until {retired.until}"
    instead = f" Read release {retired.successor} in its place." if retired.successor else ""
    message = f"Release {number} is retired{how}: “{retired.reason}”.{instead}"
    return Moved("release_retired", "breaking" if retired.is_over else "notice", "", message)


def _between_trees(locked: ReleaseDocument, now: ReleaseDocument) -> Iterator[Moved]:
    """The agent itself by whatever name, its sub-agents by their identity."""
    root, *below = now.nodes
    new = {node.id: node for node in below}
    slugs = {node.slug: new[node.id].slug for node in locked.nodes if node.id in new}
    for node in locked.nodes:
        other = new.pop(node.id, None) if node.parent else root
        if other is None:
            message = f"Release {now.number} does not have the sub-agent “{node.slug}” any more."
            yield Moved("agent_removed", "breaking", "", message)
            continue
        if node.parent and other.slug != node.slug:
            message = f"The sub-agent “{node.slug}” has the address “{other.slug}” in release {now.number}."
            yield Moved("agent_renamed", "breaking", "", message)
        said = [*_between(node, other, now.number), *_between_transfers(node, other, now.number, slugs)]
        whose = f"Sub-agent “{node.slug}”: " if node.parent else ""
        yield from (replace(each, message=whose + each.message) for each in said)
    for node in new.values():
        message = f"Release {now.number} has the sub-agent “{node.slug}” as well."
        yield Moved("agent_added", "compatible", "", message)


def _between(locked: ReleasedSubAgent, now: ReleasedSubAgent, number: int) -> Iterator[Moved]:
    # What is left of these after the loop came later.
    new = {tool.id: tool for tool in (*now.tools, *now.context)}
    for tool in (*locked.tools, *locked.context):
        name, other = tool.signature.name, new.pop(tool.id, None)
        if other is None:
            message = f"Release {number} does not have “{name}” any more."
            yield Moved("tool_removed", "breaking", name, message)
        elif other != tool:
            yield _changed(tool, other, number)
    for tool in new.values():
        name = tool.signature.name
        yield Moved("tool_added", "compatible", name, f"Release {number} has “{name}” as well.")


def _between_transfers(
    locked: ReleasedSubAgent, now: ReleasedSubAgent, number: int, slugs: Mapping[str, str]
) -> Iterator[Moved]:
    # `slugs` of the sub-agents now, by those of then.
    new = {transfer.agent: transfer for transfer in now.transfers}
    for transfer in locked.transfers:
        name, other = transfer.name, new.pop(slugs.get(transfer.agent, ""), None)
        if other is None:
            message = f"Release {number} does not hand over by “{name}” any more."
            yield Moved("transfer_removed", "breaking", name, message)
        elif other.name != name:
            message = f"The transfer “{name}” is called “{other.name}” in release {number}."
            yield Moved("transfer_renamed", "breaking", name, message)
        elif other.description != transfer.description:
            message = f"Release {number} says otherwise when to hand over by “{name}”."
            yield Moved("transfer_changed", "notice", name, message)
    for transfer in new.values():
        message = f"Release {number} hands over by “{transfer.name}” as well."
        yield Moved("transfer_added", "compatible", transfer.name, message)


def _changed(old: ReleasedTool, new: ReleasedTool, number: int) -> Moved:
    name = old.signature.name
    # First, because a caller that uses the old name fails whatever else is the same.
    if new.signature.name != name:
        message = f"“{name}” is called “{new.signature.name}” in release {number}."
        return Moved("tool_renamed", "breaking", name, message)
    shown = [token_budget.shown(tool.signature) for tool in (old, new)]
    comparison = signature_diff.compare(*shown)
    broken = [change.sentence for change in comparison.changes if change.class_ == "breaking"]
    if broken:
        return Moved(
            "tool_changed", "breaking", name, f"“{name}” breaks in release {number}: {' '.join(broken)}"
        )
    said = [change.sentence for change in comparison.changes] or ["What a model reads is the same."]
    at_run_time = list(release_diff.at_run_time(old, new))
    class_: Class = "notice" if at_run_time or comparison.class_ == "notice" else "compatible"
    message = f"“{name}” differs in release {number}: {' '.join([*said, *at_run_time])}"
    return Moved("tool_changed", class_, name, message)


def _offered(tools: Iterable[ReleasedTool], offers: Mapping[int, Offer]) -> Iterator[Moved]:
    for tool in tools:
        # Told beside what the release itself holds: its words stay, while calls go to the vendor of today.
        offer, name = offers.get(tool.id), tool.signature.name
        if offer is None or offer.version is None:
            message = f"The vendor does not offer “{name}” any more; calls of it may fail."
            yield Moved("tool_withdrawn", "notice", name, message)
        elif offer.is_newer:
            message = f"The vendor offers version {offer.version} of “{name}”. The release keeps its own."
            yield Moved("newer_version", "notice", name, message)
