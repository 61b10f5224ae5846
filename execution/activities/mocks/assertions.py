"""Assertions about the calls that an agent has sent to its mocks. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from core.translatable import mark as _

MAX_ASSERTIONS = 50
MAX_NAME_LENGTH = 200
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]


@dataclass(frozen=True)
class RecordedCall:
    """One logged call, by the name that the agent uses for its tool."""

    id: int
    tool: str
    outcome: str


@dataclass(frozen=True)
class Verdict:
    """The result of an assertion. `calls` are the ids of those that prove it.

    is_exercised: there were calls that could have broken the assertion; otherwise its success proves nothing.
    """

    assertion: "Assertion"
    holds: bool
    reason: str
    calls: tuple[int, ...]
    is_exercised: bool = True


class Assertion(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="is", forbid_unknown_fields=True, omit_defaults=True
):
    label: ClassVar[str]
    tool: Name

    @property
    def sentence(self) -> str:
        raise NotImplementedError

    @property
    def tools(self) -> list[str]:
        """The names of the tools in the assertion."""
        return [self.tool]

    def judge(self, calls: Sequence[RecordedCall]) -> Verdict:
        """Evaluate the assertion. calls: in the order in which they were requested."""
        raise NotImplementedError

    def calls_of_tool(self, calls: Sequence[RecordedCall]) -> list[RecordedCall]:
        return [call for call in calls if call.tool == self.tool]


class Before(Assertion, frozen=True, tag="before"):
    """Each call of `other` comes after a successful call of `tool`."""

    label = _("must succeed before")
    other: Name

    @property
    def tools(self) -> list[str]:
        return [self.tool, self.other]

    @property
    def sentence(self) -> str:
        return f"{self.tool} before {self.other}"

    def judge(self, calls: Sequence[RecordedCall]) -> Verdict:
        too_early: list[int] = []
        shows: list[int] = []
        first: RecordedCall | None = None
        for call in calls:
            if call.tool == self.other:
                (shows if first else too_early).append(call.id)
            if first is None and call.tool == self.tool and call.outcome == "ok":
                first = call
        if too_early:
            return Verdict(
                self, False, f"{self.other} was called before {self.tool} succeeded.", tuple(too_early)
            )
        if first is None or not shows:
            return Verdict(self, True, f"{self.other} was not called.", (), is_exercised=False)
        return Verdict(self, True, f"{self.tool} succeeded first.", (first.id, *shows))


class Called(Assertion, frozen=True, tag="called"):
    """The tool is called so many times, whatever the outcome; without a number, at least once."""

    label = _("is called")
    times: Annotated[int, Meta(ge=1, le=1000)] | None = None

    @property
    def sentence(self) -> str:
        if self.times is None:
            return f"{self.tool} called"
        return f"{self.tool} called {'once' if self.times == 1 else f'{self.times} times'}"

    def judge(self, calls: Sequence[RecordedCall]) -> Verdict:
        matching = self.calls_of_tool(calls)
        holds = bool(matching) if self.times is None else len(matching) == self.times
        times = {0: "not called", 1: "called once"}.get(len(matching), f"called {len(matching)} times")
        return Verdict(self, holds, f"{self.tool} was {times}.", tuple(call.id for call in matching))


class Never(Assertion, frozen=True, tag="never"):
    label = _("is never called")

    @property
    def sentence(self) -> str:
        return f"never {self.tool}"

    def judge(self, calls: Sequence[RecordedCall]) -> Verdict:
        matching = self.calls_of_tool(calls)
        reason = f"{self.tool} was {'called' if matching else 'not called'}."
        call_ids = tuple(call.id for call in matching)
        return Verdict(self, not matching, reason, call_ids, is_exercised=bool(calls))


AnyAssertion = Before | Called | Never
ASSERTIONS: tuple[type[Assertion], ...] = AnyAssertion.__args__
