"""What must be true of the calls that an agent has made of its mocks. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

MAX_ASSERTIONS = 50
MAX_NAME_LENGTH = 200
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]


@dataclass(frozen=True)
class Made:
    """One call as the log has it, by the name that the agent has for its tool."""

    id: int
    tool: str
    outcome: str


@dataclass(frozen=True)
class Verdict:
    """`calls` are those that show it: what is wrong, or what made it so.

    is_exercised: calls were made that could have broken the rule; one that holds without them proves nothing.
    """

    assertion: "Assertion"
    holds: bool
    why: str
    calls: tuple[int, ...]
    is_exercised: bool = True


class Assertion(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="is", forbid_unknown_fields=True, omit_defaults=True
):
    label: ClassVar[str]
    tool: Name

    @property
    def says(self) -> str:
        raise NotImplementedError

    @property
    def tools(self) -> list[str]:
        """The names that it speaks of."""
        return [self.tool]

    def judge(self, made: Sequence[Made]) -> Verdict:
        """`made` are the calls in the order in which they were asked for."""
        raise NotImplementedError

    def of(self, made: Sequence[Made]) -> list[Made]:
        return [call for call in made if call.tool == self.tool]


class Before(Assertion, frozen=True, tag="before"):
    """Each call of `other` comes after a call of `tool` that went well."""

    label = "went well before each call of"
    other: Name

    @property
    def tools(self) -> list[str]:
        return [self.tool, self.other]

    @property
    def says(self) -> str:
        return f"{self.tool} before {self.other}"

    def judge(self, made: Sequence[Made]) -> Verdict:
        too_early: list[int] = []
        shows: list[int] = []
        first: Made | None = None
        for call in made:
            if call.tool == self.other:
                (shows if first else too_early).append(call.id)
            if first is None and call.tool == self.tool and call.outcome == "ok":
                first = call
        if too_early:
            return Verdict(
                self, False, f"{self.other} was called before {self.tool} went well.", tuple(too_early)
            )
        if first is None or not shows:
            return Verdict(self, True, f"{self.other} was not called.", (), is_exercised=False)
        return Verdict(self, True, f"{self.tool} went well first.", (first.id, *shows))


class Called(Assertion, frozen=True, tag="called"):
    """So many times, whatever came of it; without a number, at least once."""

    label = "is called"
    times: Annotated[int, Meta(ge=1, le=1000)] | None = None

    @property
    def says(self) -> str:
        if self.times is None:
            return f"{self.tool} called"
        return f"{self.tool} called {'once' if self.times == 1 else f'{self.times} times'}"

    def judge(self, made: Sequence[Made]) -> Verdict:
        found = self.of(made)
        holds = bool(found) if self.times is None else len(found) == self.times
        times = {0: "not called", 1: "called once"}.get(len(found), f"called {len(found)} times")
        return Verdict(self, holds, f"{self.tool} was {times}.", tuple(call.id for call in found))


class Never(Assertion, frozen=True, tag="never"):
    label = "is never called"

    @property
    def says(self) -> str:
        return f"never {self.tool}"

    def judge(self, made: Sequence[Made]) -> Verdict:
        found = self.of(made)
        why = f"{self.tool} was {'called' if found else 'not called'}."
        calls = tuple(call.id for call in found)
        return Verdict(self, not found, why, calls, is_exercised=bool(made))


AnyAssertion = Before | Called | Never
ASSERTIONS: tuple[type[Assertion], ...] = AnyAssertion.__args__
