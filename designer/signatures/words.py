"""Tuned texts of a tool by member, independent of their storage, so that layers can be merged. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from core.translatable import Wording
from core.translatable import mark as _
from designer.signatures import model_names, text_merge
from protocols.signature import Signature

Path = tuple[str, ...]
# As pages name them.
EFFECTS = {
    "read_only": _("Only reads"),
    "destructive": _("May destroy"),
    "idempotent": _("Can be repeated"),
}
_TEXTS = {"title": _("Title"), "description": _("Description"), "name": _("Name")}


class ValueWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tuned texts of one allowed value."""

    description: str | None = None
    hidden: bool | None = None


class ParameterWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tuned texts of one input. None and UNSET inherit. `name` is the name for the model."""

    name: str | None = None
    description: str | None = None
    hidden: bool | None = None
    preset: Any = UNSET
    values: dict[str, ValueWords] = {}


class OutputWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    description: str | None = None
    hidden: bool | None = None


class EffectWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tuned statements about a call's effects, in addition to the vendor's."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None


class Words(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tuning. `parameters` and `outputs` use the vendor's names."""

    title: str | None = None
    description: str | None = None
    parameters: dict[str, ParameterWords] = {}
    outputs: dict[str, OutputWords] = {}
    effects: EffectWords | None = None

    def all_members(self) -> Iterator[tuple[Path, Any]]:
        yield ("title",), self.title
        yield ("description",), self.description
        for name, input_words in self.parameters.items():
            path = ("parameters", name)
            yield (*path, "name"), input_words.name
            yield (*path, "description"), input_words.description
            yield (*path, "hidden"), input_words.hidden
            if input_words.preset is not UNSET:
                yield (*path, "preset"), input_words.preset
            for value, value_words in input_words.values.items():
                yield (*path, "values", value, "description"), value_words.description
                yield (*path, "values", value, "hidden"), value_words.hidden
        for name, output_words in self.outputs.items():
            yield ("outputs", name, "description"), output_words.description
            yield ("outputs", name, "hidden"), output_words.hidden
        for effect in EFFECTS:
            yield ("effects", effect), getattr(self.effects, effect, None)


NOTHING = Words()


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """A tuned text whose vendor text has changed since it was written."""

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
        """Return the tuned text with the vendor's change; None if both changed the same position."""
        if not all(isinstance(text, str) for text in (self.then, self.now, self.ours)):
            return None
        return text_merge.merge_texts(self.then, self.ours, self.now)


def members(words: Words) -> dict[Path, Any]:
    """Return all stated members by path."""
    return {path: value for path, value in words.all_members() if value is not None or path[-1] == "preset"}


def place_of(path: Path) -> str:
    """Return the label of a text or an effect, for a designer."""
    match path:
        case ("effects", effect):
            return Wording(EFFECTS[effect])
        case ("parameters", name, "values", value, _member):
            return Wording(_("What “{value}” of “{name}” means"), {"value": value, "name": name})
        case ("parameters", name, _member):
            return Wording(_("Description of the input “{name}”"), {"name": name})
        case ("outputs", name, _member):
            return Wording(_("Description of the output “{name}”"), {"name": name})
        case (*_above, member) if member in _TEXTS:
            return Wording(_TEXTS[member])
    return path[-1].capitalize()


def from_members(texts: Mapping[Path, Any]) -> Words:
    nested: dict[str, Any] = {}
    for path, value in texts.items():
        place = nested
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = value
    return msgspec.convert(nested, Words)


def merge_words(below: Words, above: Words) -> Words:
    """Merge two tunings. `above` takes precedence, member by member."""
    return from_members(members(below) | members(above))


def of_vendor(signature: Signature) -> dict[Path, Any]:
    """Return the vendor's values at every member of this version.

    An input's name is the legal name derived from the vendor's; an effect is None if not stated.
    """
    values: dict[Path, Any] = {("title",): signature.title, ("description",): signature.description}
    aliases = model_names.aliases(parameter.name for parameter in signature.inputs)
    for parameter in signature.inputs:
        path = ("parameters", parameter.name)
        values |= {
            (*path, "name"): aliases[parameter.name],
            (*path, "description"): parameter.description,
            (*path, "hidden"): False,
            (*path, "preset"): UNSET,
        }
        for value in parameter.allowed_values:
            values[*path, "values", value.name, "description"] = value.description
            values[*path, "values", value.name, "hidden"] = False
    for output in signature.outputs:
        values["outputs", output.name, "description"] = output.description
        values["outputs", output.name, "hidden"] = False
    return values | {("effects", effect): getattr(signature.annotations, effect) for effect in EFFECTS}


def has_vendor_text(path: Path) -> bool:
    """Return whether the vendor's value is stored with the tuned one, to report when it changes."""
    return path[-1] in ("title", "description") or path[0] == "effects"


def stale(words: Words, replaced: Words, signature: Signature) -> list[Stale]:
    """Return tuned texts whose vendor text changed. `replaced`: the vendor's texts when they were written.
    Members without such a text, or without a counterpart in this version, are not stale.
    """
    then, now = members(replaced), of_vendor(signature)
    result = []
    for path, tuned in members(words).items():
        if not has_vendor_text(path) or path not in now:
            continue
        # An effect that the vendor did not state then is not stored.
        if path not in then and path[0] != "effects":
            continue
        if then.get(path) != now[path]:
            result.append(Stale(path=path, then=then.get(path), now=now[path], ours=tuned))
    return result


def less_cautious(words: Words, signature: Signature) -> list[str]:
    """Return a sentence for each effect that the tuning states less cautiously than the vendor."""
    tuned, vendor_statement = words.effects or EffectWords(), signature.annotations
    sentences: list[str] = []
    if tuned.read_only and (vendor_statement.read_only is False or vendor_statement.destructive):
        template = (
            _("You state that it only reads. The vendor says that it may destroy something.")
            if vendor_statement.destructive
            else _("You state that it only reads. The vendor says that it changes something.")
        )
        sentences.append(Wording(template))
    if tuned.destructive is False and vendor_statement.destructive:
        template = _(
            "You state that it destroys nothing. The vendor says that it may, so calls are still confirmed."
        )
        sentences.append(Wording(template))
    if tuned.idempotent and vendor_statement.idempotent is False:
        template = _("You state that it may be called twice. The vendor says that each call counts.")
        sentences.append(Wording(template))
    return sentences
