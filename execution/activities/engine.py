"""The engine of activities that call tools: it runs their steps one after the other.

Each step is a call of its own, whose key follows from the key of the calling one and the number of the step,
so a repeated request does not run it again. A step that fails ends the calling call with its outcome. A step
with a question stops the calling call, which continues there: its `resume` contains the outputs of earlier
steps.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from catalog.models import ActivityVersion, Call, ToolVersion
from catalog.models.calls import Result
from core.errors import DomainError
from core.failpoints import failpoint
from execution.activities import conversions, pinned_callees
from execution.activities.base import ActivityWork
from execution.activities.conversions import UnfitValueError
from execution.activities.nesting import MAX_DEPTH
from execution.activities.picking import ActivityStep, Source, Steps, pick_value
from execution.user_grants.context import USER
from protocols.call_outcome import Ask, Outcome, OutcomeKind
from protocols.calls import outcomes
from protocols.list_pages import Note
from protocols.signature import Parameter, Signature

# Outcomes of a step that stopped with a question.
_ASKS = ("needs_input", "needs_authorization")


class _StepError(Exception):
    """A step that did not run, or whose outputs cannot be used. `outcome` becomes that of the calling
    call."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


def perform(steps: Steps, work: ActivityWork) -> Outcome:
    """Run the steps. Raises DomainError if the activity must not run at all."""
    # It was checked when it was saved, but the activities that it runs may have changed since.
    activity, depth, above = work.call.activity, 1, work.call.parent
    while activity and above and above.activity:
        depth += 1
        if above.activity.activity_id == activity.activity_id:
            message = f"“{activity.activity}” would run itself, so it was stopped."
            raise DomainError("activity_reaches_itself", message, status=409)
        above = above.parent
    if depth > MAX_DEPTH:
        message = f"Implementations can be nested {MAX_DEPTH} deep at most."
        raise DomainError("activity_too_deep", message, status=409)
    before = dict(work.call.continues.decoded().resume or {}) if work.call.continues else {}
    step_outputs: list[Mapping[str, Any]] = list(before.get("made", ()))
    for number, step in enumerate(steps.steps[len(step_outputs) :], len(step_outputs) + 1):
        try:
            stopped, before = before.get("call"), {}
            call = _run_step(number, step, work, step_outputs, stopped)
        except _StepError as unmade:
            return _with_step_number(number, unmade.outcome)
        if call.outcome != "ok":
            return _outcome_of_step(number, call, steps, step_outputs)
        result = call.decoded()
        if result.cut:
            message = "Its outputs are too long for the next step."
            return _with_step_number(number, outcomes.failed("tool_error", "TOO_LONG", message))
        step_outputs.append(result.outputs)
        failpoint("step-made")
    values, unfit = _map_values(steps.outputs, work.signature.outputs, work, step_outputs)
    notes = [Note("VALUE_TYPE", f"“{name}” {reason}.") for name, reason in unfit.items()]
    return Outcome("ok", outputs=values, notes=notes)


def _run_step(
    number: int,
    step: ActivityStep,
    work: ActivityWork,
    step_outputs: list[Mapping[str, Any]],
    stopped: int | None,
) -> Call:
    seconds = math.floor(work.seconds_left())
    if seconds < 1:
        failure = outcomes.failed("unavailable", "DEADLINE", "The time limit ended before it started.")
        raise _StepError(failure)
    if not work.may_continue():
        raise _StepError(outcomes.failed("cancelled", "CANCELLED", "It was not started."))
    try:
        if stopped is not None:
            earlier = Call.objects.select_related("activity__activity").filter(pk=stopped).first()
            if earlier is None:
                message = "Its question is not stored any more. Run the tool again."
                raise DomainError("nothing_to_continue", message, status=409)
            if not (work.call.on_behalf_of and any(ask.id == USER for ask in earlier.decoded().asks)):
                return work.continue_step(number, earlier, answers=work.call.answers)
        tool, ordinal, activity, signature = _callee_of(step, work.call)
        values, unfit = _map_values(step.inputs, signature.inputs, work, step_outputs)
        if unfit:
            raise DomainError("invalid_arguments", "Some inputs do not fit.", fields=unfit)
        return work.call_step(
            number,
            tool,
            ordinal,
            arguments=values,
            seconds=seconds,
            activity=activity,
        )
    except DomainError as exc:
        raise _StepError(_refused_step(exc, step)) from exc


