"""One classified difference, and the one table from what it does to how loudly it is said."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from catalog.rules.diff import sentences

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

# What every effect is said as, and the kinds that are said otherwise.
_CLASS_OF: dict[Effect, tuple[Class, dict[Kind, Class]]] = {
    "breaks_callers": ("breaking", {}),
    "breaks_readers": ("breaking", {}),
    # A call that suddenly needs a permission also fails where it worked.
    "widens_risk": ("notice", {"narrowed": "breaking"}),
    "compatible": ("notice", {"added": "compatible"}),
    "text": ("notice", {}),
    "cosmetic": ("notice", {}),
}

# What callers send has to fit the new signature, and what comes back has to fit the old one.
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
        "reordered": "cosmetic",
    },
}


class Change(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """One difference. `path` leads to it by parameter name (`inputs/city/max`), escaped as a JSON Pointer.

    `effect` says whom it concerns, `class` how much. What cannot be decided widens the risk: it holds
    for a call only after a person has compared the two.
    """

    path: str
    kind: Kind
    effect: Effect
    class_: Class
    before: Any = None
    after: Any = None

    @property
    def is_undecided(self) -> bool:
        # Annotations and requirements tell plainly what changed; any other rule a person has to compare.
        return self.effect == "widens_risk" and not self.path.startswith(("annotations/", "requirements/"))

    @property
    def ends_confirmation(self) -> bool:
        """Whether a person no longer has to confirm calls because the vendor took “destructive” back."""
        return self.path == "annotations/destructive" and self.before is True

    @property
    def sentence(self) -> str:
        return sentences.sentence(self.path, self.kind, self.effect, self.before, self.after)


def change(path: Iterable[str], kind: Kind, effect: Effect, before: object, after: object) -> Change:
    usual, otherwise = _CLASS_OF[effect]
    return Change(sentences.joined(path), kind, effect, otherwise.get(kind, usual), before, after)


def member_change(side: Side, path: Iterable[str], kind: Kind, before: object, after: object) -> Change:
    """A change of an input or output whose kind alone says what it does."""
    return change(path, kind, _EFFECT_OF[side][kind], before, after)


def undecided(one: Change) -> Change:
    return msgspec.structs.replace(one, kind="changed", effect="widens_risk", class_="notice")
