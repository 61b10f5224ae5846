"""What is wrong, or likely wrong, with the text of a procedure. Pure: nothing is looked up, nothing stored.

Specified in docs/procedures.md, "What is checked". An error keeps the agent from being published unless it is
accepted by its code; a warning is what a designer should look at, because prose may say more than rules see.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from designer.procedures import input_names, supplies
from designer.procedures.references import (
    KnownInput,
    KnownTool,
    Piece,
    Reference,
    Vocabulary,
)
from designer.procedures.template import TEMPLATE

Severity = Literal["error", "warning"]
MAX_REMARKS = 200
# What a new procedure says under its headings, for the designer to write over.
_HINTS = frozenset(line for line in TEMPLATE.splitlines() if line and not line.startswith("#"))
# The quote behind the name is never the one before the value.
_VALUE_FOR = (
    r"\b{}\b[`\"'”]?+\s*(?:(?:is\s+|be\s+)?set\s+)?(?:to|as|=|:|is|of|with)?\s*"
    r"[`\"“'](?P<value>[^`\"“”'\n]{{1,80}})[`\"”']"
)
_STATES: Mapping[str, tuple[str, str, str, str]] = {
    "withdrawn": (
        "tool_withdrawn",
        "The vendor has withdrawn “{}()”, so it will not work.",
        "Take another tool, or take it out of the text.",
        "warning",
    ),
    "held": (
        "version_held",
        "The pinned version of “{}()” waits for review.",
        "Ask an administrator to review it, or move the pin to another version.",
        "error",
    ),
    "blocked": (
        "version_blocked",
        "The pinned version of “{}()” was blocked in review.",
        "Move the pin to another version.",
        "error",
    ),
    "removed": (
        "not_pinned",
        "“{}()” is not pinned by this agent any more.",
        "Pin it again, or take it out of the text.",
        "error",
    ),
}
_GONE: Mapping[str, tuple[str, str]] = {
    "removed": ("“{}” was removed, so nothing can be handed over to it.", "Take {}() out of the text."),
    "archived": (
        "“{}” is archived, so nothing can be handed over to it.",
        "Bring it back, or take {}() out.",
    ),
    "moved": (
        "“{}” is no sub-agent of this agent any more.",
        "Take {}() out of the text, or move the agent back below this one.",
    ),
}


class Remark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`line` counts from 1 and `column` from 0, in the text as it is shown; both None for the whole agent.

    `about` is the name of the pinned tool that no text names; `name` the name that leads nowhere, `tool` the
    one tool of the catalog that has it, if it is only one, and `instead` the name of this agent's that was
    probably meant.
    """

    line: int | None
    column: int | None = None
    code: str
    severity: Severity
    message: str
    fix: str = ""
    about: str = ""
    name: str = ""
    tool: int | None = None
    instead: str = ""


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """A name that this agent does not know and others do: how many tools of the catalog have it, one of them
    (None when there is none), and which other agents of the tree have pinned one of that name."""

    tools: int = 0
    tool: int | None = None
    agents: tuple[str, ...] = ()


def unknown_names(pieces: Iterable[Piece]) -> set[str]:
    """Names of references that this agent cannot resolve: what the caller looks up for `elsewhere`."""
    return {
        piece.reference.name.lower()
        for piece in pieces
        if piece.reference and piece.reference.target is None and piece.reference.kind != "item"
    }


