"""The differences of two releases as people read them. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from core.readable_changes import ReadableChange, describe_change
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.pins import token_budget
from designer.releases.diff import AgentDifference, Member, ToolChange, TreeChange, compare_releases

MAX_OPEN = 12  # changes of an agent; more are folded, so that the page stays one to read
_Tools = Mapping[int, ReleasedTool]


def compare_for_people(
    before: ReleaseDocument | None, after: ReleaseDocument | None, *, is_open: bool
) -> list[ReadableChange]:
    """Compare two releases; no changes where there is nothing to compare."""
    if before is None or after is None:
        return []
    return read_releases(compare_releases(before, after), before, after, is_open=is_open)


def read_releases(
    changes: TreeChange, before: ReleaseDocument | None, after: ReleaseDocument, *, is_open: bool
) -> list[ReadableChange]:
    """Return the changes of the agent, then those of each sub-agent below a heading.

    is_open: a change with details is not folded where its agent has few.
    """
    rows = list(_read_agent(changes.own, before, after, is_open=is_open))
    for change in changes.agents:
        rows.append(ReadableChange(mark=change.mark, subject=change.name, kind="sub-agent", is_heading=True))
        rows += _read_agent(change, before, after, is_open=is_open)
    return rows


def _read_agent(
    change: AgentDifference, before: ReleaseDocument | None, after: ReleaseDocument, *, is_open: bool
) -> Iterator[ReadableChange]:
    old, new = (
        {tool.id: tool for node in document.nodes if node.id == change.id for tool in node.tools}
        if document
        else {}
        for document in (before, after)
    )
    for member in change.agent:
        yield describe_change(f"The agent's {member.path}", member.before, member.after)
    is_tool_open = is_open and len(change.tools) <= MAX_OPEN
    for tool in change.tools:
        yield _read_tool(tool, old, new, is_open=is_tool_open)
    for item in change.context:
        yield ReadableChange(
            sentence=" ".join(item.sentences),
            mark=item.mark,
            subject=item.name,
            kind="prompt or resource",
            parts=_read_members(item.members),
            is_open=True,
        )
    for transfer in change.transfers:
        parts = _read_members(transfer.members)
        yield ReadableChange(
            mark=transfer.mark, subject=transfer.name, kind="transfer", parts=parts, is_open=True
        )
    for procedure in change.procedures:
        is_changed = procedure.mark == "changed"
        text = ReadableChange(before=procedure.before or None, after=procedure.after or None)
        yield ReadableChange(
            mark=procedure.mark,
            subject=procedure.title,
            kind="procedure",
            lines=procedure.lines if is_changed else (),
            parts=() if is_changed else [text],
            is_open=is_open and is_changed and len(change.procedures) <= MAX_OPEN,
        )


def _read_tool(change: ToolChange, old: _Tools, new: _Tools, *, is_open: bool) -> ReadableChange:
    before, after = old.get(change.tool), new.get(change.tool)
    old_tokens, new_tokens = (token_budget.tokens(tool.signature) if tool else 0 for tool in (before, after))
    effects = [tool.signature.annotations.effect for tool in (before, after) if tool]
    return ReadableChange(
        sentence=" ".join(change.sentences),
        mark=change.mark,
        subject=change.name,
        kind="tool",
        call_effects=tuple(dict.fromkeys(effects)),
        tokens=new_tokens - old_tokens,
        after=after.signature.description or None if after and change.mark == "added" else None,
        parts=_read_members(change.members),
        is_open=is_open,
    )


def _read_members(members: Iterable[Member]) -> list[ReadableChange]:
    return [describe_change(member.place, member.before, member.after) for member in members]
