"""The results of the steps of a procedure. Pure.

What does the next step take of them, and which of them say that nothing was done?
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from designer.procedures.input_names import words_of

# Of an output such as `sent` or `emailSent`: its value says whether the tool did what it was called for.
_DONE = frozenset((
    "sent", "success", "successful", "succeeded", "ok", "done", "completed", "created", "updated", "changed",
    "deleted", "removed", "cancelled", "canceled", "confirmed", "booked", "reserved", "verified", "submitted",
    "authenticated", "accepted", "approved", "delivered", "paid", "saved", "registered", "scheduled",
))  # fmt: skip
_NO = frozenset(("no", "n", "false", "none", "0"))
_STATES = frozenset(("state", "outcome", "result", *words_of("status")))
_FAILED = frozenset((
    "failed", "failure", "error", "rejected", "refused", "declined", "denied", "unsuccessful", "not sent",
))  # fmt: skip
MAX_DEPTH = 3


def denial(outputs: Mapping[str, Any]) -> str:
    """Return the name of an output that says that nothing was done, such as `sent` with "no"; else ""."""
    for name, value in outputs.items():
        words, said = words_of(name), str(value).strip().lower().replace("_", " ")
        if words & _DONE and said in _NO:
            return name
        if words & _STATES and isinstance(value, str) and said in _FAILED:
            return name
    return ""


def taken(inputs: Iterable[str], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values that inputs take from results by their names; of several, from the newest result.

    `results` are the outputs of earlier steps, the oldest first. An input `order_id` takes an output
    `orderId`, and the member `id` of an output `order`.
    """
    found: dict[str, Any] = {}
    words_of_inputs = {name: words_of(name) for name in inputs}
    for outputs in results:
        values = dict(_values(outputs))
        found |= {name: values[words] for name, words in words_of_inputs.items() if words in values}
    return found


def _values(outputs: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[frozenset[str], Any]]:
    """Yield values by the words of their names: those inside before those that hold them."""
    for name, value in outputs.items():
        words = words_of(name)
        held = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(held, dict) and depth < MAX_DEPTH:
            for inner, inside in _values(held, depth + 1):
                yield words | inner, inside
                yield inner, inside
        if value is not None and words:
            yield words, value
