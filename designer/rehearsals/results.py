"""What a judge chose, whether that is what was expected, and what is otherwise than it was. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence to judge. `expected` is the name that a model is shown, empty where the agent does not
    show that tool any more: `lost` is what it was."""

    id: int
    says: str
    expected: str
    inputs: Mapping[str, Any] = {}
    lost: str = ""

    def why_not(self, chosen: str, *, none: str) -> str:
        """Why it is not answered as expected: empty where the expected tool is chosen, and `none` where no
        tool is."""
        if not self.expected:
            return f"The agent does not show “{self.lost}” any more."
        if chosen == self.expected:
            return ""
        return f"“{chosen}” was chosen." if chosen else none


class InputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    expected: Any
    right: bool
    message: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one sentence. `chosen` is empty where no tool was chosen; `choices` counts the tries
    that chose each. `margin`, from -1 to 1, is how far what was expected leads the best other one.
    """

    rehearsal: int
    says: str
    expected: str
    chosen: str
    margin: float
    choices: Mapping[str, int]
    inputs: tuple[InputAnswer, ...] = ()
    message: str = ""
    # Why some of the tries, or all of them, came to nothing; empty where each was answered.
    failed: str = ""

    @property
    def tries(self) -> int:
        return sum(self.choices.values())

    @property
    def right(self) -> bool:
        is_chosen = bool(self.expected) and self.chosen == self.expected
        return is_chosen and all(each.right for each in self.inputs)

    @property
    def spread(self) -> list[tuple[str, int]]:
        """What the tries chose, the most frequent first, where they did not agree."""
        if len(self.choices) < 2:
            return []
        return sorted(self.choices.items(), key=lambda item: (-item[1], item[0]))


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that was judged otherwise before; `better` says that it is answered as expected now."""

    says: str
    expected: str
    chosen: str
    before: str
    better: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """How many of the sentences were answered as expected."""

    right: int
    total: int

    def __str__(self) -> str:
        return f"{self.right} of {self.total}"


def figure(answers: Sequence[Answer]) -> Figure:
    return Figure(sum(each.right for each in answers), len(answers))


def flips(now: Iterable[Answer], before: Iterable[Answer]) -> list[Flip]:
    """Those that are worse first. A sentence whose words or expectation were edited is another one."""
    was = {(each.rehearsal, each.says): each for each in before}
    found = []
    for each in now:
        old = was.get((each.rehearsal, each.says))
        if old and old.right != each.right:
            found.append(
                Flip(
                    says=each.says,
                    expected=each.expected,
                    chosen=each.chosen,
                    before=old.chosen,
                    better=each.right,
                )
            )
    return sorted(found, key=lambda flip: flip.better)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the rehearsals of one agent of a draft came to, beside those of the release it is compared with.

    `now` is None where `missing` says why there is no figure. `before` is None where that release holds no
    such agent, or there is none; else `against` is its number. `gate` and what it goes by are as in
    `designer.models.RehearsalPlan`; `where` is the page of the rehearsals.
    """

    agent: str
    judge: str
    where: str
    gate: str
    at_least: int | None = None
    on_flips: bool = True
    now: Figure | None = None
    before: Figure | None = None
    against: int | None = None
    flips: tuple[Flip, ...] = ()
    missing: str = ""

    @property
    def worse(self) -> list[Flip]:
        return [flip for flip in self.flips if not flip.better]


def gate(
    now: Figure, flipped: Sequence[Flip], *, at_least: int | None, on_flips: bool
) -> Literal["open", "flipped", "below"]:
    """Whether the gate of an agent stands open. More than all of the sentences cannot be asked."""
    if at_least is not None and now.right < min(at_least, now.total):
        return "below"
    if on_flips and any(not each.better for each in flipped):
        return "flipped"
    return "open"
