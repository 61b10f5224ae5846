"""One classified difference, and the table of the class of each effect."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from catalog.rules.diff import sentences
from core.translatable import Wording

Class = Literal["none", "compatible", "notice", "breaking"]
Effect = Literal["breaks_callers", "breaks_readers", "widens_risk", "compatible", "text", "cosmetic"]
Kind = Literal[
    "added",
    "removed",
    "renamed",
    "retyped",
    "required",
    "optional",
    "widened",
    "narrowed",
    "text",
    "changed",
    "reordered",
]
Side = Literal["inputs", "outputs"]

CLASSES: tuple[Class, ...] = ("none", "compatible", "notice", "breaking")
EFFECTS: tuple[Effect, ...] = (
    "breaks_callers",
    "breaks_readers",
    "widens_risk",
    "compatible",
    "text",
    "cosmetic",
)

SAFE: tuple[Effect, ...] = ("compatible", "text", "cosmetic")

# The class of each effect, and the kinds that have another class.
_CLASS_OF: dict[Effect, tuple[Class, dict[Kind, Class]]] = {
    "breaks_callers": ("breaking", {}),
    "breaks_readers": ("breaking", {}),
    # A call that suddenly needs a permission also fails where it worked.
    "widens_risk": ("notice", {"narrowed": "breaking"}),
    "compatible": ("notice", {"added": "compatible"}),
    "text": ("notice", {}),
    "cosmetic": ("notice", {}),
}

# Arguments have to fit the new signature, and outputs have to fit the old one. Whether values still fit a
# `changed` rule is undecided.
_EFFECT_OF: dict[Side, dict[Kind, Effect]] = {
    "inputs": {
        "added": "compatible",
        "removed": "breaks_callers",
        "renamed": "breaks_callers",
        "retyped": "breaks_callers",
        "required": "breaks_callers",
        "optional": "compatible",
        "widened": "compatible",
        "narrowed": "breaks_callers",
        "text": "text",
        "changed": "widens_risk",
        "reordered": "cosmetic",
    },
    "outputs": {
        "added": "compatible",
        "removed": "breaks_readers",
        "renamed": "breaks_readers",
        "retyped": "breaks_readers",
        "required": "compatible",
        "optional": "breaks_readers",
        "widened": "compatible",
        "narrowed": "compatible",
        "text": "text",
        "changed": "widens_risk",
        "reordered": "cosmetic",
    },
}


class Change(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """One difference. `path` is its path by parameter name (`inputs/city/max`), escaped as a JSON Pointer.

    `effect` names those concerned, `class` the risk. An undecided change counts as one that widens the risk:
    it is accepted for a call only after a user has compared the two.
    """

    path: str
    kind: Kind
    effect: Effect
    class_: Class
    before: Any = None
    after: Any = None

    @property
    def is_undecided(self) -> bool:
        # Annotations and requirements state their change; a user has to compare any other rule.
        return self.effect == "widens_risk" and not self.path.startswith(("annotations/", "requirements/"))

    @property
    def ends_confirmation(self) -> bool:
        """Return whether users no longer have to confirm calls because the vendor withdrew “destructive”."""
        return self.path == "annotations/destructive" and self.before is True

    @property
    def sentence(self) -> str:
        return str(self.wording)

    @property
    def wording(self) -> Wording:
        """The sentence with its values, so that pages can translate it."""
        return sentences.wording_of(self.path, self.kind, self.effect, self.before, self.after)


def change(path: Iterable[str], kind: Kind, effect: Effect, before: object, after: object) -> Change:
    usual, otherwise = _CLASS_OF[effect]
    return Change(sentences.join_path(path), kind, effect, otherwise.get(kind, usual), before, after)


def member_change(side: Side, path: Iterable[str], kind: Kind, before: object, after: object) -> Change:
    """Return the change of an input or output whose effect follows from its kind."""
    return change(path, kind, _EFFECT_OF[side][kind], before, after)


def as_undecided(one: Change) -> Change:
    return msgspec.structs.replace(one, kind="changed", effect="widens_risk", class_="notice")