def _callee_of(step: ActivityStep, call: Call) -> tuple[int, int, ActivityVersion | None, Signature]:
    """Return the tool, its ordinal, the activity version that runs for it, if any, and its signature."""
    if step.activity:
        caller = call.activity_id or 0
        callee = pinned_callees.find_callees({caller: {step.activity}})[caller].get(step.activity)
        if callee is None or callee.interface is None:
            raise DomainError("unknown_activity", "The implementation was removed.", status=409)
        interface = callee.interface
        return interface.tool_id, interface.ordinal, callee, interface.decoded()
    version = ToolVersion.objects.filter(tool=step.tool, ordinal=step.ordinal).first()
    if version is None:
        raise DomainError("unknown_tool", "There is no such version of a tool.", status=409)
    return step.tool, step.ordinal, None, version.decoded()


def _map_values(
    sources: Mapping[str, Source],
    parameters: Iterable[Parameter],
    work: ActivityWork,
    step_outputs: list[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values by name, converted to their parameters, and the reasons for those that cannot be."""
    parameters_by_name = {parameter.name: parameter for parameter in parameters}
    values, unfit = {}, {}
    for name, source in sources.items():
        values[name] = pick_value(source, work.call.arguments, step_outputs)
        if values[name] is UNSET:
            del values[name]
        elif name in parameters_by_name:
            try:
                values[name] = conversions.convert_value(values[name], parameters_by_name[name])
            except UnfitValueError as error:
                unfit[name] = str(error)
    return values, unfit


def _refused_step(error: DomainError, step: ActivityStep) -> Outcome:
    # Faults of the caller's inputs go by the names that the caller uses.
    if error.code != "invalid_arguments":
        return outcomes.failed("refused", error.code, error.message)
    fields, is_callers = {}, True
    for name, reason in error.fields.items():
        source = step.inputs.get(name, Source())
        is_callers = is_callers and bool(source.input)
        fields[source.input or name] = reason
    if is_callers and fields:
        return outcomes.failed("invalid_arguments", "ARGUMENTS", error.message, fields=fields)
    reasons = "; ".join(f"“{name}” {reason}" for name, reason in error.fields.items())
    message = f"What the steps before came to does not fit its inputs: {reasons or error.message}"
    return outcomes.failed("tool_error", "UNFIT_INPUTS", message)


def _outcome_of_step(number: int, call: Call, steps: Steps, step_outputs: list[Mapping[str, Any]]) -> Outcome:
    """Return the outcome of a step that failed, or has a question, as that of the calling call."""
    if call.is_active:
        return _with_step_number(
            number, outcomes.failed("unavailable", "DEADLINE", "It did not end in time.")
        )
    result = call.decoded()
    kind: OutcomeKind = call.outcome  # type: ignore[assignment]
    retry = result.retry
    # Once a step has run, a repeated call would run that step again.
    may_repeat = retry.can_retry if retry and number == 1 else None
    outcome = Outcome(
        kind,
        error=_error_by_caller_names(result, steps.steps[number - 1]),
        retry_after=retry.after_ms / 1000 if retry and retry.after_ms is not None else None,
        can_retry=may_repeat,
        hint=retry.hint if retry else "",
    )
    if kind in _ASKS and result.resume is not None:
        asks = [Ask(ask.id, ask.message, ask.schema, ask.url, request=ask.request) for ask in result.asks]
        sources = [*steps.outputs.values(), *(row for step in steps.steps for row in step.inputs.values())]
        needed = []
        for earlier_step, outputs in enumerate(step_outputs, 1):
            names = {source.output for source in sources if source.step == earlier_step}
            needed.append({name: value for name, value in outputs.items() if name in names})
        outcome = replace(outcome, asks=asks, resume={"call": call.pk, "made": needed})
    return _with_step_number(number, outcome)


def _error_by_caller_names(result: Result, step: ActivityStep) -> dict[str, Any]:
    # Faults of inputs that the caller gave go by the caller's names; others by the names of the step's tool.
    error = dict(result.error or {})
    fields, reasons = {}, []
    for name, reason in (error.pop("fields", None) or {}).items():
        root, dot, inside = name.partition(".")
        source = step.inputs.get(root, Source())
        if source.input:
            fields[source.input + source.at.replace("/", ".") + dot + inside] = reason
        else:
            reasons.append(f"“{name}” {reason}")
    error["message"] = f"{error.get('message', '')} {'; '.join(reasons)}".strip()
    return error | ({"fields": fields} if fields else {})


def _with_step_number(number: int, outcome: Outcome) -> Outcome:
    error = dict(outcome.error or {})
    message = f"Step {number}: {error.get('message') or 'it asks for something.'}"
    return replace(outcome, error=error | {"message": message, "step": number})
