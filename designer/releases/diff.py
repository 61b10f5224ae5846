"""Compare two releases: agents, tools and members. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from msgspec import structs

from catalog.rules import retries
from core.content_cache import ContentCache, digest_once
from core.translatable import Wording
from core.translatable import mark as _
from designer.exports.document import (
    ReleaseDocument,
    ReleasedProcedure,
    ReleasedSubAgent,
    ReleasedTool,
    ReleasedTransfer,
)
from designer.procedures.lines import NumberedLine, compare
from designer.signatures.effective import Effective, as_document
from designer.signatures.words import EFFECTS, place_of

Mark = Literal["added", "removed", "changed"]
_SIDES = {
    "inputs": _("Input “{name}”"),
    "hidden": _("Hidden input “{name}”"),
    "outputs": _("Output “{name}”"),
}


@dataclass(frozen=True, slots=True)
class ChangedMember:
    """A member that differs. `steps` is its path in the signature that a model sees: `description`; `inputs`,
    `city`, `description`.

    before, after: None if the member is new, or removed.
    """

    steps: tuple[str, ...]
    before: Any
    after: Any

    @property
    def path(self) -> str:
        return ".".join(self.steps)

    @property
    def place(self) -> str:
        """Return the path in words for a designer."""
        match self.steps:
            case ("inputs", name, "allowed_values", value, "description"):
                return place_of(("parameters", name, "values", value, "description"))
            case ("inputs" | "outputs" as side, name, "description"):
                return place_of(("parameters" if side == "inputs" else side, name, "description"))
            case ("annotations", effect):
                return Wording(EFFECTS.get(effect, _("Reaches systems outside its vendor")))
            case ("inputs" | "hidden" | "outputs" as side, name, *steps_below):
                label = Wording(_SIDES[side], {"name": name})
                member = " ".join(steps_below).replace("_", " ")
                return Wording("{label}, {member}", {"label": label, "member": member}) if member else label
            case (member,):
                return place_of((member.replace("_", " "),))
        return self.path


@dataclass(frozen=True, slots=True)
class ReleasedToolChange:
    """The changes of one tool between two releases. `name` is the newer one. `sentences` are for people, and
    empty for an added or removed tool.
    """

    mark: Mark
    tool: int
    name: str
    sentences: list[str] = field(default_factory=list)
    members: list[ChangedMember] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProcedureChange:
    """The change of one procedure between two releases. `title` is the newer one. The texts are what a model
    reads; "" if there is none.
    """

    mark: Mark
    slug: str
    title: str
    before: str
    after: str

    @property
    def lines(self) -> list[NumberedLine]:
        return compare(self.before, self.after)


@dataclass(frozen=True, slots=True)
class TransferChange:
    """The change of one transfer between two releases. agent: the slug of the sub-agent. name: the newer
    one. members: the changed name and description.
    """

    mark: Mark
    agent: str
    name: str
    members: list[ChangedMember] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AgentDifference:
    """The changes of one agent; all its content if it was added or removed.

    `id` is as in the release, and `context` are prompts and resources.
    """

    mark: Mark
    id: int
    slug: str
    name: str
    agent: list[ChangedMember]
    tools: list[ReleasedToolChange]
    procedures: list[ProcedureChange]
    transfers: list[TransferChange]
    context: list[ReleasedToolChange]

    @property
    def count(self) -> int:
        parts = (self.agent, self.tools, self.procedures, self.transfers, self.context)
        return sum(len(part) for part in parts)


@dataclass(frozen=True, slots=True)
class TreeChange:
    """The changes of the agent itself and of its sub-agents, removed ones first."""

    own: AgentDifference
    agents: list[AgentDifference]

    @property
    def count(self) -> int:
        return self.own.count + sum(max(change.count, 1) for change in self.agents)


def compare_releases(before: ReleaseDocument | None, after: ReleaseDocument) -> TreeChange:
    """Compare two releases. `before` is None if nothing was released before: then everything is new."""
    root, *sub_agents = after.nodes
    if before is None:
        return TreeChange(_added_agent(root), [_added_agent(node) for node in sub_agents])
    old_root, *old_sub_agents = before.nodes
    old = {node.id: node for node in old_sub_agents}
    new_ids = {node.id for node in sub_agents}
    changes = [
        replace(_between_agents(node, _without_content(node)), mark="removed")
        for node in old_sub_agents
        if node.id not in new_ids
    ]
    for node in sub_agents:
        change = _between_agents(old[node.id], node) if node.id in old else _added_agent(node)
        if change.count or change.mark == "added":
            changes.append(change)
    return TreeChange(_between_agents(old_root, root), changes)


def _between_agents(before: ReleasedSubAgent, after: ReleasedSubAgent) -> AgentDifference:
    return AgentDifference(
        mark="changed",
        id=after.id,
        slug=after.slug,
        name=after.name,
        agent=[
            ChangedMember((name,), getattr(before, name), getattr(after, name))
            for name in ("name", "slug", "description", "parent")
            if getattr(before, name) != getattr(after, name)
        ],
        tools=_between_tools(before.tools, after.tools),
        procedures=_between_procedures(before.procedures, after.procedures),
        transfers=_between_transfers(before.transfers, after.transfers),
        context=_between_tools(before.context, after.context),
    )


def _added_agent(node: ReleasedSubAgent) -> AgentDifference:
    return replace(_between_agents(_without_content(node), node), mark="added")


def _without_content(node: ReleasedSubAgent) -> ReleasedSubAgent:
    return structs.replace(node, tools=(), procedures=(), transfers=(), context=())


def _between_procedures(
    before: tuple[ReleasedProcedure, ...], after: tuple[ReleasedProcedure, ...]
) -> list[ProcedureChange]:
    """Return removed procedures first, then the added and changed ones in the newer release's order."""
    old = {procedure.slug: procedure for procedure in before}
    new = {procedure.slug: procedure for procedure in after}
    changes = [
        ProcedureChange("removed", s, old_procedure.title, old_procedure.text, "")
        for s, old_procedure in old.items()
        if s not in new
    ]
    for slug, new_procedure in new.items():
        old_procedure = old.get(slug)
        if old_procedure is None:
            changes.append(ProcedureChange("added", slug, new_procedure.title, "", new_procedure.text))
        elif (old_procedure.title, old_procedure.text) != (new_procedure.title, new_procedure.text):
            changes.append(
                ProcedureChange("changed", slug, new_procedure.title, old_procedure.text, new_procedure.text)
            )
    return changes


