"""What is wrong with the arguments of a call, found out by the signature's schema before anything is sent.

There is one validator, core/schema/validation, and one rule: an object is open unless its schema closes it.
What a schema that was shown to a model accepts is sent as it was given.
"""

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.schema import error_messages, subschemas, validation
from core.schema.unknown_names import UnknownName, unknown_names
from core.schema.validation import Checked, Fault
from protocols import parameters
from protocols.base import Note
from protocols.signature import Parameter, Signature

UNKNOWN = "is not an input of this tool"
# What is wrong with the inputs together goes by this name.
TOGETHER = ""
TOO_LARGE = "is too large or too deeply nested to be sent"
MAX_REASONS = 3  # for one input
# Larger whole numbers stay as they were written: from here on JavaScript, too, writes an exponent.
MAX_WRITTEN_OUT = 10**21
UNKNOWN_INPUT = "UNKNOWN_INPUT"
# Digests of schemas by the id of a signature, for as long as that is in memory.
_digests: dict[int, str] = {}


def inputs_schema(signature: Signature) -> Any:
    """Return the JSON Schema of the inputs. A protocol without schemas lists all inputs that there are."""
    rest = {"additionalProperties": False} if signature.schema_rest is None else signature.schema_rest
    return parameters.write(signature.inputs, rest)


def problems(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return why arguments do not fit, by input name; all reasons at once.

    Null for an input that does not accept null means that it is not given.
    """
    whole = _whole(signature)
    inputs, faults = _judged(signature, arguments)
    reasons = {name: UNKNOWN for name in inputs if name != whole.name} if whole else {}
    if whole and whole.name not in inputs:
        return reasons | ({whole.name: "is required"} if whole.required else {})
    if not faults:
        return reasons
    if faults == [_TOO_LARGE]:
        large = {name: TOO_LARGE for name, value in inputs.items() if validation.is_too_large(value)}
        return large or {TOGETHER: f"What is given {TOO_LARGE}."}
    # A value of another type is none of the allowed values, either.
    mistyped = {fault.path for fault in faults if fault.keyword == "type"}
    faults = [fault for fault in faults if fault.keyword != "enum" or fault.path not in mistyped]
    by_name: dict[str, list[str]] = {}
    for fault in sorted(faults, key=lambda fault: error_messages.place(fault.path)):
        name = str(fault.path[0]) if fault.path else TOGETHER
        by_name.setdefault(name, []).append(_reason(signature, fault))
    if any(len(fault.path) == 1 for fault in faults):
        # What is wrong with one input is usually why the inputs do not fit together.
        by_name.pop(TOGETHER, None)
    return reasons | {name: "; ".join(found[:MAX_REASONS]) for name, found in by_name.items()}


def why_not(parameter: Parameter, value: object, rest: Mapping[str, Any]) -> str:
    """Return why one input cannot accept `value`, by its own schema alone; "" when it can.

    `rest` is the signature's, for the definitions that the input's schema may refer to.
    """
    around = ("$schema", "$id", *subschemas.DEFINITIONS)
    kept = {keyword: rest[keyword] for keyword in around if keyword in rest}
    alone = Signature(name="", description="", inputs=(parameter,), schema_rest=kept)
    if value is None and not given(alone, {parameter.name: None}):
        return "must not be null"
    return problems(alone, {parameter.name: value}).get(parameter.name, "")


def given(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are sent: without null for those that do not accept it."""
    if None in arguments.values():
        return _judged(signature, arguments)[0]
    return {name: with_whole_numbers(value) for name, value in arguments.items()}


def with_whole_numbers(value: Any) -> Any:
    """Return the same JSON value with 5.0 written as 5, at any depth.

    JSON Schema counts a number with a zero fraction as an integer (validation, 6.1.1), but a program that
    parses `?n=5.0` does not.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_WRITTEN_OUT:
        return int(value)
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: with_whole_numbers(member) for name, member in value.items()}
    return value


def unchecked(signature: Signature) -> str:
    """Return a sentence about the vendor's rules that cannot be checked here; "" when there are none."""
    return _compiled(signature).remark


def unknown_inputs(signature: Signature, arguments: Mapping[str, Any]) -> list[UnknownName]:
    """Return the names that were sent and that the signature does not describe."""
    known = {parameter.name for parameter in signature.inputs}
    if arguments.keys() <= known and not any(isinstance(each, dict | list) for each in arguments.values()):
        return []
    schema = _compiled(signature).schema
    if whole := _whole(signature):
        found = unknown_names(schema, arguments.get(whole.name))
        return [UnknownName((whole.name, *each.path), each.proposal) for each in found]
    return unknown_names(schema, dict(arguments))


def note_on(name: UnknownName) -> Note:
    where = error_messages.place(name.path)
    message = f"“{where}” is not an input that this tool describes. It was passed on as it is."
    if name.proposal:
        message += f" Perhaps “{name.proposal}” was meant."
    return Note(UNKNOWN_INPUT, message, input=where, proposal=name.proposal)


_TOO_LARGE = Fault((), TOO_LARGE)


def _judged(signature: Signature, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the arguments that are sent, with what is wrong with them."""
    inputs = {name: with_whole_numbers(value) for name, value in arguments.items()}
    faults = _faults(signature, inputs)
    nulls = {name for name, value in inputs.items() if value is None} if faults else ()
    if nulls:
        refused = nulls & {fault.path[0] for fault in faults if len(fault.path) == 1} or nulls
        inputs = {name: value for name, value in inputs.items() if name not in refused}
        faults = _faults(signature, inputs)
    return inputs, faults


def _faults(signature: Signature, inputs: dict[str, Any]) -> list[Fault]:
    whole = _whole(signature)
    if whole and whole.name not in inputs:
        return []
    value = inputs[whole.name] if whole else inputs
    faults = validation.faults_or_too_large(_compiled(signature), value)
    if faults is None:
        return [_TOO_LARGE]
    return [replace(each, path=(whole.name, *each.path)) for each in faults] if whole else faults


def _whole(signature: Signature) -> Parameter | None:
    inputs = signature.inputs
    return inputs[0] if len(inputs) == 1 and inputs[0].is_whole else None


def _compiled(signature: Signature) -> Checked:
    key = id(signature)
    if (digest := _digests.get(key)) and (ready := validation.compiled(digest)):
        return ready
    schema = inputs_schema(signature)
    if digest is None:
        _digests[key] = validation.digest_of(schema)
        # Before another signature can get its id.
        weakref.finalize(signature, _digests.pop, key, None).atexit = False
    return validation.checked(schema)


def _reason(signature: Signature, fault: Fault) -> str:
    if not fault.path:
        return f"The inputs do not fit together: what is given {fault.why}."
    if len(fault.path) > 1:
        return f"{error_messages.place(fault.path)} {fault.why}"
    if fault.why == error_messages.UNKNOWN:
        return UNKNOWN
    is_defaulted = any(each.max_defaulted and each.name == fault.path[0] for each in signature.inputs)
    if is_defaulted and fault.keyword == "maximum":
        return f"{fault.why}, as the vendor names no maximum of its own"
    return fault.why
