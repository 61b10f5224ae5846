"""The sources of the values of a step, and their faults. Pure.

A source is an input of the call, an output of an earlier step, or a constant. `at` (a JSON pointer, RFC 6901)
selects a part of it, and `otherwise` is the value if there is none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from core.schema import pointers
from core.translatable import Wording
from core.translatable import mark as _
from execution.activities import conversions
from protocols.calls import arguments
from protocols.signature import Parameter, Signature

MAX_POINTER_LENGTH = 500
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


class Source(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of `input`, `value`, and `step` (counted from 1) with `output`."""

    input: str = ""
    value: Any = UNSET
    step: int = 0
    output: str = ""
    at: str = ""
    otherwise: Any = UNSET


class ActivityStep(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A version of a tool, or an activity in the version that was current when the step was saved."""

    tool: int = 0
    ordinal: int = 0
    activity: int = 0
    inputs: dict[str, Source] = {}


class Steps(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    steps: list[ActivityStep]
    outputs: dict[str, Source] = {}


@dataclass(frozen=True, slots=True)
class ActivityFault:
    """A reason why something cannot run, as a sentence. `place` is the path in the configuration."""

    place: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The values that sources may pick: the inputs of the interface, and the outputs of the steps so far.
    None or empty: any."""

    inputs: Mapping[str, Parameter] | None
    outputs: Sequence[Mapping[str, Parameter]]


def pick_value(source: Source, inputs: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]]) -> Any:
    """Return the value of a source, UNSET if there is none. outputs: of the steps so far."""
    if source.value is not UNSET:
        return source.value
    if source.step:
        value = outputs[source.step - 1].get(source.output, UNSET)
    else:
        value = inputs.get(source.input, UNSET)
    if value is not UNSET and source.at:
        value = value_at(value, source.at)
    return source.otherwise if value is UNSET else value


def value_at(value: Any, pointer: str) -> Any:
    """Return the value at a pointer, UNSET if there is none."""
    try:
        return pointers.resolve(value, pointers.split(pointer))
    except pointers.PointerError:
        return UNSET


def faults_in_inputs(
    place: str, sources: Mapping[str, Source], signature: Signature, reach: Reach
) -> Iterator[ActivityFault]:
    """Yield the faults of the inputs of one step, whose tool or activity has this signature."""
    declared = {parameter.name: parameter for parameter in signature.inputs}
    for name, source in sources.items():
        if name not in declared and "#" in arguments.find_problems(signature, {"#": ""}):
            message = Wording(_("“{tool}” has no input “{name}”."), {"tool": signature.name, "name": name})
            yield ActivityFault(f"{place}.{name}", "unknown_target", message)
        else:
            yield from _faults_of_source(f"{place}.{name}", source, declared.get(name), reach, signature)
    for name, parameter in declared.items():
        if parameter.required and name not in sources:
            template = _("“{tool}” requires “{name}”. Choose its source.")
            message = Wording(template, {"tool": signature.name, "name": name})
            yield ActivityFault(f"{place}.{name}", "missing_input", message)


def faults_in_outputs(
    place: str, sources: Mapping[str, Source], interface: Signature | None, reach: Reach
) -> Iterator[ActivityFault]:
    """Yield the faults of the outputs of the activity."""
    declared = None if interface is None else {parameter.name: parameter for parameter in interface.outputs}
    for name, source in sources.items():
        # A tool that lists no outputs may answer with any.
        if interface is not None and declared and name not in declared and not interface.outputs_rest:
            yield ActivityFault(f"{place}.{name}", "unknown_target", no_output(interface, name))
        else:
            target = declared.get(name) if declared else None
            yield from _faults_of_source(f"{place}.{name}", source, target, reach, None)


def faults(place: str, source: Source, reach: Reach) -> Iterator[ActivityFault]:
    """Yield the faults of a source whose target accepts any value."""
    yield from _faults_of_source(place, source, None, reach, None)


def _faults_of_source(
    place: str, source: Source, target: Parameter | None, reach: Reach, signature: Signature | None
) -> Iterator[ActivityFault]:
    choices = [bool(source.input), source.value is not UNSET, bool(source.step or source.output)]
    if sum(choices) != 1 or bool(source.step) != bool(source.output) or source.step < 0:
        reason: str = Wording(_("Choose one: an input, an output of an earlier step, or a fixed value."))
    else:
        reason = why_no_pointer(source.at)
    if reason:
        yield ActivityFault(place, "unclear_source", reason)
    elif source.value is not UNSET:
        other_keywords = signature.schema_rest if signature else None
        if (
            target
            and signature
            and (reason := arguments.value_problem(target, source.value, other_keywords or {}))
        ):
            message = Wording(_("The fixed value {reason}."), {"reason": reason})
            yield ActivityFault(place, "unfit_value", message)
    elif source.step > len(reach.outputs):
        message = Wording(_("Step {step} does not run before this one."), {"step": source.step})
        yield ActivityFault(place, "unknown_source", message)
    elif source.step:
        # A tool that lists no outputs may answer with any.
        if offered := reach.outputs[source.step - 1]:
            yield from _faults_of_picked(place, source, offered, target, is_input=False)
    elif reach.inputs is not None:
        yield from _faults_of_picked(place, source, reach.inputs, target, is_input=signature is not None)


def why_no_pointer(text: str) -> str:
    if _POINTER.fullmatch(text) and len(text) <= MAX_POINTER_LENGTH:
        return ""
    return Wording(_("“{text}” is no JSON pointer. Write one as “/member/0”."), {"text": text[:100]})


def no_output(interface: Signature, name: str) -> Wording:
    return Wording(_("“{tool}” has no output “{name}”."), {"tool": interface.name, "name": name})


def _faults_of_picked(
    place: str,
    source: Source,
    offered_parameters: Mapping[str, Parameter],
    target: Parameter | None,
    *,
    is_input: bool,
) -> Iterator[ActivityFault]:
    name = source.output or source.input
    parameter = offered_parameters.get(name)
    if parameter is None:
        template = (
            _("Step {step} has no output “{name}”.")
            if source.step
            else _("The interface has no input “{name}”.")
        )
        message = Wording(template, {"step": source.step, "name": name})
        yield ActivityFault(place, "unknown_source", message)
        return
    may_be_absent = not parameter.required and parameter.default is UNSET and source.otherwise is UNSET
    if is_input and may_be_absent and target and target.required:
        template = _("“{name}” is optional, and “{target}” is required. Choose what to send without it.")
        message = Wording(template, {"name": name, "target": target.name})
        yield ActivityFault(place, "may_be_missing", message)
    if target and not source.at and conversions.conversion_fit(parameter, target) == "no":
        template = _("“{name}” is {type}, which cannot become {target_type} for “{target}”.")
        types = {"type": _describe_type(parameter), "target_type": _describe_type(target)}
        message = Wording(template, {"name": name, "target": target.name, **types})
        yield ActivityFault(place, "unfit_type", message)


def _describe_type(parameter: Parameter) -> str:
    return "JSON" if parameter.type == "json" else Wording(_("of type {type}"), {"type": parameter.type})
