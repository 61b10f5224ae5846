"""Situations of a mock, in which it behaves like vendors on bad days. Pure.

A situation is switched on, or applies to calls whose inputs match a pattern. The first that applies to a call
answers it; a slow one only delays it. A question ends once a call has continued after it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from core.schema import validation
from core.translatable import mark as _
from protocols.call_outcome import Ask, Outcome
from protocols.calls import outcomes
from protocols.signature import Signature

MAX_SECONDS = 3600
MAX_POLLS = 20
MAX_TIMES = 20
ANSWER = "answer"
_YES_OR_NO = {
    "type": "object",
    "properties": {"approved": {"type": "boolean", "description": "Whether it may go on."}},
    "required": ["approved"],
}


@dataclass(frozen=True)
class Moment:
    """One call of a mocked tool.

    passed: by the name of a situation, the number of earlier calls that continued after it.
    declined: the situation whose question was just declined.
    nth: returns the number of this call, from 1, among those of its caller to which a situation applied. Each
    call of `nth` counts.
    """

    signature: Signature
    arguments: Mapping[str, Any]
    passed: Mapping[str, int] = field(default_factory=dict)
    declined: str = ""
    nth: Callable[["Situation"], int] = lambda _self: 1


class Situation(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="name",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A situation of a mock.

    switch: turns it on or off; None: it is on if `when` is set.
    when: the required values by input, where `*` in a text matches any characters.
    message: replaces the standard message.
    """

    label: ClassVar[str]
    when: dict[str, Any] = {}
    switch: bool | None = None
    message: str = ""

    @property
    def name(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def is_on(self) -> bool:
        return bool(self.when) if self.switch is None else self.switch

    def is_met(self, arguments: Mapping[str, Any]) -> bool:
        return self.is_on and all(
            name in arguments and matches(pattern, arguments[name]) for name, pattern in self.when.items()
        )

    def faults(self) -> dict[str, str]:
        """Return the faults of its configuration, by member."""
        return {}

    def answer(self, moment: Moment) -> Outcome | None:
        """Return the outcome. None passes the call to the next situation, or to the mock's usual reply."""
        raise NotImplementedError


class NotFound(Situation, frozen=True, tag="not_found"):
    label = _("Not found (404)")

    def answer(self, moment: Moment) -> Outcome:
        reason = self.message or "there is nothing of this kind."
        return outcomes.failed("tool_error", "HTTP_404", f"The tool answered 404: {reason}")


class InvalidInput(Situation, frozen=True, tag="invalid_input"):
    """A mock's refusal of inputs. parameter_errors: messages by input; without any, each input of `when` is
    refused, or the first one.
    """

    label = _("Invalid inputs (422)")
    parameter_errors: dict[str, str] = {}

    def answer(self, moment: Moment) -> Outcome:
        blamed = list(self.when) or [parameter.name for parameter in moment.signature.inputs[:1]]
        reason = self.message or "some inputs do not fit."
        return outcomes.failed(
            "invalid_arguments",
            "HTTP_422",
            f"The vendor refused the inputs (422): {reason}",
            fields=self.parameter_errors or dict.fromkeys(blamed, "is not accepted"),
        )


class CanRetry(Situation, frozen=True, tag="can_retry"):
    label = _("Fails with a hint, can be retried")
    hint: str = "Check the inputs, then call the tool once more."
    after_ms: Annotated[int, Meta(ge=0, le=MAX_SECONDS * 1000)] = 1000

    def answer(self, moment: Moment) -> Outcome:
        message = self.message or "The tool failed this time."
        failed = outcomes.failed("tool_error", "TOOL_ERROR", message)
        return replace(failed, can_retry=True, hint=self.hint, retry_after=self.after_ms / 1000)


class FailsFirst(Situation, frozen=True, tag="fails_first"):
    """The first calls of one caller fail, and later ones pass."""

    label = _("Fails at first, then succeeds")
    times: Annotated[int, Meta(ge=1, le=MAX_TIMES)] = 1
    hint: str = "Call the tool once more, with the same inputs."
    after_ms: Annotated[int, Meta(ge=0, le=MAX_SECONDS * 1000)] = 0

    def answer(self, moment: Moment) -> Outcome | None:
        nth = moment.nth(self)
        if nth > self.times:
            return None
        message = self.message or f"The tool failed, for the time number {nth} of {self.times}."
        failed = outcomes.failed("tool_error", "TOOL_ERROR", message)
        return replace(failed, can_retry=True, hint=self.hint, retry_after=self.after_ms / 1000)


class Authorization(Situation, frozen=True, tag="authorization"):
    """The authorization is granted when a call continues for the `polls`-th time."""

    label = _("Needs the user's authorization")
    provider: str = "the provider"
    polls: Annotated[int, Meta(ge=1, le=MAX_POLLS)] = 1
    url: str = "https://authorize.example/"

    def faults(self) -> dict[str, str]:
        is_address = self.url.startswith(("https://", "http://")) and self.url.isprintable()
        return {} if is_address else {"url": "Take an address that begins with https://."}

    def answer(self, moment: Moment) -> Outcome | None:
        if moment.declined == self.name:
            return outcomes.failed("refused", "GRANT_REFUSED", "The user did not authorize the tool.")
        if moment.passed.get(self.name, 0) >= self.polls:
            return None
        message = self.message or "The tool needs more before it can run: its user has to authorize it."
        ask = Ask(
            self.provider, f"Let the tool act for you at {self.provider}, then run it again.", url=self.url
        )
        return replace(outcomes.failed("needs_authorization", "MISSING_REQUIREMENTS", message), asks=[ask])


class Interrupt(Situation, frozen=True, tag="interrupt"):
    """Asks a question. `schema` is that of the answer."""

    label = _("Asks a question, then continues")
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: dict(_YES_OR_NO))

    def faults(self) -> dict[str, str]:
        return {} if validation.is_schema(self.schema) else {"schema": "This is no JSON Schema."}

    def answer(self, moment: Moment) -> Outcome | None:
        if moment.declined == self.name:
            return outcomes.failed("tool_error", "DECLINED", "The question of the tool was declined.")
        if moment.passed.get(self.name):
            return None
        message = self.message or "The tool asks before it goes on."
        ask = Ask(ANSWER, message, self.schema)
        return replace(outcomes.failed("needs_input", "INTERRUPT", message), asks=[ask])


