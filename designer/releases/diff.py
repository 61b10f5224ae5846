"""What differs between two releases of an agent, tool by tool and member by member. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.procedures.lines import Line, compare
from designer.signatures.effective import as_document

Mark = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Member:
    """`path` leads into the signature that a model is shown: `description`, `inputs.city.description`.

    `before` is None where the member is new and `after` where it is gone.
    """

    path: str
    before: Any
    after: Any


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


def between_procedures(before: ReleaseDocument, after: ReleaseDocument) -> list[ProcedureChange]:
    """First what is gone, then what came or is another than it was, in the order of the newer release."""
    old = {procedure.slug: procedure for procedure in before.procedures}
    new = {procedure.slug: procedure for procedure in after.procedures}
    found = [ProcedureChange("removed", s, was.title, was.text, "") for s, was in old.items() if s not in new]
    for slug, now in new.items():
        was = old.get(slug)
        if was is None:
            found.append(ProcedureChange("added", slug, now.title, "", now.text))
        elif (was.title, was.text) != (now.title, now.text):
            found.append(ProcedureChange("changed", slug, now.title, was.text, now.text))
    return found


def between(before: ReleaseDocument, after: ReleaseDocument) -> list[ToolChange]:
    """First what is gone, then what came, then what is another than it was; each by name."""
    old = {tool.id: tool for tool in before.tools}
    new = {tool.id: tool for tool in after.tools}
    gone = [ToolChange("removed", pk, tool.signature.name) for pk, tool in old.items() if pk not in new]
    came = [ToolChange("added", pk, tool.signature.name) for pk, tool in new.items() if pk not in old]
    changed = []
    for pk, tool in new.items():
        if pk in old and old[pk] != tool:
            members = list(_members("", as_document(old[pk].signature), as_document(tool.signature)))
            sentences = list(_sentences(old[pk], tool, members))
            changed.append(ToolChange("changed", pk, tool.signature.name, sentences, members))
    return [*gone, *came, *changed]


def all_new(document: ReleaseDocument) -> list[ToolChange]:
    """The same for an agent that has released nothing before."""
    return [ToolChange("added", tool.id, tool.signature.name) for tool in document.tools]


def about_agent(before: ReleaseDocument, after: ReleaseDocument) -> list[Member]:
    # The agent's own name, address and description.
    old, new = before.agent, after.agent
    return [
        Member(name, getattr(old, name), getattr(new, name))
        for name in ("name", "slug", "description")
        if getattr(old, name) != getattr(new, name)
    ]


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
    if (old.vendor, old.endpoint, old.protocol) != (new.vendor, new.endpoint, new.protocol):
        yield "Its vendor is reached in another way."
    shown = [member for member in members if member.path != "name"]
    if len(shown) == 1:
        yield f"What a model reads differs in {shown[0].path}."
    elif shown:
        yield f"What a model reads differs in {len(shown)} places."


def _members(path: str, old: Any, new: Any) -> Iterator[Member]:
    """Down to the members that differ. Parameters go by the vendor's name, whatever their order."""
    old, new = _by_name(old), _by_name(new)
    if old == new:
        return
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield Member(path, old, new)
        return
    for name in dict.fromkeys([*old, *new]):
        below = f"{path}.{name}" if path else str(name)
        if name not in old or name not in new:
            yield Member(below, old.get(name), new.get(name))
        else:
            yield from _members(below, old[name], new[name])


def _by_name(value: Any) -> Any:
    is_named = isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value)
    return {each["name"]: each for each in value} if value and is_named else value