def lint(
    pieces: Sequence[Piece], vocabulary: Vocabulary, elsewhere: Mapping[str, Elsewhere] | None = None
) -> list[Remark]:
    """In the order of the text, at most MAX_REMARKS; equal input gives equal remarks."""
    text = _prose(pieces)
    found = [
        *_of_hints(pieces),
        *_of_references(pieces, vocabulary, elsewhere or {}),
        *_of_order(pieces, vocabulary),
        *_of_values(pieces, vocabulary, text),
        *_of_inputs(pieces, vocabulary, text),
        *_of_authentication(vocabulary, text),
    ]
    return in_order(found)


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Return at most MAX_REMARKS of them, in the order of the text."""
    return sorted(remarks, key=lambda each: (each.line or 0, each.column or 0, each.code))[:MAX_REMARKS]


def unreferenced(texts: Iterable[Sequence[Piece]], vocabulary: Vocabulary) -> list[Remark]:
    """Tools and sub-agents that no procedure of the agent mentions; none where there are no procedures."""
    named: set[tuple[bool, int | None]] = set()
    is_empty = True
    for pieces in texts:
        is_empty = False
        named |= {(p.reference.kind == "agent", p.reference.target) for p in pieces if p.reference}
    if is_empty:
        return []
    tools = [
        Remark(
            line=None,
            code="never_referenced",
            severity="warning",
            message=f"“{tool.name}” is pinned, and no procedure says when to use it.",
            fix="A model misuses such tools more often. Say when to call it, or unpin it.",
            about=tool.name,
        )
        for tool in vocabulary.tools
        if (False, tool.pin) not in named and tool.state != "removed"
    ]
    agents = [
        Remark(
            line=None,
            code="agent_unreachable",
            severity="warning",
            message=f"No procedure says when to hand over to “{agent.title}”.",
            fix=f"Write {agent.name}() where the conversation should go there.",
        )
        for agent in vocabulary.agents
        if (True, agent.id) not in named and not agent.state
    ]
    return tools + agents


def _of_hints(pieces: Iterable[Piece]) -> Iterator[Remark]:
    lines = "".join(piece.shown for piece in pieces).splitlines()
    left = [number for number, line in enumerate(lines, 1) if line.strip() in _HINTS]
    if left:
        more = f" and {len(left) - 1} more lines are hints" if len(left) > 1 else " line is a hint"
        # Said once: a new procedure has one under each of its headings.
        yield Remark(
            line=left[0],
            code="hint_left",
            severity="warning",
            message=f"This{more} that a new procedure starts with.",
            fix="Write your own words in their place, or take them out: a model reads them as they stand.",
        )


def _of_references(
    pieces: Sequence[Piece], vocabulary: Vocabulary, elsewhere: Mapping[str, Elsewhere]
) -> Iterator[Remark]:
    for piece in pieces:
        reference = piece.reference
        if reference is None or reference.kind == "item":
            continue
        if reference.target is None:
            yield _unresolved(
                piece, reference, vocabulary, elsewhere.get(reference.name.lower(), Elsewhere())
            )
            continue
        if reference.kind == "agent":
            agent = vocabulary.by_agent[reference.target]
            if agent.state:
                message, fix = _GONE[agent.state]
                yield _remark(piece, "not_sub_agent", message.format(agent.title), fix.format(agent.name))
            continue
        tool = vocabulary.by_pin[reference.target]
        if tool.state:
            code, message, fix, severity = _STATES[tool.state]
            is_error = severity == "error"
            yield _remark(piece, code, message.format(tool.name), fix, is_error=is_error)
        if tool.state != "removed":
            yield from _of_members(piece, reference, tool)


def _unresolved(piece: Piece, reference: Reference, vocabulary: Vocabulary, known: Elsewhere) -> Remark:
    name = reference.name
    if reference.is_ambiguous or known.tools > 1:
        where = "of this agent have" if reference.is_ambiguous else "in the catalog have"
        fix = "Write the name that the agent shows." if reference.is_ambiguous else "Choose one and pin it."
        # An agent that has several already needs no further one.
        asked = "" if reference.is_ambiguous else name
        message = f"Several tools {where} the name “{name}”."
        return _remark(piece, "ambiguous_reference", message, fix, name=asked)
    if known.agents:
        whose = " and ".join(f"“{agent}”" for agent in known.agents[:3])
        message = f"“{name}()” is a tool of {whose}, and this agent is not shown it."
        fix = "Pin it here too, or hand over to that agent."
        return _remark(piece, "other_agents_tool", message, fix, name=name, tool=known.tool)
    if known.tools:
        message = f"“{name}()” is in the catalog and not pinned by this agent."
        return _remark(piece, "not_pinned", message, f"Pin “{name}”.", name=name, tool=known.tool)
    if name.startswith("{"):
        message = f"{name} refers to nothing that this agent has."
        return _remark(piece, "unknown_reference", message, "Write the tool's name and ().")
    near = difflib.get_close_matches(name.lower(), vocabulary.by_name, n=1, cutoff=0.72)
    instead = vocabulary.by_name[near[0]][0].name if near else ""
    fix = f"Did you mean {instead}()?" if near else "Pin a tool of that name."
    message = f"There is no tool called “{name}”."
    return _remark(piece, "unknown_reference", message, fix, name=name, instead=instead)


def _of_members(piece: Piece, reference: Reference, tool: KnownTool) -> Iterator[Remark]:
    if reference.kind == "output" and tool.outputs:
        names = {each.id: each.name for each in tool.outputs}
        for member in reference.members:
            if member.id not in names:
                message = f"“{tool.name}()” returns no “{member.id}”."
                yield _remark(piece, "unknown_output", message, _choice("It returns", names.values()))
    if reference.kind != "input":
        return
    inputs = {each.id: each for each in tool.inputs}
    for member in reference.members:
        known = inputs.get(member.id)
        if known is None and member.id in tool.hidden:
            message = f"“{member.id}” of “{tool.name}()” is hidden from the model."
            yield _remark(piece, "unknown_input", message, "Show it in the pin, or take it out of the text.")
        elif known is None:
            names_ = [each.name for each in tool.inputs]
            message = f"“{tool.name}()” takes no “{member.id}”."
            yield _remark(piece, "unknown_input", message, _choice("It takes", names_))
        elif member.literal and (remark := _not_allowed(piece, tool, known, member.literal)):
            yield remark


def _not_allowed(piece: Piece, tool: KnownTool, known: KnownInput, value: str) -> Remark | None:
    if not known.allowed or value in known.allowed:
        return None
    message = f"“{known.name}” of “{tool.name}()” cannot be “{value}”."
    return _remark(piece, "value_not_allowed", message, _choice("It takes", known.allowed))


def _of_order(pieces: Sequence[Piece], vocabulary: Vocabulary) -> Iterator[Remark]:
    called: set[int | None] = set()
    for piece in pieces:
        reference = piece.reference
        if reference is None:
            continue
        if reference.kind in ("tool", "input"):
            called.add(reference.target)
        elif reference.kind == "output" and reference.target is not None and reference.target not in called:
            name = vocabulary.by_pin[reference.target].name
            message = f"A result of “{name}()” is used before it is called."
            yield _remark(
                piece, "result_before_call", message, f"Call {name}() in a step before.", is_error=False
            )


def _of_values(pieces: Sequence[Piece], vocabulary: Vocabulary, text: str) -> Iterator[Remark]:
    """Values that prose gives to an input: “set `channel` to "fax"”, whichever tool has one of that name."""
    allowed: dict[str, set[str]] = {}
    named = {piece.reference.target for piece in pieces if piece.reference}
    for tool in vocabulary.tools:
        for known in tool.inputs:
            if known.allowed and tool.pin in named:
                allowed.setdefault(known.name, set()).update(known.allowed)
    for name, values in allowed.items():
        for said in values_said(name, text):
            if said.value not in values:
                yield Remark(
                    line=said.line,
                    column=said.column,
                    code="value_not_allowed",
                    severity="error",
                    message=f"“{name}” cannot be “{said.value}”.",
                    fix=_choice("It takes", sorted(values)),
                )


class SaidValue(NamedTuple):
    value: str
    line: int
    column: int


def values_said(name: str, text: str) -> Iterator[SaidValue]:
    """Values in quotes that prose gives to an input of this name."""
    for match in re.finditer(_VALUE_FOR.format(re.escape(name)), text, re.IGNORECASE):
        line = text.count("\n", 0, match.start()) + 1
        yield SaidValue(match["value"], line, match.start() - text.rfind("\n", 0, match.start()) - 1)


def _of_inputs(pieces: Sequence[Piece], vocabulary: Vocabulary, text: str) -> Iterator[Remark]:
    """Required inputs that nothing supplies, at the first reference to their tool."""
    said = supplies.sentences(text)
    asked = list(supplies.with_what_is_asked_for(said))
    before: dict[int, KnownTool] = {}
    end = 0
    for piece in pieces:
        end += len(piece.shown)
        reference = piece.reference
        if reference is None or reference.kind not in ("tool", "input") or reference.target is None:
            continue
        tool = vocabulary.by_pin.get(reference.target)
        if tool is None or tool.pin in before or tool.state == "removed":
            continue
        given = _given_by_reference(pieces, tool, piece.line)
        if supplies.is_ruled_out(end, said):
            continue
        step_end = supplies.end_of_step(text, end)
        by_here = text[:step_end].lower()
        required = [each.name for each in tool.inputs if each.is_required and not each.is_given]
        for known in tool.inputs:
            if not known.is_required or known.is_given or input_names.is_composed(known.name):
                continue
            others = tuple(name for name in required if name != known.name)
            wanted = input_names.RequiredInput(known.name, tool.name, others)
            is_supplied = (
                known.id in given
                or any(input_names.names_the_same(known.name, input_names.words_of(name)) for name in given)
                or any(_returns(earlier, known) for earlier in before.values())
                or any(re.search(rf"\b{re.escape(value.lower())}\b", by_here) for value in known.allowed)
                or supplies.is_supplied(wanted, end, step_end, asked)
            )
            if not is_supplied:
                yield _remark(
                    piece,
                    "input_not_supplied",
                    f"“{tool.name}()” needs “{known.name}”, and nothing before this step supplies it.",
                    f"Say where it comes from: a step before, {{{known.name}}} for what the conversation has "
                    "collected, or a preset in the pin.",
                    is_error=False,
                )
        before[tool.pin] = tool


def _of_authentication(vocabulary: Vocabulary, text: str) -> Iterator[Remark]:
    """A text that relies on an authentication, which no tool and no sub-agent of the agent performs."""
    offset = supplies.find_authentication(text)
    capabilities = [f"{tool.name} {tool.description}" for tool in vocabulary.tools if tool.state != "removed"]
    capabilities += [f"{agent.name} {agent.title}" for agent in vocabulary.agents if not agent.state]
    if offset is None or any(map(supplies.proves_identity, capabilities)):
        return
    yield Remark(
        line=text.count("\n", 0, offset) + 1,
        column=offset - text.rfind("\n", 0, offset) - 1,
        code="authentication_without_tool",
        severity="warning",
        message="The text relies on an authentication, and no tool proves who the caller is.",
        fix="Pin a tool that checks it, or state who checks it before the conversation begins.",
    )


def _given_by_reference(pieces: Sequence[Piece], tool: KnownTool, line: int) -> set[str]:
    """Items that the conversation has collected by this line, and inputs that a reference gives a value."""
    given: set[str] = set()
    for piece in pieces:
        reference = piece.reference
        if reference and piece.line <= line:
            given |= {member.item for member in reference.members if member.item}
        if reference and reference.kind == "item" and piece.line <= line:
            given.add(reference.name)
        elif reference and reference.kind == "input" and reference.target == tool.pin:
            given |= {member.id for member in reference.members if member.value}
        elif reference and reference.kind == "output" and piece.line <= line:
            given |= {member.id for member in reference.members}
    return given


def _returns(tool: KnownTool, known: KnownInput) -> bool:
    if not tool.outputs:  # What it returns is not declared: its own words are all there is to go by.
        return input_names.names_the_same(known.name, input_names.words_of(f"{tool.name} {tool.description}"))
    return any(
        input_names.is_told_by(known.name, name)
        for output in tool.outputs
        for name in (output.name, *output.holds)
    )


def _prose(pieces: Iterable[Piece]) -> str:
    """The shown text with references blanked, so that the words of a tool's name say nothing; inputs stay."""

    def blanked(piece: Piece) -> str:
        if piece.reference is None or piece.reference.kind == "item":
            return piece.shown
        # The names of inputs and outputs are words that count.
        kept = len(piece.shown) if piece.reference.kind not in ("input", "output") else piece.shown.find("(")
        mark = supplies.RESULT if piece.reference.kind == "output" else "_"
        return mark * kept + piece.shown[kept:]

    return "".join(blanked(piece) for piece in pieces)


def _choice(lead: str, names: Collection[str]) -> str:
    shown = list(names)[:8]
    rest = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{lead} {', '.join(shown)}{rest}." if shown else f"{lead} nothing."


def _remark(
    piece: Piece,
    code: str,
    message: str,
    fix: str,
    *,
    is_error: bool = True,
    name: str = "",
    tool: int | None = None,
    instead: str = "",
) -> Remark:
    return Remark(
        line=piece.line,
        column=piece.column,
        code=code,
        severity="error" if is_error else "warning",
        message=message,
        fix=fix,
        name=name,
        tool=tool,
        instead=instead,
    )
