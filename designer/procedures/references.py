"""References in the text of a procedure: read, stored by identity, shown by current name. Pure.

A reference stands in the text in one of two forms, and `parse` reads both.

    by identity             as it is typed and shown      means
    {tool:12}               look_up()                     the tool of pin 12
    {in:12/account_id}      look_up(account_id)           an input of it; several: {in:12/a,b}
    {in:12/channel=sms}     look_up(channel=sms)          an input and a value for it
    {in:12/a=%7Ba%7D}       look_up({a})                  an input whose value the conversation has collected
    {out:12/refills}        look_up().refills             an output of it
    {agent:7}               transfer_to_billing()         handing over to sub-agent 7
    {item:account_id}       {account_id}                  what the conversation must have collected

Inputs and outputs go by the vendor's stable ids, percent-encoded. A renamed tool changes what is shown and
exported, and never the stored text. What names nothing of this agent stays as it was typed.
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
# "moved": it is below another agent now.
AgentState = Literal["", "archived", "removed", "moved"]

_NAME = r"[A-Za-z_][\w-]{0,127}"
# Bounded everywhere, so that no text makes the expression try for long.
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
_GIVEN = re.compile(rf"\s*(?:({_ITEM})|({_NAME})(?:\s?[=:]\s?({_VALUE}))?)\s*(?:,|$)", re.ASCII)
_ITEM_AS_ARGUMENT = re.compile(r"(?<=[(=\s])\{([A-Za-z_][\w-]{0,63})\}(?=[,)])", re.ASCII)
# “the form(s) that were sent” is a plural and not an input.
_PLURALS = frozenset(("s", "es"))


class KnownInput(msgspec.Struct, frozen=True, kw_only=True):
    """`is_given`: a preset or a default stands in for it. `allowed`: of an enum, else empty."""

    id: str
    name: str
    is_required: bool = False
    is_given: bool = False
    allowed: tuple[str, ...] = ()


class KnownOutput(msgspec.Struct, frozen=True, kw_only=True):
    """`holds` are the names of what lies inside of it."""

    id: str
    name: str
    holds: tuple[str, ...] = ()


class KnownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A pinned tool as a model is shown it; `removed` are pins that a stored text still refers to."""

    pin: int
    name: str
    wire_name: str = ""
    description: str = ""
    inputs: tuple[KnownInput, ...] = ()
    outputs: tuple[KnownOutput, ...] = ()
    hidden: frozenset[str] = frozenset()
    state: ToolState = ""


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-agent; `name` is that of the transfer to it. With a `state` it is one that a stored text still
    refers to, and that cannot be handed over to."""

    id: int
    name: str
    title: str
    state: AgentState = ""


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that the procedures of one agent may refer to."""

    tools: tuple[KnownTool, ...] = ()
    agents: tuple[KnownAgent, ...] = ()

    @cached_property
    def by_pin(self) -> Mapping[int, KnownTool]:
        return {tool.pin: tool for tool in self.tools}

    @cached_property
    def by_agent(self) -> Mapping[int, KnownAgent]:
        return {agent.id: agent for agent in self.agents}

    @cached_property
    def by_name(self) -> Mapping[str, list[KnownTool | KnownAgent]]:
        """By the name that is shown, in lower case; by the vendor's own where no shown one is in the way."""
        named: defaultdict[str, list[KnownTool | KnownAgent]] = defaultdict(list)
        shown: list[KnownTool | KnownAgent] = [tool for tool in self.tools if tool.state != "removed"]
        for held in shown + [agent for agent in self.agents if not agent.state]:
            named[held.name.lower()].append(held)
        vendors: defaultdict[str, list[KnownTool | KnownAgent]] = defaultdict(list)
        for tool in self.tools:
            name = tool.name if tool.state == "removed" else tool.wire_name
            # A name that a model is shown means that tool alone, also where a vendor uses it for another.
            if name and name.lower() not in named:
                vendors[name.lower()].append(tool)
        for agent in self.agents:
            if agent.state and agent.name.lower() not in named:
                vendors[agent.name.lower()].append(agent)
        return {**vendors, **named}


