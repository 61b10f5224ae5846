"""The outcome of one call, the questions that it asks, and the errors that a tool declares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from protocols.list_pages import Note

OutcomeKind = Literal[
    "ok",
    "tool_error",
    "invalid_arguments",
    "needs_authorization",
    "needs_input",
    "unavailable",
    "refused",
    "cancelled",
    "latent",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of a call to a person: an answer that fits `schema`, or a visit to `url`.

    check_url: where the state of an authorization at `provider` can be requested.
    request: a question to the calling program and not to its user: `method` and `params` of the protocol.
    """

    id: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str = ""
    provider: str = ""
    check_url: str = ""
    request: Mapping[str, Any] | None = None


# Kinds of questions that a tool may ask: a form to fill in, and an address to visit.
QUESTIONS = ("form", "url")
# The answer of a user who closed the question without a decision; None declines it.
CLOSED: Mapping[str, Any] = {"pegboard/action": "cancel"}


def is_withheld(answer: object) -> bool:
    """Return whether the user declined or closed the question."""
    return answer is None or answer == CLOSED


class CallError(NamedTuple):
    """A failure that a tool declares. is_transient: it is expected to pass by itself, None if undeclared.
    details_schema: of the details beside the message, None if undeclared."""

    code: str
    description: str
    is_transient: bool | None = False
    details_schema: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one call.

    outputs: values by output name, including unknown outputs.
    error: {"code", "message"}; for arguments also {"fields": {name: reason}}, and for a code of the vendor's
    own {"vendor": {"code", "description"}}.
    retry_after: seconds. can_retry: the same call may be sent again, because the vendor allows it or the tool
    surely did not run; None if unknown. hint: the vendor's text for the model before a retry.
    notes: tolerated deviations.
    parsed: the values of outputs that are JSON in a text.
    whole_output: the name of an output whose structured value is not an object and has no schema.
    asks: questions that the call waits for. resume: the JSON state for `Protocol.resume`.
    vendor_duration_ms: the duration that the vendor states.
    """

    outcome: OutcomeKind
    outputs: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    retry_after: float | None = None
    can_retry: bool | None = None
    hint: str = ""
    notes: Sequence[Note] = ()
    parsed: Mapping[str, Any] = field(default_factory=dict)
    whole_output: str = ""
    asks: Sequence[Ask] = ()
    resume: Mapping[str, Any] | None = None
    vendor_duration_ms: int | None = None
