"""Compare the tools that a judge chose with the expected tools and with an earlier run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from core.translatable import Wording
from core.translatable import mark as _


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence for the judge.

    expected: the tool name that a model sees, "" if the agent no longer shows that tool.
    lost: the name of the expected tool, which the agent no longer has.
    """

    id: int
    says: str
    expected: str
    inputs: Mapping[str, Any] = {}
    lost: str = ""

    def explain_miss(self, tool_name: str, *, none: str) -> str:
        """Return why the answer is not as expected: "" if the tool is right, `none` if no tool is chosen."""
        if not self.expected:
            return f"The agent no longer has “{self.lost}”."
        if tool_name == self.expected:
            return ""
        return f"The model chose “{tool_name}”." if tool_name else none


class InputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    expected: Any
    right: bool
    message: str = ""


class SentenceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one sentence.

    chosen: "" if no tool was chosen.
    choices: the number of tries per tool.
    margin: from -1 to 1, the lead of the expected tool over the best other one.
    """

    rehearsal: int
    says: str
    expected: str
    chosen: str
    margin: float
    choices: Mapping[str, int]
    inputs: tuple[InputAnswer, ...] = ()
    message: str = ""
    # Why some or all of the tries failed; "" if every try was answered.
    failed: str = ""

    @property
    def tries(self) -> int:
        return sum(self.choices.values())

    @property
    def right(self) -> bool:
        is_chosen = bool(self.expected) and self.chosen == self.expected
        return is_chosen and all(answer.right for answer in self.inputs)

    @property
    def spread(self) -> list[tuple[str, int]]:
        """Return the chosen tools, the most frequent first, if the tries disagree."""
        if len(self.choices) < 2:
            return []
        return sorted(self.choices.items(), key=lambda item: (-item[1], item[0]))


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence whose result changed since the earlier run. `better`: the answer is as expected now."""

    says: str
    expected: str
    chosen: str
    before: str
    better: bool

    @property
    def sentence(self) -> Wording:
        if self.chosen == self.expected:
            template = _("“{says}”: the inputs differ from those expected.")
        elif self.chosen and self.expected:
            template = _("“{says}”: “{chosen}” is chosen in place of “{expected}”.")
        elif self.chosen:
            template = _("“{says}”: “{chosen}” is chosen, because the expected tool was removed.")
        else:
            template = _("“{says}”: no tool is chosen in place of “{expected}”.")
        return Wording(template, {"says": self.says, "chosen": self.chosen, "expected": self.expected})


@dataclass(frozen=True, slots=True)
class Figure:
    """The number of sentences that were answered as expected."""

    right: int
    total: int

    @property
    def wording(self) -> Wording:
        return Wording(_("{right} of {total}"), {"right": self.right, "total": self.total})

    def __str__(self) -> str:
        return str(self.wording)


def figure(answers: Sequence[SentenceResult]) -> Figure:
    return Figure(sum(answer.right for answer in answers), len(answers))


def flips(now: Iterable[SentenceResult], before: Iterable[SentenceResult]) -> list[Flip]:
    """Return the changed results, the worse ones first. A sentence whose text was edited counts as new."""
    earlier = {(answer.rehearsal, answer.says): answer for answer in before}
    changes = []
    for answer in now:
        old = earlier.get((answer.rehearsal, answer.says))
        if old and old.right != answer.right:
            changes.append(
                Flip(
                    says=answer.says,
                    expected=answer.expected,
                    chosen=answer.chosen,
                    before=old.chosen,
                    better=answer.right,
                )
            )
    return sorted(changes, key=lambda flip: flip.better)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalComparison:
    """The tests of one agent of a draft, compared with those of a release.

    now: None if `missing` states why there is no figure.
    before: None if the release has no such agent, or there is no release; otherwise `against` is its number.
    gate, at_least, on_flips: as in `designer.models.RehearsalPlan`.
    where: the page of the tests.
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
    now: Figure, changes: Sequence[Flip], *, at_least: int | None, on_flips: bool
) -> Literal["open", "flipped", "below"]:
    """Return whether the gate is open, or the reason why not. `at_least` never exceeds the number of
    sentences.
    """
    if at_least is not None and now.right < min(at_least, now.total):
        return "below"
    if on_flips and any(not change.better for change in changes):
        return "flipped"
    return "open"
