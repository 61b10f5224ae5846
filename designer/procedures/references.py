"""References in the text of a procedure: parsed, stored by id, displayed by current name. Pure.

Each reference has one of two forms, and `parse` accepts both.

    by id                   as entered and displayed   means
    {tool:12}               look_up()                  the tool of pin 12
    {in:12/account_id}      look_up(account_id)        an input of it; several: {in:12/a,b}
    {in:12/channel=sms}     look_up(channel=sms)       an input and a value for it
    {in:12/a=%7Ba%7D}       look_up({a})               an input whose value the conversation has collected
    {out:12/refills}        look_up().refills          an output of it
    {agent:7}               transfer_to_billing()      a transfer to sub-agent 7
    {item:account_id}       {account_id}               what the conversation must have collected

Inputs and outputs use the vendor's stable ids, percent-encoded. A renamed tool changes what is displayed and
exported, never the stored text. A name that the agent does not have remains as entered.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal
from urllib.parse import quote, unquote

import msgspec

Kind = Literal["tool", "input", "output", "agent", "item"]
ToolState = Literal["", "withdrawn", "held", "blocked", "removed"]
# "moved": it is a sub-agent of another agent now.
AgentState = Literal["", "archived", "removed", "moved"]

_NAME = r"[A-Za-z_][\w-]{0,127}"
# Bounded everywhere, so that no text makes the expression slow.
_ITEM = r"\{(?:item:)?[A-Za-z_][\w-]{0,63}\}"
_VALUE = rf"{_ITEM}|" + r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|“[^”\n]{0,200}”|[\w.+-]{1,200}"
_ARGUMENT = rf"(?:{_ITEM}|{_NAME}(?:\s?[=:]\s?(?:{_VALUE}))?)"
_TOKEN = re.compile(
    rf"\{{(?P<kind>tool|agent):(?P<id>\d{{1,18}})\}}"
    rf"|\{{(?P<side>in|out):(?P<pin>\d{{1,18}})/(?P<members>[^\s{{}}]{{1,2000}})\}}"
    rf"|\{{(?:item:)?(?P<item>[A-Za-z_][\w-]{{0,63}})\}}"
    # Not the end of a longer word, an address or a path.
    rf"|(?<![\w@/-])@?(?P<name>{_NAME})\((?:\)(?:\.(?P<output>[A-Za-z_](?:[\w-]{{0,126}}\w)?))?"
    rf"|(?P<arguments>{_ARGUMENT}(?:\s?,\s?{_ARGUMENT}){{0,30}})\))"
    rf"|(?<![\w@/-])@(?P<mention>{_NAME})",
    re.ASCII,
)
_ARGUMENTS = re.compile(rf"\s*(?:({_ITEM})|({_NAME})(?:\s?[=:]\s?({_VALUE}))?)\s*(?:,|$)", re.ASCII)
_ITEM_AS_ARGUMENT = re.compile(r"(?<=[(=\s])\{([A-Za-z_][\w-]{0,63})\}(?=[,)])", re.ASCII)
# “the form(s) that were sent” is a plural and not an input.
_PLURALS = frozenset(("s", "es"))


class KnownInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input that a reference may name. is_given: a preset or a default supplies it. allowed: the values
    of an enum, else empty.
    """

    id: str
    name: str
    is_required: bool = False
    is_given: bool = False
    allowed: tuple[str, ...] = ()


class KnownOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output that a reference may name. `holds`: the names of members inside it."""

    id: str
    name: str
    holds: tuple[str, ...] = ()


class VocabularyTool(msgspec.Struct, frozen=True, kw_only=True):
    """A pinned tool as a model sees it; `removed` pins are those that a stored text still refers to."""

    pin: int
    name: str
    wire_name: str = ""
    description: str = ""
    inputs: tuple[KnownInput, ...] = ()
    outputs: tuple[KnownOutput, ...] = ()
    hidden: frozenset[str] = frozenset()
    state: ToolState = ""


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-agent. `name`: that of its transfer. With a `state` a stored text still refers to it, but it
    cannot be transferred to.
    """

    id: int
    name: str
    title: str
    state: AgentState = ""


