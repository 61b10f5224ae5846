"""The results of a procedure's steps: the values that the next step uses, and results that state a failure.
Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from designer.procedures.input_names import words_of

# Words of outputs such as `sent` or `emailSent`, whose value states whether the tool has done its work.
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
    """Return the name of an output that states that nothing was done, such as `sent` with "no"; otherwise
    "".
    """
    for name, value in outputs.items():
        words, answer = words_of(name), str(value).strip().lower().replace("_", " ")
        if words & _DONE and answer in _NO:
            return name
        if words & _STATES and isinstance(value, str) and answer in _FAILED:
            return name
    return ""


def values_for(inputs: Iterable[str], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values for inputs from results with matching names; of several, from the newest result.

    results: the outputs of earlier steps, the oldest first. An input `order_id` matches an output `orderId`,
        and the member `id` of an output `order`.
    """
    values_by_input: dict[str, Any] = {}
    words_of_inputs = {name: words_of(name) for name in inputs}
    for outputs in results:
        values = dict(_list_values(outputs))
        values_by_input |= {name: values[words] for name, words in words_of_inputs.items() if words in values}
    return values_by_input


def _list_values(outputs: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[frozenset[str], Any]]:
    """Yield values by the words of their names: inner values before the values that contain them."""
    for name, value in outputs.items():
        words = words_of(name)
        container = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(container, dict) and depth < MAX_DEPTH:
            for inner, inner_value in _list_values(container, depth + 1):
                yield words | inner, inner_value
                yield inner, inner_value
        if value is not None and words:
            yield words, value
