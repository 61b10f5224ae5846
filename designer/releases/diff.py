"""What differs between two releases: agent by agent, tool by tool and member by member. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from msgspec import structs

from catalog.rules import retries
from designer.exports.document import (
    ReleaseDocument,
    ReleasedProcedure,
    ReleasedSubAgent,
    ReleasedTool,
    ReleasedTransfer,
)
from designer.procedures.lines import Line, compare
from designer.signatures.effective import as_document
from designer.signatures.words import EFFECTS, place_of

Mark = Literal["added", "removed", "changed"]
_SIDES = {"inputs": "Input", "hidden": "Hidden input", "outputs": "Output"}


@dataclass(frozen=True, slots=True)
class Member:
    """`steps` lead into the signature that a model is shown: `description`; `inputs`, `city`, `description`.

    `before` is None where the member is new and `after` where it is gone.
    """

    steps: tuple[str, ...]
    before: Any
    after: Any

    @property
    def path(self) -> str:
        return ".".join(self.steps)

    @property
    def place(self) -> str:
        """The same for a designer who knows no path."""
        match self.steps:
            case ("inputs", name, "allowed_values", value, "description"):
                return place_of(("parameters", name, "values", value, "description"))
            case ("inputs" | "outputs" as side, name, "description"):
                return place_of(("parameters" if side == "inputs" else side, name, "description"))
            case ("annotations", effect):
                return EFFECTS.get(effect, "Reaches into the open world")
            case ("inputs" | "hidden" | "outputs" as side, name, *rest):
                which = f"{_SIDES[side]} “{name}”"
                return f"{which}, {' '.join(rest).replace('_', ' ')}" if rest else which
        return self.path.replace("_", " ").capitalize() if len(self.steps) == 1 else self.path


@dataclass(frozen=True, slots=True)
class ToolChange:
    """`name` is the newer one. `sentences` is for people and empty for what was added or removed."""

    mark: Mark
    tool: int
    name: str
    sentences: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProcedureChange:
    """`title` is the newer one. The texts are what a model reads; "" where there is none."""

    mark: Mark
    slug: str
    title: str
    before: str
    after: str

    @property
    def lines(self) -> list[Line]:
        return compare(self.before, self.after)


@dataclass(frozen=True, slots=True)
class TransferChange:
    """`agent` is the slug of the sub-agent, `name` the newer name. `members` are its name and description."""

    mark: Mark
    agent: str
    name: str
    members: list[Member] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AgentChange:
    """What differs in one agent; of one that came or is gone, all that it has.

    `id` is as in the release, and `context` are prompts and resources.
    """

    mark: Mark
    id: int
    slug: str
    name: str
    agent: list[Member]
    tools: list[ToolChange]
    procedures: list[ProcedureChange]
    transfers: list[TransferChange]
    context: list[ToolChange]

    @property
    def count(self) -> int:
        parts = (self.agent, self.tools, self.procedures, self.transfers, self.context)
        return sum(len(part) for part in parts)


@dataclass(frozen=True, slots=True)
class TreeChange:
    """What differs in the agent itself, and in its sub-agents: those that are gone first."""

    own: AgentChange
    agents: list[AgentChange]

    @property
    def count(self) -> int:
        return self.own.count + sum(max(each.count, 1) for each in self.agents)


def between(before: ReleaseDocument | None, after: ReleaseDocument) -> TreeChange:
    """`before` is None for an agent that has released nothing before: all of it is new then."""
    root, *below = after.nodes
    if before is None:
        return TreeChange(_of_new(root), [_of_new(node) for node in below])
    was_root, *was_below = before.nodes
    old = {node.id: node for node in was_below}
    changed = [_of_gone(node) for node in was_below if node.id not in {each.id for each in below}]
    for node in below:
        found = _between_agents(old[node.id], node) if node.id in old else _of_new(node)
        if found.count or found.mark == "added":
            changed.append(found)
    return TreeChange(_between_agents(was_root, root), changed)


def _between_agents(before: ReleasedSubAgent, after: ReleasedSubAgent) -> AgentChange:
    return AgentChange(
        mark="changed",
        id=after.id,
        slug=after.slug,
        name=after.name,
        agent=[
            Member((name,), getattr(before, name), getattr(after, name))
            for name in ("name", "slug", "description", "parent")
            if getattr(before, name) != getattr(after, name)
        ],
        tools=_between_tools(before.tools, after.tools),
        procedures=_between_procedures(before.procedures, after.procedures),
        transfers=_between_transfers(before.transfers, after.transfers),
        context=_between_tools(before.context, after.context),
    )


def _of_new(node: ReleasedSubAgent) -> AgentChange:
    return replace(_between_agents(_emptied(node), node), mark="added")


def _of_gone(node: ReleasedSubAgent) -> AgentChange:
    return replace(_between_agents(node, _emptied(node)), mark="removed")


def _emptied(node: ReleasedSubAgent) -> ReleasedSubAgent:
    return structs.replace(node, tools=(), procedures=(), transfers=(), context=())


def _between_procedures(
    before: tuple[ReleasedProcedure, ...], after: tuple[ReleasedProcedure, ...]
) -> list[ProcedureChange]:
    """First what is gone, then what came or is another than it was, in the order of the newer release."""
    old = {procedure.slug: procedure for procedure in before}
    new = {procedure.slug: procedure for procedure in after}
    found = [ProcedureChange("removed", s, was.title, was.text, "") for s, was in old.items() if s not in new]
    for slug, now in new.items():
        was = old.get(slug)
        if was is None:
            found.append(ProcedureChange("added", slug, now.title, "", now.text))
        elif (was.title, was.text) != (now.title, now.text):
            found.append(ProcedureChange("changed", slug, now.title, was.text, now.text))
    return found


def _between_tools(before: tuple[ReleasedTool, ...], after: tuple[ReleasedTool, ...]) -> list[ToolChange]:
    """First what is gone, then what came, then what is another than it was; each by name."""
    old = {tool.id: tool for tool in before}
    new = {tool.id: tool for tool in after}
    gone = [ToolChange("removed", pk, tool.signature.name) for pk, tool in old.items() if pk not in new]
    came = [ToolChange("added", pk, tool.signature.name) for pk, tool in new.items() if pk not in old]
    changed = []
    for pk, tool in new.items():
        if pk in old and old[pk] != tool:
            members = list(_members((), as_document(old[pk].signature), as_document(tool.signature)))
            sentences = list(_sentences(old[pk], tool, members))
            changed.append(ToolChange("changed", pk, tool.signature.name, sentences, members))
    return [*gone, *came, *changed]


def _between_transfers(
    before: tuple[ReleasedTransfer, ...], after: tuple[ReleasedTransfer, ...]
) -> list[TransferChange]:
    """Each by the sub-agent that it leads to."""
    old = {transfer.agent: transfer for transfer in before}
    new = {transfer.agent: transfer for transfer in after}
    found = [TransferChange("removed", slug, was.name) for slug, was in old.items() if slug not in new]
    for slug, now in new.items():
        was = old.get(slug)
        if was is None:
            found.append(TransferChange("added", slug, now.name))
        elif was != now:
            both = (("name", was.name, now.name), ("description", was.description, now.description))
            members = [Member((name,), one, other) for name, one, other in both if one != other]
            found.append(TransferChange("changed", slug, now.name, members))
    return found


def _sentences(old: ReleasedTool, new: ReleasedTool, members: list[Member]) -> Iterator[str]:
    was, now = old.version, new.version
    if was.label != now.label and was.label and now.label:
        yield f"Version {was.label} became version {now.label}."
    elif was.digest != now.digest and now.label:
        yield f"Version {now.label} is as its vendor rewrote it."
    elif was.digest != now.digest:
        yield "It is another version of its vendor's tool."
    if old.signature.name != new.signature.name:
        yield f"It was called “{old.signature.name}”."
    if old.tuning != new.tuning:
        yield "Our words changed."
    yield from at_run_time(old, new)
    if (old.vendor, old.endpoint, old.protocol) != (new.vendor, new.endpoint, new.protocol):
        yield "Its vendor is reached in another way."
    shown = [member for member in members if member.path != "name"]
    if len(shown) == 1:
        yield f"What a model reads differs: {shown[0].place}."
    elif shown:
        yield f"What a model reads differs in {len(shown)} places."


def at_run_time(old: ReleasedTool, new: ReleasedTool) -> Iterator[str]:
    """What differs beside the words and the version: sentences for people."""
    if old.retry_policy != new.retry_policy:
        before, after = (retries.sentence(tool.retry_policy) for tool in (old, new))
        yield f"When it fails: {before} before, {after} now."
    if new.configuration != old.configuration:
        chosen = f"It runs as configured by “{new.configuration}” now." if new.configuration else ""
        yield chosen or f"It does not run as configured by “{old.configuration}” any more."
    if new.mode != old.mode:
        yield (
            "It follows its vendor now: a runtime may be shown what the vendor adds to it."
            if new.follows_vendor
            else "It does not follow its vendor any more: a runtime is shown it as it was published."
        )


def _members(steps: tuple[str, ...], old: Any, new: Any) -> Iterator[Member]:
    """Down to the members that differ. Parameters go by the vendor's name, whatever their order."""
    old, new = _by_name(old), _by_name(new)
    if old == new:
        return
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield Member(steps, old, new)
        return
    for name in dict.fromkeys([*old, *new]):
        below = (*steps, str(name))
        if name not in old or name not in new:
            yield Member(below, old.get(name), new.get(name))
        else:
            yield from _members(below, old[name], new[name])


def _by_name(value: Any) -> Any:
    is_named = isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value)
    return {each["name"]: each for each in value} if value and is_named else value