class Member(msgspec.Struct, frozen=True):
    """One input or output of a reference, by its id, or as it was typed if the tool has none of that name.

    value: as typed, or `{account_id}` for the item that the conversation has collected.
    """

    id: str
    value: str = ""

    @property
    def item(self) -> str:
        """The name of the item that is the value; "" for any other value."""
        return self.value[1:-1] if re.fullmatch(_ITEM, self.value, re.ASCII) else ""

    @property
    def literal(self) -> str:
        """The value itself; "" where an item stands for it."""
        return "" if self.item else self.value


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """`target` is a pin or an agent; None for a name that this agent does not know, or that means several.

    `members` are the inputs, or the one output. `name` is the item, or the name as it was typed.
    """

    kind: Kind
    target: int | None = None
    name: str = ""
    members: tuple[Member, ...] = ()
    is_ambiguous: bool = False


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text: plain words, or a reference. `shown` is how it reads, `stored` how it is kept.

    `line` counts from 1, `column` from 0 in characters; both say where `shown` stands.
    """

    shown: str
    stored: str
    line: int
    column: int
    reference: Reference | None = None


def parse(text: str, vocabulary: Vocabulary) -> list[Piece]:
    """`text` in pieces that make it up without a gap. Line breaks are those of `text` with CR LF as LF."""
    pieces: list[Piece] = []
    line, column = 1, 0
    for plain, reference in _split(text.replace("\r\n", "\n").replace("\r", "\n"), vocabulary):
        shown, stored = plain, plain
        if reference is not None and reference.kind == "item":
            shown, stored = f"{{{reference.name}}}", f"{{item:{reference.name}}}"
        elif reference is not None and reference.target is not None:
            shown = _shown(reference, reference.target, vocabulary)
            stored = _stored(reference, reference.target)
        pieces.append(Piece(shown=shown, stored=stored, line=line, column=column, reference=reference))
        breaks = shown.count("\n")
        line += breaks
        # Positions are those of the shown text, which is what an editor has on the screen.
        column = len(shown) - shown.rfind("\n") - 1 if breaks else column + len(shown)
    return pieces


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a text refers to, and where. `member` is the id of an input or output, or the item."""

    line: int
    column: int
    kind: Kind
    target: int | None
    member: str


def flat(pieces: Iterable[Piece]) -> Iterator[Place]:
    """What the text refers to and this agent has, one by one: a reference to three inputs gives three."""
    for piece in pieces:
        reference = piece.reference
        if reference is None or (reference.target is None and reference.kind != "item"):
            continue
        item = reference.name if reference.kind == "item" else ""
        for member in [each.id for each in reference.members] or [item]:
            yield Place(
                line=piece.line,
                column=piece.column,
                kind=reference.kind,
                target=reference.target,
                member=member,
            )
        for item in filter(None, (each.item for each in reference.members)):
            yield Place(line=piece.line, column=piece.column, kind="item", target=None, member=item)


def stored(pieces: Iterable[Piece]) -> str:
    return "".join(piece.stored for piece in pieces)


def repointed(pieces: Iterable[Piece], *, pins: Mapping[int, int], agents: Mapping[int, int]) -> str:
    """As another agent stores it, which has these in place of the pins and agents that the text refers to.

    What it has not stays by its name.
    """
    texts = []
    for piece in pieces:
        reference, text = piece.reference, piece.stored
        if reference is not None and reference.target is not None:
            target = (agents if reference.kind == "agent" else pins).get(reference.target)
            # By name, so that it is found again when the other agent gets such a tool.
            text = piece.shown if target is None else _stored(reference, target)
        texts.append(text)
    return "".join(texts)


def shown(pieces: Iterable[Piece]) -> str:
    return "".join(piece.shown for piece in pieces)


def rendered(pieces: Iterable[Piece]) -> str:
    """What a model reads: as shown, with items by their bare names."""
    return "".join(_rendered(piece) for piece in pieces)


def _rendered(piece: Piece) -> str:
    if piece.reference is None or piece.reference.kind not in ("item", "input"):
        return piece.shown
    if piece.reference.kind == "item":
        return piece.reference.name
    return _ITEM_AS_ARGUMENT.sub(r"\1", piece.shown)


def _split(text: str, vocabulary: Vocabulary) -> Iterator[tuple[str, Reference | None]]:
    end = start = 0
    while match := _TOKEN.search(text, start):
        reference = _read(match, vocabulary)
        # Words that only look like a reference may have items as their arguments.
        start = match.end() if reference or not match["arguments"] else match.start("arguments")
        if reference is None:
            continue
        if match.start() > end:
            yield text[end : match.start()], None
        yield match.group(), reference
        end = match.end()
    if end < len(text):
        yield text[end:], None


