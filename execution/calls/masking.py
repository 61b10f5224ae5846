"""Calls as people see them, with a mask in place of sensitive values.

`Call.was_started_by` has the rule: the key that started a call reads it unmasked, so the reply of a runtime
is never masked. Doors format a `VisibleCall`, which only the functions here return.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NewType

import msgspec
from django.db import transaction

from catalog.models import Call, SensitiveValues
from catalog.models.calls import Result, Sent
from catalog.rules.sensitive_values import MASK, mask, sensitive_texts, strike
from catalog.tools.sensitive_values import NONE, marks_of
from people import audit
from people.models import ApiKey, User

# A call as its reader may see it.
VisibleCall = NewType("VisibleCall", Call)


def masked_call(call: Call, key: ApiKey | None = None) -> VisibleCall:
    """Return a copy of the call for a person, or the call itself for the key that has started it.

    A copy must not be saved. Texts of requests and replies are masked as a whole.
    """
    return masked_calls([call], key)[0]


def masked_calls(calls: Iterable[Call], key: ApiKey | None = None) -> list[VisibleCall]:
    rows = list(calls)
    hidden_rows = [call for call in rows if not call.was_started_by(key)]
    marks = marks_of(call.tool_id for call in hidden_rows) if hidden_rows else {}
    hidden = {call.pk for call in hidden_rows if call.tool_id in marks and _has_marks(marks[call.tool_id])}
    return [VisibleCall(_masked(call, marks[call.tool_id]) if call.pk in hidden else call) for call in rows]


def _has_marks(row: SensitiveValues) -> bool:
    return bool(row.inputs or row.outputs)


def _masked(call: Call, marks: SensitiveValues) -> Call:
    is_listed = "result" in call.get_deferred_fields()
    result = Result() if is_listed else call.decoded()
    texts = sensitive_texts(call.arguments, marks.inputs) + sensitive_texts(result.outputs, marks.outputs)
    texts += sensitive_texts(result.parsed, marks.outputs)
    row = copy.copy(call)
    row.arguments = strike(mask(call.arguments, marks.inputs), texts)
    row.reasoning = strike(call.reasoning, texts)
    if not is_listed:
        row.answers = {}
        row.result = msgspec.json.encode(_masked_result(result, marks, texts)).decode()
    return row


def _masked_result(result: Result, marks: SensitiveValues, texts: Sequence[str]) -> Result:
    document = strike(msgspec.to_builtins(result), texts)
    masked = msgspec.convert(document, Result)
    return msgspec.structs.replace(
        masked,
        outputs=mask(masked.outputs, marks.outputs),
        parsed=mask(masked.parsed, marks.outputs),
        whole_output=MASK if masked.whole_output else "",
        cut=MASK if masked.cut else "",
        attempts=[
            msgspec.structs.replace(attempt, exchanges=[_masked_exchange(sent) for sent in attempt.exchanges])
            for attempt in masked.attempts
        ],
    )


def _masked_exchange(sent: Sent) -> Sent:
    # Values are in their encoding here, and headers may repeat them.
    masked = Sent(method=sent.method, url=MASK, body=MASK, reply=MASK)
    return msgspec.structs.replace(masked, status=sent.status, duration_ms=sent.duration_ms)


def has_sensitive_values(tool: int) -> bool:
    return _has_marks(marks_of([tool]).get(tool, NONE))


def is_masked(call: Call, key: ApiKey | None = None) -> bool:
    return masked_call(call, key) is not call


def masked_partial(tool: int, partial: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a partial result for a person; a vendor's own part has no members that could be marked."""
    marks = marks_of([tool]).get(tool)
    if not partial or marks is None or not _has_marks(marks):
        return partial
    shown = {**partial, "outputs": mask(partial.get("outputs"), marks.outputs)}
    return shown | {name: MASK for name in ("custom", "progress") if partial.get(name)}


def masked_arguments(tool: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return stored arguments of the tool, such as those of an example, for a person."""
    marks = marks_of([tool]).get(tool)
    masked: dict[str, Any] = mask(arguments, marks.inputs) if marks else arguments
    return masked


def masked_outputs(tool: int, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs that were made for the tool, such as those of a mock, for a person."""
    return dict(mask(dict(outputs), (marks_of([tool]).get(tool) or NONE).outputs))


def without_masked(tool: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that fill a form, without inputs that have a mask in them."""
    masked = masked_arguments(tool, arguments)
    return {name: value for name, value in arguments.items() if masked[name] == value}


def show_call(call: Call, *, actor: User) -> VisibleCall:
    """Return the call unmasked, after recording who has requested that."""
    with transaction.atomic():
        audit.record(actor, "show sensitive", call.tool, after={"call": call.pk}, agent=call.agent)
    return VisibleCall(call)
