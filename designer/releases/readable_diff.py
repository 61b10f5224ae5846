"""The differences of two releases as people read them, a page at a time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from core.numbered_pages import NumberedPage, page_of
from core.readable_changes import ReadableChange, describe_change
from core.translatable import Wording, join_sentences
from core.translatable import mark as _
from designer.exports.document import ReleaseDocument
from designer.pins import token_budget
from designer.releases.diff import (
    AgentDifference,
    ChangedMember,
    ProcedureChange,
    ReleasedToolChange,
    TransferChange,
    TreeChange,
)
from designer.releases.masked_changes import compare_masked

MAX_OPEN = 12  # changes with details; more are folded, so that the page stays one to read
MAX_DETAILS_SIZE = 20_000  # estimated bytes of the details of a page
PARTS_SIZE = 30  # differences of one tool that are shown at a time
PART_SIZE = 700  # bytes of the markup of one difference
# A call does not depend on these members of a tool, an input and an output.
_TEXTS = {"name", "title", "description", "img", "tags", "examples"}


_DescribedChange = ChangedMember | ReleasedToolChange | ProcedureChange | TransferChange | ReadableChange


@dataclass(frozen=True, slots=True)
class _Row:
    """One change, before it is described. `change` is None for a sub-agent without other changes."""

    agent: AgentDifference
    change: _DescribedChange | None
    kind: str = ""

    @property
    def key(self) -> str:
        """Return the name in an address of the page, for a change with details."""
        match self.change:
            case ReleasedToolChange(tool=name) | ProcedureChange(slug=name):
                return f"{self.agent.id}-{self.kind[:4]}-{name}"
        return ""


class ReleaseComparison:
    """Two releases and their differences. `before` is None if nothing was released before.

    appended: changes outside the two documents.
    """

    def __init__(
        self,
        before: ReleaseDocument | None,
        after: ReleaseDocument,
        changes: TreeChange | None = None,
        appended: Iterable[ReadableChange] = (),
    ) -> None:
        changes = changes or compare_masked(before, after)
        self._root = changes.own
        self._tools = []
        for document in (before, after):
            nodes = document.nodes if document else ()
            self._tools.append(
                {(node.id, tool.id): tool for node in nodes for tool in (*node.tools, *node.context)}
            )
        self._rows: list[_Row] = []
        for agent in (self._root, *changes.agents):
            # Tools that calls may fail on come before those with other texts.
            tools = sorted(agent.tools, key=_rank_of_tool)
            groups: list[tuple[str, Iterable[_DescribedChange]]] = [
                ("", agent.agent),
                ("tool", tools),
                ("prompt or resource", agent.context),
                ("transfer", agent.transfers),
                ("procedure", agent.procedures),
            ]
            self._rows += [_Row(agent, change, kind) for kind, group in groups for change in group]
            if not agent.count and agent.mark != "changed":
                self._rows.append(_Row(agent, None))
        self._rows += [_Row(self._root, change) for change in appended]

    def page(
        self, number: str = "", *, key: str = "", parts: str = "", is_open: bool = True
    ) -> NumberedPage[ReadableChange]:
        """Describe the changes of one page. A heading precedes those of each sub-agent.

        Short details are part of the page; longer ones are loaded when the user opens a change.
        number: of a change on the page. key: of the change that is open, "" for none. parts: the number of
        its first difference on the page. is_open: open all short details, if they are at most MAX_OPEN.
        """
        keys = [row.key for row in self._rows]
        page = page_of(self._rows, str(keys.index(key) + 1) if key and key in keys else number)
        details = self._short_details(page.rows)
        is_open = is_open and len(details) <= MAX_OPEN
        described: list[ReadableChange] = []
        agent = self._root
        for row in page:
            if row.agent not in (agent, self._root):
                heading = ReadableChange(mark=row.agent.mark, subject=row.agent.name, kind="sub-agent")
                described.append(replace(heading, is_heading=True))
            agent = row.agent
            if row.key and row.key == key:
                described.append(replace(self._describe_row(row, parts), is_open=True))
            elif row.key in details:
                described.append(replace(details[row.key], is_open=is_open))
            elif row.change is not None:
                described.append(self._describe_row(row, is_head=bool(row.key)))
        return page.with_rows(described)

    def details(self, key: str, number: str = "") -> ReadableChange | None:
        """Describe one change. number: of the first of its differences, if it has many."""
        row = next((row for row in self._rows if row.key == key), None)
        return self._describe_row(row, number) if row else None

    def _short_details(self, rows: Sequence[_Row]) -> dict[str, ReadableChange]:
        """Return the details of all changes, by key; nothing if they would make the page long."""
        tools = [row.change for row in rows if isinstance(row.change, ReleasedToolChange)]
        # The least that they can take, so that many tools are not described only to be measured.
        least = PART_SIZE * sum(1 + min(len(tool.members), PARTS_SIZE) for tool in tools)
        if least > MAX_DETAILS_SIZE:
            return {}
        size, details = 0, {}
        for row in rows:
            if row.key:
                details[row.key] = self._describe_row(row)
                size += _size_of(details[row.key])
            if size > MAX_DETAILS_SIZE:
                return {}
        return details

    def _describe_row(self, row: _Row, number: str = "", *, is_head: bool = False) -> ReadableChange:
        match row.change:
            case ChangedMember() as member:
                label = Wording(_("The agent's {member}"), {"member": member.path})
                return describe_change(label, member.before, member.after)
            case ProcedureChange() as procedure:
                change = ReadableChange(mark=procedure.mark, subject=procedure.title)
                if not is_head and procedure.mark == "changed":
                    change = replace(change, lines=procedure.lines)
                elif not is_head:
                    text = ReadableChange(before=procedure.before or None, after=procedure.after or None)
                    change = replace(change, parts=[text])
            case ReleasedToolChange() as tool:
                change = self._describe_tool(row, tool, number, is_head=is_head)
            case TransferChange() as transfer:
                parts = _describe_members(transfer.members)
                change = ReadableChange(mark=transfer.mark, subject=transfer.name, parts=parts, is_open=True)
            case _:
                return row.change or ReadableChange()
        has_details = not isinstance(row.change, ReleasedToolChange) or bool(row.change.members)
        return replace(change, kind=row.kind, key=row.key if has_details else "")

    def _describe_tool(
        self, row: _Row, change: ReleasedToolChange, number: str, *, is_head: bool
    ) -> ReadableChange:
        versions = [tools.get((row.agent.id, change.tool)) for tools in self._tools]
        tools = [tool for tool in versions if tool]
        old_tokens, new_tokens = (token_budget.tokens(tool.signature) if tool else 0 for tool in versions)
        effects = dict.fromkeys(tool.signature.annotations.effect for tool in tools)
        is_tool = row.kind == "tool"
        is_new = change.mark == "added" and is_tool
        return ReadableChange(
            sentence=join_sentences(change.sentences),
            mark=change.mark,
            subject=change.name,
            call_effects=tuple(effects) if is_tool else (),
            tokens=new_tokens - old_tokens if is_tool else None,
            after=tools[0].signature.description or None if is_new and not is_head else None,
            parts=() if is_head else _describe_members(change.members, number),
        )


def compare_for_people(
    before: ReleaseDocument | None, after: ReleaseDocument | None
) -> ReleaseComparison | None:
    """Compare two releases, if there are two."""
    return ReleaseComparison(before, after) if before and after else None


def _rank_of_tool(tool: ReleasedToolChange) -> int:
    if tool.mark == "changed":
        return 1 if any(not _TEXTS & {member.steps[0], member.steps[-1]} for member in tool.members) else 3
    return 0 if tool.mark == "removed" else 2


def _describe_members(members: Sequence[ChangedMember], number: str = "") -> NumberedPage[ReadableChange]:
    page = page_of(members, number, size=PARTS_SIZE, name="parts")
    return page.with_rows([describe_change(member.place, member.before, member.after) for member in page])


def _size_of(change: ReadableChange) -> int:
    """Estimate the bytes of the details of a change on a page."""
    texts = [
        change.before,
        change.after,
        *(text for line in change.lines for text in (line.before, line.after)),
    ]
    size = sum(len(text) for text in texts if text) + PART_SIZE * (len(change.lines) or 1)
    size += len(change.sentence) + (len(str(change.raw)) * 3 if change.raw else 0)
    return size + sum(map(_size_of, change.parts))