class Unavailable(Situation, frozen=True, tag="unavailable"):
    label = _("Vendor unavailable (503)")
    retry_after: Annotated[int, Meta(ge=0, le=MAX_SECONDS)] = 30

    def answer(self, moment: Moment) -> Outcome:
        message = self.message or "The vendor does not answer now (503)."
        failed = outcomes.failed("unavailable", "HTTP_503", message)
        return replace(failed, can_retry=True, retry_after=float(self.retry_after))


class Slow(Situation, frozen=True, tag="slow"):
    label = _("Slow answer")
    seconds: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] = 5.0

    def answer(self, moment: Moment) -> None:
        return None


class Withdrawn(Situation, frozen=True, tag="withdrawn"):
    label = _("Version withdrawn")

    def answer(self, moment: Moment) -> Outcome:
        addition = f" {self.message}" if self.message else ""
        message = f"The vendor has no such tool or version any more.{addition}"
        return outcomes.failed("refused", "NOT_FOUND", message)


AnySituation = (
    NotFound
    | InvalidInput
    | CanRetry
    | FailsFirst
    | Authorization
    | Interrupt
    | Unavailable
    | Slow
    | Withdrawn
)
SITUATIONS: tuple[type[Situation], ...] = AnySituation.__args__
KINDS: dict[str, type[Situation]] = {
    str(situation.__struct_config__.tag): situation for situation in SITUATIONS
}


def matches(pattern: Any, value: Any) -> bool:
    """Return whether `value` equals the required one, or matches it as a pattern."""
    if not isinstance(pattern, str) or isinstance(value, dict | list):
        return type(pattern) is type(value) and bool(pattern == value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    first, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    *parts, last = parts
    if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
        return False
    # From left to right, so that no pattern takes long.
    position, ends = len(first), len(text) - len(last)
    for part in parts:
        position = text.find(part, position, ends)
        if position < 0:
            return False
        position += len(part)
    return True


def find_answer(
    situations: tuple[Situation, ...], moment: Moment
) -> tuple[Situation | None, Outcome | None, float]:
    """Return the situation that answers, its outcome, and the delay in seconds. Without one the mock
    replies as usual."""
    seconds = 0.0
    for situation in situations:
        if not situation.is_met(moment.arguments):
            continue
        if isinstance(situation, Slow):
            seconds += situation.seconds
        elif outcome := situation.answer(moment):
            return situation, outcome, seconds
    return None, None, seconds
