"""Inputs of tests as people see them, with a mask in place of sensitive values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from catalog.rules.sensitive_values import mask, sensitive_texts, strike
from catalog.tools.sensitive_values import marks_of
from core.schema import pointers
from designer.models import Rehearsal
from designer.rehearsals.results import SentenceResult
from designer.rehearsals.shown import ShownTools
from designer.signatures.effective import Effective

# By the id of a test, the pointers of its sensitive inputs.
Marks = Mapping[int, Collection[str]]


def shown_marks(tool: Effective, marked: Iterable[str]) -> list[str]:
    """Return the marks by each name that the agent's tool has for an input, and by the vendor's name."""
    names = {row.parameter.name: {row.alias, row.shown_name, row.parameter.name} for row in tool.inputs}
    return [
        pointers.join((name, *steps))
        for vendor_name, *steps in map(pointers.split, marked)
        for name in sorted(names.get(vendor_name, {vendor_name}))
    ]


def marks_of_tests(tools: ShownTools, rows: Iterable[Rehearsal]) -> Marks:
    tests = [row for row in rows if row.tool_id and row.inputs]
    marks = marks_of(row.tool_id for row in tests if row.tool_id)
    signatures = {signature.name: signature for signature in tools.signatures}
    marks_by_test: dict[int, Collection[str]] = {}
    for row in tests:
        if row.tool_id in marks:
            tool = signatures.get(tools.tools.get(row.tool_id, ""))
            marked = marks[row.tool_id].inputs
            marks_by_test[row.pk] = shown_marks(tool, marked) if tool else marked
    return marks_by_test


def masked_inputs(row: Rehearsal, marks: Marks) -> dict[str, Any]:
    masked: dict[str, Any] = mask(row.inputs, marks.get(row.pk, ()))
    return masked


def masked_answers(answers: Sequence[SentenceResult], marks: Marks) -> list[SentenceResult]:
    """Return the results of tests for a person. Messages about inputs may repeat their values."""
    masked_rows = []
    for answer in answers:
        values, marked = {row.name: row.expected for row in answer.inputs}, marks.get(answer.rehearsal, ())
        texts, masked = sensitive_texts(values, marked), mask(values, marked)
        inputs = tuple(
            msgspec.structs.replace(row, expected=masked[row.name], message=strike(row.message, texts))
            for row in answer.inputs
        )
        message = strike(answer.message, texts)
        masked_rows.append(msgspec.structs.replace(answer, inputs=inputs, message=message))
    return masked_rows