def _read(match: re.Match[str], vocabulary: Vocabulary) -> Reference | None:
    # None for words that only look like a reference.
    if match["kind"]:
        kind: Kind = "tool" if match["kind"] == "tool" else "agent"
        known = vocabulary.by_pin if kind == "tool" else vocabulary.by_agent
        target = int(match["id"])
        return Reference(kind=kind, target=target if target in known else None, name=match.group())
    if match["side"]:
        kind = "input" if match["side"] == "in" else "output"
        given = (each.split("=", 1) for each in match["members"].split(","))
        members = tuple(Member(unquote(each[0]), unquote(each[1]) if each[1:] else "") for each in given)
        pin = int(match["pin"])
        known_pin = pin if pin in vocabulary.by_pin else None
        return Reference(kind=kind, target=known_pin, name=match.group(), members=members)
    if match["item"]:
        return Reference(kind="item", name=match["item"])
    return _typed(match, vocabulary)


def _typed(match: re.Match[str], vocabulary: Vocabulary) -> Reference | None:
    name = match["name"] or match["mention"]
    meant = vocabulary.by_name.get(name.lower(), [])
    arguments, output = match["arguments"], match["output"]
    # A call or a mention of what is not there is prose: “call me (today)”, an address, a handle.
    if not meant and (arguments or match["mention"]):
        return None
    # Unless the tool really has an input of that name.
    if arguments and arguments in _PLURALS and arguments not in _names_of_inputs(meant):
        return None
    if len(meant) != 1:
        return Reference(kind="tool", name=name, is_ambiguous=bool(meant))
    (one,) = meant
    if isinstance(one, KnownAgent):
        if arguments and "{" in arguments:
            return None
        return Reference(kind="agent", target=one.id, name=name)
    if arguments:
        ids = {each.name.lower(): each.id for each in one.inputs}
        members = tuple(
            _typed_input(given or item.strip("{}").removeprefix("item:"), value or item, ids)
            for item, given, value in _GIVEN.findall(arguments)
        )
        return Reference(kind="input", target=one.pin, name=name, members=members)
    if output:
        ids = {each.name.lower(): each.id for each in one.outputs}
        return Reference(
            kind="output", target=one.pin, name=name, members=(Member(ids.get(output.lower(), output)),)
        )
    return Reference(kind="tool", target=one.pin, name=name)


def _typed_input(name: str, value: str, ids: Mapping[str, str]) -> Member:
    return Member(ids.get(name.lower(), name), value.strip("\"'“”").replace("{item:", "{"))


def _names_of_inputs(meant: Iterable[KnownTool | KnownAgent]) -> set[str]:
    return {each.name for tool in meant if isinstance(tool, KnownTool) for each in tool.inputs}


def _shown(reference: Reference, target: int, vocabulary: Vocabulary) -> str:
    if reference.kind == "agent":
        return f"{vocabulary.by_agent[target].name}()"
    tool = vocabulary.by_pin[target]
    if reference.kind == "tool":
        return f"{tool.name}()"
    names = {each.id: each.name for each in (tool.inputs if reference.kind == "input" else tool.outputs)}
    # An id that the version lacks is shown so that it can be typed.
    called = [names.get(each.id, re.sub(r"\W+", "_", each.id)) for each in reference.members]
    if reference.kind == "output":
        return f"{tool.name}().{called[0]}"
    written = [_written(name, each) for name, each in zip(called, reference.members, strict=True)]
    return f"{tool.name}({', '.join(written)})"


def _written(name: str, member: Member) -> str:
    if member.item == name:
        return member.value
    value = member.value if member.item else _quoted(member.value)
    return f"{name}={value}" if member.value else name


def _quoted(value: str) -> str:
    if re.fullmatch(r"[\w.+-]+", value, re.ASCII):
        return value
    return f"“{value}”" if '"' in value else f'"{value}"'


def _stored(reference: Reference, target: int) -> str:
    if reference.kind in ("tool", "agent"):
        return f"{{{reference.kind}:{target}}}"
    members = ",".join(
        quote(each.id, safe="") + (f"={quote(each.value, safe='')}" if each.value else "")
        for each in reference.members
    )
    return f"{{{'in' if reference.kind == 'input' else 'out'}:{target}/{members}}}"
