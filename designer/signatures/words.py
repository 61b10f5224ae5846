"""Our words about a tool, without where they are kept; by member, so that layers lie above each other.

A member is named by its path: ("parameters", "city", "description"). Names in paths are the vendor's. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from designer.signatures import model_names, text_merge
from protocols.signature import Signature

Path = tuple[str, ...]
# As a page names them.
EFFECTS = {"read_only": "Only reads", "destructive": "May destroy", "idempotent": "Can be repeated"}


class ValueWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Our words about one of the values that an input takes."""

    description: str | None = None
    hidden: bool | None = None


class ParameterWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Our words about one input. None and UNSET leave it as it was inherited. `name` is the model's."""

    name: str | None = None
    description: str | None = None
    hidden: bool | None = None
    preset: Any = UNSET
    values: dict[str, ValueWords] = {}


class OutputWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    description: str | None = None
    hidden: bool | None = None


class EffectWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Our own statement about what a call does, beside the vendor's."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None


class Words(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tuning. `parameters` and `outputs` go by the vendor's names."""

    title: str | None = None
    description: str | None = None
    parameters: dict[str, ParameterWords] = {}
    outputs: dict[str, OutputWords] = {}
    effects: EffectWords | None = None


NOTHING = Words()


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """Words of ours whose vendor's text is no longer the one that they were written against."""

    path: Path
    then: Any
    now: Any
    ours: Any

    @property
    def member(self) -> str:
        return ".".join(self.path)

    @property
    def place(self) -> str:
        return place_of(self.path)

    @property
    def merged(self) -> str | None:
        """The vendor's change in our text; None where both changed the same place."""
        if not all(isinstance(text, str) for text in (self.then, self.now, self.ours)):
            return None
        return text_merge.merged(self.then, self.ours, self.now)


def members(words: Words) -> dict[Path, Any]:
    """All that is said, one by one."""
    return {path: value for path, value in _every(words) if value is not None or path[-1] == "preset"}


def _every(words: Words) -> Iterator[tuple[Path, Any]]:
    yield ("title",), words.title
    yield ("description",), words.description
    for name, ours in words.parameters.items():
        at = ("parameters", name)
        yield (*at, "name"), ours.name
        yield (*at, "description"), ours.description
        yield (*at, "hidden"), ours.hidden
        if ours.preset is not UNSET:
            yield (*at, "preset"), ours.preset
        for value, said in ours.values.items():
            yield (*at, "values", value, "description"), said.description
            yield (*at, "values", value, "hidden"), said.hidden
    for name, about in words.outputs.items():
        yield ("outputs", name, "description"), about.description
        yield ("outputs", name, "hidden"), about.hidden
    for effect in EFFECTS:
        yield ("effects", effect), getattr(words.effects, effect, None)


def place_of(path: Path) -> str:
    """Where a text or a statement about an effect stands, for a designer who knows no path."""
    match path:
        case ("effects", effect):
            return EFFECTS[effect]
        case ("parameters", name, "values", value, _):
            return f"What “{value}” of “{name}” means"
        case ("parameters" | "outputs" as kind, name, _):
            return f"Description of the {'input' if kind == 'parameters' else 'output'} “{name}”"
    return path[-1].capitalize()


def from_members(said: Mapping[Path, Any]) -> Words:
    nested: dict[str, Any] = {}
    for path, value in said.items():
        place = nested
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = value
    return msgspec.convert(nested, Words)


def merged(below: Words, above: Words) -> Words:
    """`above` goes first, member by member."""
    return from_members(members(below) | members(above))


def of_vendor(signature: Signature) -> dict[Path, Any]:
    """What counts where we say nothing, at every member that this version has.

    An input goes by the legal name that is derived from the vendor's; an effect may be None: not said.
    """
    said: dict[Path, Any] = {("title",): signature.title, ("description",): signature.description}
    aliases = model_names.aliases(parameter.name for parameter in signature.inputs)
    for parameter in signature.inputs:
        at = ("parameters", parameter.name)
        said |= {
            (*at, "name"): aliases[parameter.name],
            (*at, "description"): parameter.description,
            (*at, "hidden"): False,
            (*at, "preset"): UNSET,
        }
        for value in parameter.allowed_values:
            said[*at, "values", value.name, "description"] = value.description
            said[*at, "values", value.name, "hidden"] = False
    for output in signature.outputs:
        said["outputs", output.name, "description"] = output.description
        said["outputs", output.name, "hidden"] = False
    return said | {("effects", effect): getattr(signature.annotations, effect) for effect in EFFECTS}


def stands_for_a_text(path: Path) -> bool:
    """Whether what the vendor says there is kept beside ours, to be told when it changes."""
    return path[-1] in ("title", "description") or path[0] == "effects"


def stale(words: Words, replaced: Words, signature: Signature) -> list[Stale]:
    """`replaced` is what the vendor said when the words were written. What is not known of then, and what
    this version has no place for, is not stale."""
    then, now = members(replaced), of_vendor(signature)
    found = []
    for path, ours in members(words).items():
        if not stands_for_a_text(path) or path not in now:
            continue
        # An effect that the vendor did not state then is kept as nothing at all.
        if path not in then and path[0] != "effects":
            continue
        if then.get(path) != now[path]:
            found.append(Stale(path=path, then=then.get(path), now=now[path], ours=ours))
    return found


def less_cautious(words: Words, signature: Signature) -> list[str]:
    """A sentence for each effect that we state less cautiously than the vendor does."""
    ours, theirs = words.effects or EffectWords(), signature.annotations
    found = []
    if ours.read_only and (theirs.read_only is False or theirs.destructive):
        claim = "may destroy something" if theirs.destructive else "changes something"
        found.append(f"You state that it only reads. The vendor says that it {claim}.")
    if ours.destructive is False and theirs.destructive:
        found.append(
            "You state that it destroys nothing. The vendor says that it may, so calls are still confirmed."
        )
    if ours.idempotent and theirs.idempotent is False:
        found.append("You state that it may be called twice. The vendor says that each call counts.")
    return found