class Member(msgspec.Struct, frozen=True):
    """One input or output of a reference, by its id, or as entered if the tool has none with that name.

    value: as entered, or `{account_id}` for an item that the conversation has collected.
    """

    id: str
    value: str = ""

    @property
    def item(self) -> str:
        """Return the name of the item that is the value; "" for any other value."""
        return self.value[1:-1] if re.fullmatch(_ITEM, self.value, re.ASCII) else ""

    @property
    def literal(self) -> str:
        """Return the value itself; "" if it is an item."""
        return "" if self.item else self.value


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference in a text.

    target: a pin or an agent; None for an unknown or ambiguous name.
    members: the inputs, or the one output. name: the item, or the name as entered.
    """

    kind: Kind
    target: int | None = None
    name: str = ""
    members: tuple[Member, ...] = ()
    is_ambiguous: bool = False


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The names that the procedures of one agent may refer to."""

    tools: tuple[VocabularyTool, ...] = ()
    agents: tuple[KnownAgent, ...] = ()

    @cached_property
    def by_pin(self) -> Mapping[int, VocabularyTool]:
        return {tool.pin: tool for tool in self.tools}

    @cached_property
    def by_agent(self) -> Mapping[int, KnownAgent]:
        return {agent.id: agent for agent in self.agents}

    @cached_property
    def by_name(self) -> Mapping[str, list[VocabularyTool | KnownAgent]]:
        """Return the tools and agents by displayed name in lower case; by the vendor's name if no displayed
        name equals it.
        """
        by_shown_name: defaultdict[str, list[VocabularyTool | KnownAgent]] = defaultdict(list)
        candidates: list[VocabularyTool | KnownAgent] = [
            tool for tool in self.tools if tool.state != "removed"
        ]
        for row in candidates + [agent for agent in self.agents if not agent.state]:
            by_shown_name[row.name.lower()].append(row)
        vendors: defaultdict[str, list[VocabularyTool | KnownAgent]] = defaultdict(list)
        for tool in self.tools:
            name = tool.name if tool.state == "removed" else tool.wire_name
            # A displayed name means only its own tool, even if a vendor uses that name for another one.
            if name and name.lower() not in by_shown_name:
                vendors[name.lower()].append(tool)
        for agent in self.agents:
            if agent.state and agent.name.lower() not in by_shown_name:
                vendors[agent.name.lower()].append(agent)
        return {**vendors, **by_shown_name}

    def display(self, reference: Reference, target: int) -> str:
        if reference.kind == "agent":
            return f"{self.by_agent[target].name}()"
        tool = self.by_pin[target]
        if reference.kind == "tool":
            return f"{tool.name}()"
        names = {row.id: row.name for row in (tool.inputs if reference.kind == "input" else tool.outputs)}
        # An id that the version lacks is displayed in a form that can be entered.
        member_names = [names.get(member.id, re.sub(r"\W+", "_", member.id)) for member in reference.members]
        if reference.kind == "output":
            return f"{tool.name}().{member_names[0]}"
        arguments = []
        for name, member in zip(member_names, reference.members, strict=True):
            value = member.value
            if not member.item and not re.fullmatch(r"[\w.+-]*", value, re.ASCII):
                value = f"“{value}”" if '"' in value else f'"{value}"'
            arguments.append(value if member.item == name else f"{name}={value}" if value else name)
        return f"{tool.name}({', '.join(arguments)})"

    def split(self, text: str) -> Iterator[tuple[str, Reference | None]]:
        end = start = 0
        while match := _TOKEN.search(text, start):
            reference = self.read_token(match)
            # Words that only look like a reference may contain items as arguments.
            start = match.end() if reference or not match["arguments"] else match.start("arguments")
            if reference is None:
                continue
            if match.start() > end:
                yield text[end : match.start()], None
            yield match.group(), reference
            end = match.end()
        if end < len(text):
            yield text[end:], None

    def read_token(self, match: re.Match[str]) -> Reference | None:
        # None for words that only look like a reference.
        if match["kind"]:
            kind: Kind = "tool" if match["kind"] == "tool" else "agent"
            targets = self.by_pin if kind == "tool" else self.by_agent
            target = int(match["id"])
            return Reference(kind=kind, target=target if target in targets else None, name=match.group())
        if match["side"]:
            kind = "input" if match["side"] == "in" else "output"
            pairs = (row.split("=", 1) for row in match["members"].split(","))
            members = tuple(Member(unquote(row[0]), unquote(row[1]) if row[1:] else "") for row in pairs)
            pin = int(match["pin"])
            known_pin = pin if pin in self.by_pin else None
            return Reference(kind=kind, target=known_pin, name=match.group(), members=members)
        if match["item"]:
            return Reference(kind="item", name=match["item"])
        return self.read_entered(match)

    def read_entered(self, match: re.Match[str]) -> Reference | None:
        name = match["name"] or match["mention"]
        candidates = self.by_name.get(name.lower(), [])
        arguments, output = match["arguments"], match["output"]
        # A call or a mention of an unknown name is prose: “call me (today)”, an address, a handle.
        if not candidates and (arguments or match["mention"]):
            return None
        # Unless the tool has an input of that name.
        tools = [tool for tool in candidates if isinstance(tool, VocabularyTool)]
        if arguments in _PLURALS and arguments not in {row.name for tool in tools for row in tool.inputs}:
            return None
        if len(candidates) != 1:
            return Reference(kind="tool", name=name, is_ambiguous=bool(candidates))
        (candidate,) = candidates
        if isinstance(candidate, KnownAgent):
            if arguments and "{" in arguments:
                return None
            return Reference(kind="agent", target=candidate.id, name=name)
        if arguments:
            ids = {row.name.lower(): row.id for row in candidate.inputs}
            members = []
            for item, input_name, value in _ARGUMENTS.findall(arguments):
                member_name = input_name or item.strip("{}").removeprefix("item:")
                text = (value or item).strip("\"'“”").replace("{item:", "{")
                members.append(Member(ids.get(member_name.lower(), member_name), text))
            return Reference(kind="input", target=candidate.pin, name=name, members=tuple(members))
        if output:
            ids = {row.name.lower(): row.id for row in candidate.outputs}
            return Reference(
                kind="output",
                target=candidate.pin,
                name=name,
                members=(Member(ids.get(output.lower(), output)),),
            )
        return Reference(kind="tool", target=candidate.pin, name=name)


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text: plain words or a reference, in its displayed and its stored form.

    line, column: the position of `display_text`, from 1 and from 0 in characters.
    """

    display_text: str
    stored: str
    line: int
    column: int
    reference: Reference | None = None


def parse(text: str, vocabulary: Vocabulary) -> list[Piece]:
    """Split the text into pieces without gaps. CR LF becomes LF."""
    pieces: list[Piece] = []
    line, column = 1, 0
    for plain, reference in vocabulary.split(text.replace("\r\n", "\n").replace("\r", "\n")):
        displayed, stored = plain, plain
        if reference is not None and reference.kind == "item":
            displayed, stored = f"{{{reference.name}}}", f"{{item:{reference.name}}}"
        elif reference is not None and reference.target is not None:
            displayed = vocabulary.display(reference, reference.target)
            stored = _stored_reference(reference, reference.target)
        pieces.append(
            Piece(display_text=displayed, stored=stored, line=line, column=column, reference=reference)
        )
        breaks = displayed.count("\n")
        line += breaks
        # Positions refer to the displayed text, which the editor has on the screen.
        column = len(displayed) - displayed.rfind("\n") - 1 if breaks else column + len(displayed)
    return pieces


class TextPosition(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a text refers to, with its position. `member`: the id of an input or output, or the
    item.
    """

    line: int
    column: int
    kind: Kind
    target: int | None
    member: str


