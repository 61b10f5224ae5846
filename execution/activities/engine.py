"""Steps, made one after the other: the one engine of activities that call tools.

Each step is a call of its own, under a key that follows from the key of the whole and the number of the step,
so a step is made once whatever is repeated. A step that does not work ends the whole with its own outcome.
One that asks stops the whole, which goes on there: what the steps before came to lies in its `resume`.
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
from execution.activities.base import Work
from execution.activities.conversions import UnfitValueError
from execution.activities.nesting import MAX_DEPTH
from execution.activities.picking import Source, Step, Steps, picked
from execution.user_grants.context import USER
from protocols.base import Ask, Note, Outcome, OutcomeKind
from protocols.calls import outcomes
from protocols.signature import Parameter, Signature

# Of a step that was made, and of what it asks.
_ASKS = ("needs_input", "needs_authorization")


class _UnmadeError(Exception):
    """A step that was not made, or whose outputs cannot be used; `outcome` is that of the whole."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


def perform(steps: Steps, work: Work) -> Outcome:
    """Raises DomainError where the activity must not run at all."""
    _refuse_endless(work.call)
    before = _stopped_at(work.call)
    made: list[Mapping[str, Any]] = list(before.get("made", ()))
    for number, step in enumerate(steps.steps[len(made) :], len(made) + 1):
        try:
            stopped, before = before.get("call"), {}
            call = _made(number, step, work, made, stopped)
        except _UnmadeError as unmade:
            return _named(number, unmade.outcome)
        if call.outcome != "ok":
            return _as_whole(number, call, steps, made)
        result = call.decoded()
        if result.cut:
            message = "Its outputs are too long to be handed on."
            return _named(number, outcomes.failed("tool_error", "TOO_LONG", message))
        made.append(result.outputs)
        failpoint("step-made")
    return _outputs(steps, work, made)


def _refuse_endless(call: Call) -> None:
    # It was judged when it was saved, and what it runs may have been changed since.
    own, depth, above = call.activity, 1, call.parent
    while own and above and above.activity:
        depth += 1
        if above.activity.activity_id == own.activity_id:
            message = f"“{own.activity}” would run itself, so it was stopped."
            raise DomainError("activity_reaches_itself", message, status=409)
        above = above.parent
    if depth > MAX_DEPTH:
        message = f"Activities run each other {MAX_DEPTH} deep at most."
        raise DomainError("activity_too_deep", message, status=409)


def _stopped_at(call: Call) -> dict[str, Any]:
    return dict(call.continues.decoded().resume or {}) if call.continues else {}


def _made(number: int, step: Step, work: Work, made: list[Mapping[str, Any]], stopped: int | None) -> Call:
    seconds = math.floor(work.seconds_left())
    if seconds < 1:
        failure = outcomes.failed("unavailable", "DEADLINE", "The time was over before it was begun.")
        raise _UnmadeError(failure)
    if not work.may_go_on():
        raise _UnmadeError(outcomes.failed("cancelled", "CANCELLED", "It was not begun."))
    try:
        if stopped is not None:
            earlier = Call.objects.select_related("activity__activity").filter(pk=stopped).first()
            if earlier is None:
                message = "What it asked is not kept any more. Run the tool again."
                raise DomainError("nothing_to_continue", message, status=409)
            if not (work.call.on_behalf_of and _asks_for_user(earlier)):
                return work.continue_step(number, earlier, answers=work.call.answers)
        tool, ordinal, activity, signature = _callee_of(step, work.call)
        return work.call_step(
            number,
            tool,
            ordinal,
            arguments=_arguments(step, signature, work, made),
            seconds=seconds,
            activity=activity,
        )
    except DomainError as exc:
        raise _UnmadeError(_refused(exc, step)) from exc


def _asks_for_user(call: Call) -> bool:
    # Who the user is was said to the whole, so the step is made anew as if it had been said at first.
    return any(ask.id == USER for ask in call.decoded().asks)


def _callee_of(step: Step, call: Call) -> tuple[int, int, ActivityVersion | None, Signature]:
    """Return the tool, its ordinal, the activity version that runs for it, if any, and its signature."""
    if step.activity:
        caller = call.activity_id or 0
        callee = pinned_callees.find_callees({caller: {step.activity}})[caller].get(step.activity)
        if callee is None or callee.interface is None:
            raise DomainError("unknown_activity", "The activity was removed.", status=409)
        interface = callee.interface
        return interface.tool_id, interface.ordinal, callee, interface.decoded()
    version = ToolVersion.objects.filter(tool=step.tool, ordinal=step.ordinal).first()
    if version is None:
        raise DomainError("unknown_tool", "There is no such version of a tool.", status=409)
    return step.tool, step.ordinal, None, version.decoded()