def _between_tools(
    before: tuple[ReleasedTool, ...], after: tuple[ReleasedTool, ...]
) -> list[ReleasedToolChange]:
    """Return removed tools, then added, then changed ones; each group by name."""
    old = {tool.id: tool for tool in before}
    new = {tool.id: tool for tool in after}
    removed = [
        ReleasedToolChange("removed", pk, tool.signature.name) for pk, tool in old.items() if pk not in new
    ]
    added = [
        ReleasedToolChange("added", pk, tool.signature.name) for pk, tool in new.items() if pk not in old
    ]
    changed = []
    for pk, tool in new.items():
        if pk in old and old[pk] != tool:
            members = _changed_members(old[pk].signature, tool.signature)
            sentences = list(_describe_change(old[pk], tool, members))
            changed.append(ReleasedToolChange("changed", pk, tool.signature.name, sentences, members))
    return [*removed, *added, *changed]


def _between_transfers(
    before: tuple[ReleasedTransfer, ...], after: tuple[ReleasedTransfer, ...]
) -> list[TransferChange]:
    """Return the changes of transfers, matched by their sub-agent."""
    old = {transfer.agent: transfer for transfer in before}
    new = {transfer.agent: transfer for transfer in after}
    changes = [
        TransferChange("removed", slug, old_transfer.name)
        for slug, old_transfer in old.items()
        if slug not in new
    ]
    for slug, new_transfer in new.items():
        old_transfer = old.get(slug)
        if old_transfer is None:
            changes.append(TransferChange("added", slug, new_transfer.name))
        elif old_transfer != new_transfer:
            text_pairs = (
                ("name", old_transfer.name, new_transfer.name),
                ("description", old_transfer.description, new_transfer.description),
            )
            members = [
                ChangedMember((name,), old_text, new_text)
                for name, old_text, new_text in text_pairs
                if old_text != new_text
            ]
            changes.append(TransferChange("changed", slug, new_transfer.name, members))
    return changes