def flat(pieces: Iterable[Piece]) -> Iterator[TextPosition]:
    """Yield what the text refers to and this agent has: a reference to three inputs yields three."""
    for piece in pieces:
        reference = piece.reference
        if reference is None or (reference.target is None and reference.kind != "item"):
            continue
        item = reference.name if reference.kind == "item" else ""
        for member in [row.id for row in reference.members] or [item]:
            yield TextPosition(
                line=piece.line,
                column=piece.column,
                kind=reference.kind,
                target=reference.target,
                member=member,
            )
        for item in filter(None, (row.item for row in reference.members)):
            yield TextPosition(line=piece.line, column=piece.column, kind="item", target=None, member=item)


def stored_text(pieces: Iterable[Piece]) -> str:
    return "".join(piece.stored for piece in pieces)


def repoint_text(pieces: Iterable[Piece], *, pins: Mapping[int, int], agents: Mapping[int, int]) -> str:
    """Return the text as another agent stores it, with its own pins and agents. Things that it does not have
    remain by name.
    """
    texts = []
    for piece in pieces:
        reference, text = piece.reference, piece.stored
        if reference is not None and reference.target is not None:
            target = (agents if reference.kind == "agent" else pins).get(reference.target)
            # By name, so that it resolves once the other agent gets such a tool.
            text = piece.display_text if target is None else _stored_reference(reference, target)
        texts.append(text)
    return "".join(texts)


def display_text(pieces: Iterable[Piece]) -> str:
    return "".join(piece.display_text for piece in pieces)


def rendered_text(pieces: Iterable[Piece]) -> str:
    """Return what a model reads: the displayed text, with items by their bare names."""
    texts = []
    for piece in pieces:
        text, kind = piece.display_text, piece.reference.kind if piece.reference else ""
        if piece.reference and kind == "item":
            text = piece.reference.name
        elif kind == "input":
            text = _ITEM_AS_ARGUMENT.sub(r"\1", text)
        texts.append(text)
    return "".join(texts)


def _stored_reference(reference: Reference, target: int) -> str:
    if reference.kind in ("tool", "agent"):
        return f"{{{reference.kind}:{target}}}"
    members = ",".join(
        quote(member.id, safe="") + (f"={quote(member.value, safe='')}" if member.value else "")
        for member in reference.members
    )
    return f"{{{'in' if reference.kind == 'input' else 'out'}:{target}/{members}}}"
