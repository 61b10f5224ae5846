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
from catalog.models.calls import RecordedExchange, Result
from catalog.rules.sensitive_values import MASK, mask, sensitive_texts, strike
from catalog.tools.sensitive_values import NONE, marks_of
from execution.calls.families import find_families
from people import audit
from people.models import ApiKey, User

# A call as its reader may see it.
VisibleCall = NewType("VisibleCall", Call)


def masked_call(call: Call, key: ApiKey | None = None) -> VisibleCall:
    """Return a copy of the call for a person, or the call itself for the key that has started it.

    A copy must not be saved. Texts of requests and replies are masked as a whole.
    """
    return VisibleCall(call) if call.was_started_by(key) else masked_calls([call], key)[0]


def masked_calls(calls: Iterable[Call], key: ApiKey | None = None) -> list[VisibleCall]:
    rows = list(calls)
    hidden_rows = [call for call in rows if not call.was_started_by(key)]
    families = find_families(hidden_rows)
    relatives = {relative.pk: relative for family in families.values() for relative in family}
    tools = {call.tool_id for call in hidden_rows} | {relative.tool for relative in relatives.values()}
    marks = {tool: row for tool, row in marks_of(tools).items() if _has_marks(row)} if tools else {}
    marked = [relative.pk for relative in relatives.values() if relative.tool in marks]
    texts: dict[int, set[str]] = {}
    # Rows of a list have no results, so those of a family are read.
    for call in (*hidden_rows, *Call.objects.filter(pk__in=marked)):
        if call.tool_id in marks:
            texts.setdefault(call.pk, set()).update(_texts_of(call, marks[call.tool_id]))
    masked = {}
    for call in hidden_rows:
        members = {call.pk, *(relative.pk for relative in families.get(call.pk, ()))}
        if call.tool_id in marks or members & texts.keys():
            struck = {text for pk in members for text in texts.get(pk, ())}
            masked[call.pk] = _mask_call(call, marks.get(call.tool_id, NONE), sorted(struck, key=len)[::-1])
    return [VisibleCall(masked.get(call.pk, call)) for call in rows]


def _has_marks(row: SensitiveValues) -> bool:
    return bool(row.inputs or row.outputs)


def _texts_of(call: Call, marks: SensitiveValues) -> list[str]:
    result = Result() if "result" in call.get_deferred_fields() else call.decoded()
    values = ((call.arguments, marks.inputs), (result.outputs, marks.outputs), (result.parsed, marks.outputs))
    return [text for value, marked in values for text in sensitive_texts(value, marked)]


def _mask_call(call: Call, marks: SensitiveValues, texts: Sequence[str]) -> Call:
    row = copy.copy(call)
    row.arguments = strike(mask(call.arguments, marks.inputs), texts, is_data=True)
    row.reasoning = strike(call.reasoning, texts)
    if "result" not in call.get_deferred_fields():
        row.answers = {}
        result = call.decoded()
        masked = msgspec.convert(strike(msgspec.to_builtins(result), texts), Result)
        row.result = msgspec.json.encode(
            msgspec.structs.replace(
                masked,
                outputs=strike(mask(result.outputs, marks.outputs), texts, is_data=True),
                parsed=strike(mask(result.parsed, marks.outputs), texts, is_data=True),
                whole_output=MASK if masked.whole_output else "",
                cut=MASK if masked.cut else "",
                attempts=[
                    msgspec.structs.replace(
                        attempt,
                        # Values are in their encoding here, and headers may repeat them.
                        exchanges=[
                            RecordedExchange(
                                method=exchange.method,
                                url=MASK,
                                body=MASK,
                                reply=MASK,
                                status=exchange.status,
                                duration_ms=exchange.duration_ms,
                            )
                            for exchange in attempt.exchanges
                        ],
                    )
                    for attempt in masked.attempts
                ],
            )
        ).decode()
    return row


def has_sensitive_values(tool: int) -> bool:
    return _has_marks(marks_of([tool]).get(tool, NONE))


def is_masked(call: Call, key: ApiKey | None = None) -> bool:
    return masked_call(call, key) is not call


def masked_partial(call: Call, partial: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a partial result for a person; a vendor's own part has no members that could be marked."""
    if not partial or not is_masked(call):
        return partial
    outputs = partial.get("outputs") or {}
    if call.activity_id or call.parent_id:
        # Any other call of the activity may have a sensitive value, also one that has not ended.
        masked = dict.fromkeys(outputs, MASK)
    else:
        marks = marks_of([call.tool_id]).get(call.tool_id, NONE)
        texts = sensitive_texts(call.arguments, marks.inputs) + sensitive_texts(outputs, marks.outputs)
        masked = strike(mask(outputs, marks.outputs), sorted(texts, key=len)[::-1], is_data=True)
    others = {name: MASK for name in ("custom", "progress") if partial.get(name)}
    return {**partial, "outputs": masked} | others


def masked_arguments(tool: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return stored arguments of the tool, such as those of an example, for a person."""
    marks = marks_of([tool]).get(tool)
    masked: dict[str, Any] = mask(arguments, marks.inputs) if marks else arguments
    return masked


def masked_outputs(tool: int, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs that were made for the tool, such as those of a mock, for a person."""
    return dict(mask(dict(outputs), (marks_of([tool]).get(tool) or NONE).outputs))


def drop_masked_inputs(tool: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that fill a form, without inputs that have a mask in them."""
    masked = masked_arguments(tool, arguments)
    return {name: value for name, value in arguments.items() if masked[name] == value}


def plain_arguments(call: Call) -> dict[str, Any]:
    """Return the arguments of the call that fill a form, without inputs that are masked."""
    masked = masked_call(call).arguments
    return {name: value for name, value in call.arguments.items() if masked[name] == value}


def own_arguments(call: Call) -> dict[str, Any]:
    """Return the arguments without those that repeat a sensitive value of another call of its activity."""
    plain, masked = masked_arguments(call.tool_id, call.arguments), masked_call(call).arguments
    return {name: value for name, value in call.arguments.items() if plain[name] == masked[name]}


def inputs_that_repeat(arguments: Mapping[str, Any], calls: Iterable[Call]) -> list[str]:
    """Return the names of the arguments that repeat a sensitive value of these calls."""
    rows = list(calls)
    marks = marks_of(call.tool_id for call in rows)
    texts = {text for call in rows if call.tool_id in marks for text in _texts_of(call, marks[call.tool_id])}
    struck = strike(dict(arguments), sorted(texts, key=len)[::-1], is_data=True)
    return [name for name, value in arguments.items() if struck[name] != value]


def show_call(call: Call, *, actor: User) -> VisibleCall:
    """Return the call unmasked, after recording who has requested that."""
    with transaction.atomic():
        audit.record(actor, "show sensitive", call.tool, after={"call": call.pk}, agent=call.agent)
    return VisibleCall(call)