def _describe_change(old: ReleasedTool, new: ReleasedTool, members: list[ChangedMember]) -> Iterator[str]:
    old_version, new_version = old.version, new.version
    if old_version.label != new_version.label and old_version.label and new_version.label:
        labels = {"before": old_version.label, "after": new_version.label}
        yield Wording(_("Version {before} became version {after}."), labels)
    elif old_version.digest != new_version.digest and new_version.label:
        template = _("Version {label} was changed by its vendor under the same version number.")
        yield Wording(template, {"label": new_version.label})
    elif old_version.digest != new_version.digest:
        yield Wording(_("The vendor's tool has another version."))
    if old.signature.name != new.signature.name:
        yield Wording(_("It was called “{name}”."), {"name": old.signature.name})
    if old.tuning != new.tuning:
        yield Wording(_("Your texts changed."))
    yield from at_run_time(old, new)
    if (old.vendor, old.endpoint, old.protocol) != (new.vendor, new.endpoint, new.protocol):
        yield Wording(_("The endpoint or the protocol of the vendor changed."))
    visible_members = [member for member in members if member.path != "name"]
    if len(visible_members) == 1:
        yield Wording(_("What a model reads differs: {place}."), {"place": visible_members[0].place})
    elif visible_members:
        count = len(visible_members)
        yield Wording(_("What a model reads differs in {count} places."), {"count": count})


def at_run_time(old: ReleasedTool, new: ReleasedTool) -> Iterator[str]:
    """Yield sentences about changes other than texts and the version."""
    if old.retry_policy != new.retry_policy:
        before, after = (retries.sentence(tool.retry_policy) for tool in (old, new))
        values = {"before": before, "after": after}
        yield Wording(_("When it fails: {before} before, {after} now."), values)
    if new.configuration != old.configuration:
        template = _("It does not run as configured by “{name}” any more.")
        if new.configuration:
            template = _("It runs as configured by “{name}” now.")
        yield Wording(template, {"name": new.configuration or old.configuration})
    if new.mode != old.mode:
        template = _("It does not follow its vendor any more: runtimes get it as it was published.")
        if new.follows_vendor:
            template = _("It follows its vendor now: runtimes may get what the vendor adds to it.")
        yield Wording(template)


_members_by_digests: ContentCache[list[ChangedMember]] = ContentCache(size=500)


def _changed_members(old: Effective, new: Effective) -> list[ChangedMember]:
    return _members_by_digests.get(
        (digest_once(old), digest_once(new)),
        lambda: list(_list_changed_members((), as_document(old), as_document(new))),
    )


def _list_changed_members(steps: tuple[str, ...], old: Any, new: Any) -> Iterator[ChangedMember]:
    """Yield the members that differ. Parameters are matched by the vendor's name, in any order."""
    if steps[2:3] != ("preset",):
        old, new = _by_name(old), _by_name(new)
    if old == new:
        return
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield ChangedMember(steps, old, new)
        return
    for name in dict.fromkeys([*old, *new]):
        member_steps = (*steps, str(name))
        if name not in old or name not in new:
            yield ChangedMember(member_steps, old.get(name), new.get(name))
        else:
            yield from _list_changed_members(member_steps, old[name], new[name])


def _by_name(value: Any) -> Any:
    is_named = isinstance(value, list) and all(isinstance(row, dict) and "name" in row for row in value)
    return {row["name"]: row for row in value} if value and is_named else value