def _arguments(step: Step, signature: Signature, work: Work, made: list[Mapping[str, Any]]) -> dict[str, Any]:
    found, unfit = _filled(step.inputs, signature.inputs, work, made)
    if unfit:
        raise DomainError("invalid_arguments", "Some inputs do not fit.", fields=unfit)
    return found


def _filled(
    sources: Mapping[str, Source],
    parameters: Iterable[Parameter],
    work: Work,
    made: list[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, str]]:
    # The values by name, each as its parameter has it, and why some do not become that.
    known = {parameter.name: parameter for parameter in parameters}
    found, unfit = {}, {}
    for name, source in sources.items():
        found[name] = picked(source, work.call.arguments, made)
        if found[name] is UNSET:
            del found[name]
        elif name in known:
            try:
                found[name] = conversions.converted(found[name], known[name])
            except UnfitValueError as error:
                unfit[name] = str(error)
    return found, unfit


def _refused(error: DomainError, step: Step) -> Outcome:
    # The caller is told of its own inputs by the names that it knows.
    if error.code != "invalid_arguments":
        return outcomes.failed("refused", error.code, error.message)
    fields, is_callers = {}, True
    for name, why in error.fields.items():
        source = step.inputs.get(name, Source())
        is_callers = is_callers and bool(source.input)
        fields[source.input or name] = why
    if is_callers and fields:
        return outcomes.failed("invalid_arguments", "ARGUMENTS", error.message, fields=fields)
    told = "; ".join(f"“{name}” {why}" for name, why in error.fields.items())
    message = f"What the steps before came to does not fit its inputs: {told or error.message}"
    return outcomes.failed("tool_error", "UNFIT_INPUTS", message)


def _as_whole(number: int, call: Call, steps: Steps, made: list[Mapping[str, Any]]) -> Outcome:
    """The outcome of a step that does not work, or asks, as that of the whole."""
    if call.is_active:
        return _named(number, outcomes.failed("unavailable", "DEADLINE", "It did not end in time."))
    result = call.decoded()
    kind: OutcomeKind = call.outcome  # type: ignore[assignment]
    retry = result.retry
    # Once a step has run, to send the whole again is to run that step again.
    may_repeat = retry.can_retry if retry and number == 1 else None
    outcome = Outcome(
        kind,
        error=_told(result, steps.steps[number - 1]),
        retry_after=retry.after_ms / 1000 if retry and retry.after_ms is not None else None,
        can_retry=may_repeat,
        hint=retry.hint if retry else "",
    )
    if kind in _ASKS and result.resume is not None:
        asks = [Ask(ask.id, ask.message, ask.schema, ask.url, request=ask.request) for ask in result.asks]
        needed = [_needed(steps, at, outputs) for at, outputs in enumerate(made, 1)]
        outcome = replace(outcome, asks=asks, resume={"call": call.pk, "made": needed})
    return _named(number, outcome)


def _told(result: Result, step: Step) -> dict[str, Any]:
    # What is wrong with inputs goes by the names that the caller gave them; what it did not give is said by
    # the names of the step's own tool.
    error = dict(result.error or {})
    fields, reasons = {}, []
    for name, why in (error.pop("fields", None) or {}).items():
        root, dot, inside = name.partition(".")
        source = step.inputs.get(root, Source())
        if source.input:
            fields[source.input + source.at.replace("/", ".") + dot + inside] = why
        else:
            reasons.append(f"“{name}” {why}")
    error["message"] = f"{error.get('message', '')} {'; '.join(reasons)}".strip()
    return error | ({"fields": fields} if fields else {})


def _needed(steps: Steps, number: int, outputs: Mapping[str, Any]) -> dict[str, Any]:
    sources = [*steps.outputs.values(), *(each for step in steps.steps for each in step.inputs.values())]
    wanted = {source.output for source in sources if source.step == number}
    return {name: value for name, value in outputs.items() if name in wanted}


def _named(number: int, outcome: Outcome) -> Outcome:
    error = dict(outcome.error or {})
    message = f"Step {number}: {error.get('message') or 'it asks for something.'}"
    return replace(outcome, error=error | {"message": message, "step": number})


def _outputs(steps: Steps, work: Work, made: list[Mapping[str, Any]]) -> Outcome:
    found, unfit = _filled(steps.outputs, work.signature.outputs, work, made)
    notes = [Note("VALUE_TYPE", f"“{name}” {why}.") for name, why in unfit.items()]
    return Outcome("ok", outputs=found, notes=notes)
