"""Check the text of a procedure. Pure: nothing is looked up or stored.

Specified in docs/procedures.md, "What is checked". An error prevents publishing unless it is accepted by its
code; a warning is for the designer to consider, because prose may state more than the rules detect.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from core.translatable import Wording
from core.translatable import mark as _
from designer.procedures import input_names, supplies
from designer.procedures.issues import Issue, in_order, issue_at, list_accepted, list_agents, list_returned
from designer.procedures.references import KnownInput, Piece, Reference, Vocabulary, VocabularyTool
from designer.procedures.template import TEMPLATE

# The hints under the headings of a new procedure, which the designer replaces.
_HINTS = frozenset(line for line in TEMPLATE.splitlines() if line and not line.startswith("#"))
# A quote after the name is never the one before the value.
_VALUE_FOR = (
    r"\b{}\b[`\"'”]?+\s*(?:(?:is\s+|be\s+)?set\s+)?(?:to|as|=|:|is|of|with)?\s*"
    r"[`\"“'](?P<value>[^`\"“”'\n]{{1,80}})[`\"”']"
)
_STATES: Mapping[str, tuple[str, str, str, str]] = {
    "withdrawn": (
        "tool_withdrawn",
        _("The vendor has withdrawn “{tool}()”, so it will not work."),
        _("Use another tool, or remove it from the text."),
        "warning",
    ),
    "held": (
        "version_held",
        _("The pinned version of “{tool}()” waits for review."),
        _("Ask an administrator to review it, or move the pin to another version."),
        "error",
    ),
    "blocked": (
        "version_blocked",
        _("The pinned version of “{tool}()” was blocked in review."),
        _("Move the pin to another version."),
        "error",
    ),
    "removed": (
        "not_pinned",
        _("“{tool}()” is not pinned by this agent any more."),
        _("Pin it again, or remove it from the text."),
        "error",
    ),
}
_GONE: Mapping[str, tuple[str, str]] = {
    "removed": (
        _("“{agent}” was removed, so no transfer to it is possible."),
        _("Remove {name}() from the text."),
    ),
    "archived": (
        _("“{agent}” is archived, so no transfer to it is possible."),
        _("Restore the agent, or remove {name}() from the text."),
    ),
    "moved": (
        _("“{agent}” is no sub-agent of this agent any more."),
        _("Remove {name}() from the text, or move the agent back below this one."),
    ),
}


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """A name that this agent does not have and others do.

    tools, tool: how many catalog tools have it, and one of them. agents: other agents of the tree that have
        pinned one.
    """

    tools: int = 0
    tool: int | None = None
    agents: tuple[str, ...] = ()


@dataclass(frozen=True)
class _LintedText:
    """The text of a procedure, with a method for each rule. elsewhere: names that this agent lacks."""

    pieces: Sequence[Piece]
    vocabulary: Vocabulary
    elsewhere: Mapping[str, Elsewhere]

    def check_hints(self) -> Iterator[Issue]:
        lines = "".join(piece.display_text for piece in self.pieces).splitlines()
        hint_lines = [number for number, line in enumerate(lines, 1) if line.strip() in _HINTS]
        if hint_lines:
            message = Wording(_("This line is a hint that a new procedure starts with."))
            if more := len(hint_lines) - 1:
                template = _("This and {count} more lines are hints that a new procedure starts with.")
                message = Wording(template, {"count": more})
            # Reported once: a new procedure has a hint under each heading.
            yield Issue(
                line=hint_lines[0],
                code="hint_left",
                severity="warning",
                message=message,
                fix=Wording(
                    _(
                        "Write your own words in their place, or take them out: a model reads them as they "
                        "stand."
                    )
                ),
            )

    def check_references(self) -> Iterator[Issue]:
        for piece in self.pieces:
            reference = piece.reference
            if reference is None or reference.kind == "item":
                continue
            if reference.target is None:
                yield self.unresolved_issue(
                    piece, reference, self.elsewhere.get(reference.name.lower(), Elsewhere())
                )
                continue
            if reference.kind == "agent":
                agent = self.vocabulary.by_agent[reference.target]
                if agent.state:
                    message, fix = _GONE[agent.state]
                    values = {"agent": agent.title, "name": agent.name}
                    yield issue_at(piece, "not_sub_agent", message, fix, values)
                continue
            tool = self.vocabulary.by_pin[reference.target]
            if tool.state:
                code, message, fix, severity = _STATES[tool.state]
                is_error = severity == "error"
                yield issue_at(piece, code, message, fix, {"tool": tool.name}, is_error=is_error)
            if tool.state != "removed":
                yield from _check_members(piece, reference, tool)

    def unresolved_issue(self, piece: Piece, reference: Reference, others: Elsewhere) -> Issue:
        name = reference.name
        if reference.is_ambiguous or others.tools > 1:
            message = _("Several tools in the catalog have the name “{name}”.")
            fix = _("Choose one and pin it.")
            if reference.is_ambiguous:
                message = _("Several tools of this agent have the name “{name}”.")
                fix = _("Write the name that the agent shows.")
            # An agent with several such tools needs no other one.
            name_to_pin = "" if reference.is_ambiguous else name
            return issue_at(piece, "ambiguous_reference", message, fix, {"name": name}, name=name_to_pin)
        if others.agents:
            message = _("“{name}()” is a tool of {agents}; the model of this agent does not see it.")
            fix = _("Pin it here too, or transfer to that agent.")
            values = {"name": name, "agents": list_agents(others.agents[:3])}
            return issue_at(piece, "other_agents_tool", message, fix, values, name=name, tool=others.tool)
        if others.tools:
            message = _("“{name}()” is in the catalog and not pinned by this agent.")
            fix = _("Pin “{name}”.")
            return issue_at(piece, "not_pinned", message, fix, {"name": name}, name=name, tool=others.tool)
        if name.startswith("{"):
            message = _("{name} refers to nothing that this agent has.")
            fix = _("Write the tool's name and ().")
            return issue_at(piece, "unknown_reference", message, fix, {"name": name})
        near = difflib.get_close_matches(name.lower(), self.vocabulary.by_name, n=1, cutoff=0.72)
        instead = self.vocabulary.by_name[near[0]][0].name if near else ""
        fix = _("Did you mean {instead}()?") if near else _("Pin a tool of that name.")
        message = _("There is no tool called “{name}”.")
        values = {"name": name, "instead": instead}
        return issue_at(piece, "unknown_reference", message, fix, values, name=name, instead=instead)

    def check_order(self) -> Iterator[Issue]:
        called_pins: set[int | None] = set()
        for piece in self.pieces:
            reference = piece.reference
            if reference is None:
                continue
            if reference.kind in ("tool", "input"):
                called_pins.add(reference.target)
            elif (
                reference.kind == "output"
                and reference.target is not None
                and reference.target not in called_pins
            ):
                name = self.vocabulary.by_pin[reference.target].name
                message = _("A result of “{tool}()” is used before it is called.")
                fix = _("Call {tool}() in a step before.")
                yield issue_at(piece, "result_before_call", message, fix, {"tool": name}, is_error=False)

    def check_values(self, text: str) -> Iterator[Issue]:
        """Check values that prose gives to an input, such as “set `channel` to "fax"”, for each tool with an
        input of that name.
        """
        allowed: dict[str, set[str]] = {}
        mentioned = {piece.reference.target for piece in self.pieces if piece.reference}
        for tool in self.vocabulary.tools:
            for known_input in tool.inputs:
                if known_input.allowed and tool.pin in mentioned:
                    allowed.setdefault(known_input.name, set()).update(known_input.allowed)
        for name, values in allowed.items():
            for stated_value in stated_values(name, text):
                if stated_value.value not in values:
                    yield Issue(
                        line=stated_value.line,
                        column=stated_value.column,
                        code="value_not_allowed",
                        severity="error",
                        message=Wording(
                            _("“{name}” cannot be “{value}”."), {"name": name, "value": stated_value.value}
                        ),
                        fix=list_accepted(sorted(values)),
                    )

    def check_inputs(self, text: str) -> Iterator[Issue]:
        """Yield required inputs that nothing supplies, at the first reference to their tool."""
        sentences = supplies.sentences(text)
        questions = list(supplies.join_questions(sentences))
        before: dict[int, VocabularyTool] = {}
        end = 0
        for piece in self.pieces:
            end += len(piece.display_text)
            reference = piece.reference
            if reference is None or reference.kind not in ("tool", "input") or reference.target is None:
                continue
            tool = self.vocabulary.by_pin.get(reference.target)
            if tool is None or tool.pin in before or tool.state == "removed":
                continue
            supplied = self.supplied_by_references(tool, piece.line)
            if supplies.is_ruled_out(end, sentences):
                continue
            step_end = supplies.end_of_step(text, end)
            by_here = text[:step_end].lower()
            required = [row for row in tool.inputs if row.is_required and not row.is_given]
            for known_input in required:
                if input_names.is_composed(known_input.name):
                    continue
                others = tuple(row.name for row in required if row.name != known_input.name)
                required_input = input_names.RequiredInput(known_input.name, tool.name, others)
                is_supplied = (
                    known_input.id in supplied
                    or any(
                        input_names.names_the_same(known_input.name, input_names.words_of(name))
                        for name in supplied
                    )
                    or any(_may_return(earlier, known_input) for earlier in before.values())
                    or any(
                        re.search(rf"\b{re.escape(value.lower())}\b", by_here)
                        for value in known_input.allowed
                    )
                    or supplies.is_supplied(required_input, end, step_end, questions)
                )
                if not is_supplied:
                    yield issue_at(
                        piece,
                        "input_not_supplied",
                        _("“{tool}()” needs “{input}”, and nothing before this step supplies it."),
                        _(
                            "State where it comes from: a step before, {item} for what the conversation has "
                            "collected, or a preset in the pin."
                        ),
                        {
                            "tool": tool.name,
                            "input": known_input.name,
                            "item": f"{{{known_input.name}}}",
                        },
                        is_error=False,
                    )
            before[tool.pin] = tool

    def check_authentication(self, text: str) -> Iterator[Issue]:
        """Yield an issue if the text relies on an authentication that no tool or sub-agent performs."""
        offset = supplies.find_authentication(text)
        capabilities = [
            f"{tool.name} {tool.description}" for tool in self.vocabulary.tools if tool.state != "removed"
        ]
        capabilities += [f"{agent.name} {agent.title}" for agent in self.vocabulary.agents if not agent.state]
        if offset is None or any(map(supplies.proves_identity, capabilities)):
            return
        yield Issue(
            line=text.count("\n", 0, offset) + 1,
            column=offset - text.rfind("\n", 0, offset) - 1,
            code="authentication_without_tool",
            severity="warning",
            message=Wording(_("The text expects an identified caller, and no tool identifies callers.")),
            fix=Wording(
                _("Pin a tool that does, or state who identifies callers before the conversation begins.")
            ),
        )

    def supplied_by_references(self, tool: VocabularyTool, line: int) -> set[str]:
        """Return the items that the conversation has collected by this line, and inputs that a reference
        gives a value.
        """
        supplied: set[str] = set()
        for piece in self.pieces:
            reference = piece.reference
            if reference and piece.line <= line:
                supplied |= {member.item for member in reference.members if member.item}
            if reference and reference.kind == "item" and piece.line <= line:
                supplied.add(reference.name)
            elif reference and reference.kind == "input" and reference.target == tool.pin:
                supplied |= {member.id for member in reference.members if member.value}
            elif reference and reference.kind == "output" and piece.line <= line:
                supplied |= {member.id for member in reference.members}
        return supplied


def unknown_names(pieces: Iterable[Piece]) -> set[str]:
    """Return the names of references that this agent cannot resolve. The caller looks them up for
    `elsewhere`.
    """
    return {
        piece.reference.name.lower()
        for piece in pieces
        if piece.reference and piece.reference.target is None and piece.reference.kind != "item"
    }


def lint(
    pieces: Sequence[Piece], vocabulary: Vocabulary, elsewhere: Mapping[str, Elsewhere] | None = None
) -> list[Issue]:
    """Return at most MAX_ISSUES issues in the order of the text. Equal input gives equal issues."""
    rules = _LintedText(pieces, vocabulary, elsewhere or {})
    text = _prose_of(pieces)
    issues = [
        *rules.check_hints(),
        *rules.check_references(),
        *rules.check_order(),
        *rules.check_values(text),
        *rules.check_inputs(text),
        *rules.check_authentication(text),
    ]
    return in_order(issues)


def unreferenced_issues(texts: Iterable[Sequence[Piece]], vocabulary: Vocabulary) -> list[Issue]:
    """Return issues for tools and sub-agents that no procedure mentions; none if there are no procedures."""
    mentioned: set[tuple[bool, int | None]] = set()
    is_empty = True
    for pieces in texts:
        is_empty = False
        mentioned |= {(p.reference.kind == "agent", p.reference.target) for p in pieces if p.reference}
    if is_empty:
        return []
    tools = [
        Issue(
            line=None,
            code="never_referenced",
            severity="warning",
            message=Wording(
                _("“{tool}” is pinned, and no procedure says when to use it."), {"tool": tool.name}
            ),
            fix=Wording(_("A model misuses such tools more often. Say when to call it, or unpin it.")),
            about=tool.name,
        )
        for tool in vocabulary.tools
        if (False, tool.pin) not in mentioned and tool.state != "removed"
    ]
    agents = [
        Issue(
            line=None,
            code="agent_unreachable",
            severity="warning",
            message=Wording(_("No procedure says when to transfer to “{agent}”."), {"agent": agent.title}),
            fix=Wording(_("Write {name}() where the conversation should go there."), {"name": agent.name}),
        )
        for agent in vocabulary.agents
        if (True, agent.id) not in mentioned and not agent.state
    ]
    return tools + agents


def _check_members(piece: Piece, reference: Reference, tool: VocabularyTool) -> Iterator[Issue]:
    if reference.kind == "output" and tool.outputs:
        names = {output.id: output.name for output in tool.outputs}
        for member in reference.members:
            if member.id not in names:
                message = _("“{tool}()” has no output “{output}”.")
                values = {"tool": tool.name, "output": member.id}
                yield issue_at(piece, "unknown_output", message, list_returned(names.values()), values)
    if reference.kind != "input":
        return
    inputs = {row.id: row for row in tool.inputs}
    for member in reference.members:
        known_input = inputs.get(member.id)
        if known_input is None and member.id in tool.hidden:
            message = _("“{input}” of “{tool}()” is hidden from the model.")
            fix = _("Show it in the pin, or remove it from the text.")
            yield issue_at(piece, "unknown_input", message, fix, {"input": member.id, "tool": tool.name})
        elif known_input is None:
            names_ = [row.name for row in tool.inputs]
            message = _("“{tool}()” has no input “{input}”.")
            values = {"tool": tool.name, "input": member.id}
            yield issue_at(piece, "unknown_input", message, list_accepted(names_), values)
        elif member.literal and known_input.allowed and member.literal not in known_input.allowed:
            message = _("“{input}” of “{tool}()” cannot be “{value}”.")
            values = {"input": known_input.name, "tool": tool.name, "value": member.literal}
            fix = list_accepted(known_input.allowed)
            yield issue_at(piece, "value_not_allowed", message, fix, values)


class StatedValue(NamedTuple):
    value: str
    line: int
    column: int


def stated_values(name: str, text: str) -> Iterator[StatedValue]:
    """Yield values in quotes that prose gives to an input of this name."""
    for match in re.finditer(_VALUE_FOR.format(re.escape(name)), text, re.IGNORECASE):
        line = text.count("\n", 0, match.start()) + 1
        yield StatedValue(match["value"], line, match.start() - text.rfind("\n", 0, match.start()) - 1)


def _may_return(tool: VocabularyTool, known_input: KnownInput) -> bool:
    """Return whether the tool may return a value for the input, by the names of its outputs."""
    if not tool.outputs:  # The outputs are not declared, so only the tool's texts can be compared.
        return input_names.names_the_same(
            known_input.name, input_names.words_of(f"{tool.name} {tool.description}")
        )
    return any(
        input_names.is_given_by(known_input.name, name)
        for output in tool.outputs
        for name in (output.name, *output.holds)
    )


def _prose_of(pieces: Iterable[Piece]) -> str:
    """Return the displayed text without the words of tool names; those of inputs remain."""

    def blanked(piece: Piece) -> str:
        if piece.reference is None or piece.reference.kind == "item":
            return piece.display_text
        # The names of inputs and outputs are words that count.
        blank_length = (
            len(piece.display_text)
            if piece.reference.kind not in ("input", "output")
            else piece.display_text.find("(")
        )
        marks = {"output": supplies.RESULT, "agent": supplies.TRANSFER}
        return marks.get(piece.reference.kind, "_") * blank_length + piece.display_text[blank_length:]

    return "".join(blanked(piece) for piece in pieces)
