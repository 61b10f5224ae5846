"""Validate the arguments of a call by the schema of the signature, before anything is sent.

core/schema/validation is the only validator, with one rule: an object is open unless its schema closes it.
Arguments that the schema shown to a model accepts are sent unchanged.
"""

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core import canonical_json
from core.schema import error_messages, subschemas, validation
from core.schema.unknown_names import UnknownName, unknown_names
from core.schema.validation import CompiledSchema, Fault
from protocols import parameters
from protocols.list_pages import Note
from protocols.signature import Parameter, Signature

UNKNOWN = "is not an input of this tool"
# The key of errors about the inputs as a whole.
TOGETHER = ""
TOO_LARGE = "is too large or too deeply nested to be sent"
MAX_REASONS = 3  # for one input
# Larger numbers keep their exponent, as in JavaScript.
MAX_INTEGER = 10**21
UNKNOWN_INPUT = "UNKNOWN_INPUT"
# Digests of schemas by the id() of a signature, while the signature is in memory.
_digests: dict[int, str] = {}


def inputs_schema(signature: Signature) -> Any:
    """Return the JSON Schema by which inputs are validated."""
    return parameters.write_schema(signature.inputs, signature.enforced_rest)


def find_problems(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return all reasons why arguments are invalid, by input name.

    Null for an input that does not accept null counts as absent.
    """
    whole_parameter = _whole_parameter(signature)
    inputs, faults = _checked_inputs(signature, arguments)
    reasons = {name: UNKNOWN for name in inputs if name != whole_parameter.name} if whole_parameter else {}
    if whole_parameter and whole_parameter.name not in inputs:
        return reasons | ({whole_parameter.name: "is required"} if whole_parameter.required else {})
    if not faults:
        return reasons
    if faults == [_TOO_LARGE]:
        large = {name: TOO_LARGE for name, value in inputs.items() if validation.is_too_large(value)}
        return large or {TOGETHER: f"The value {TOO_LARGE}."}
    # A value of the wrong type would also be reported as not allowed.
    mistyped = {fault.path for fault in faults if fault.keyword == "type"}
    faults = [fault for fault in faults if fault.keyword != "enum" or fault.path not in mistyped]
    by_name: dict[str, list[str]] = {}
    for fault in sorted(faults, key=lambda fault: error_messages.place(fault.path)):
        name = str(fault.path[0]) if fault.path else TOGETHER
        by_name.setdefault(name, []).append(_explain_fault(signature, fault))
    if any(len(fault.path) == 1 for fault in faults):
        # An error in one input is usually the cause of an error in the whole.
        by_name.pop(TOGETHER, None)
    return reasons | {
        name: "; ".join([*dict.fromkeys(texts)][:MAX_REASONS]) for name, texts in by_name.items()
    }


def value_problem(parameter: Parameter, value: object, schema_rest: Mapping[str, Any]) -> str:
    """Return why one input does not accept `value`, by its own schema; "" if it does.

    schema_rest: that of the signature, with the definitions that the schema may refer to.
    """
    keywords = ("$schema", "$id", *subschemas.DEFINITIONS)
    definitions = {keyword: schema_rest[keyword] for keyword in keywords if keyword in schema_rest}
    signature = Signature(name="", description="", inputs=(parameter,), schema_rest=definitions)
    if value is None and not arguments_to_send(signature, {parameter.name: None}):
        return "must not be null"
    return find_problems(signature, {parameter.name: value}).get(parameter.name, "")


def arguments_to_send(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments to send: without null for inputs that do not accept it."""
    if None in arguments.values():
        return _checked_inputs(signature, arguments)[0]
    return {name: with_whole_numbers(value) for name, value in arguments.items()}


def with_whole_numbers(value: Any) -> Any:
    """Return the JSON value with 5 in place of 5.0, at any depth.

    For JSON Schema a number with a zero fraction is an integer (validation, 6.1.1), but not for a program
    that parses `?n=5.0`.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_INTEGER:
        return int(value)
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: with_whole_numbers(member) for name, member in value.items()}
    return value


def unchecked(signature: Signature) -> str:
    """Return a sentence about rules of the vendor that Pegboard cannot check; "" without such rules."""
    return _compiled_inputs(signature).remark


def unknown_inputs(signature: Signature, arguments: Mapping[str, Any]) -> list[UnknownName]:
    """Return the names in the arguments that the signature does not describe."""
    names = {parameter.name for parameter in signature.inputs}
    if arguments.keys() <= names and not any(isinstance(value, dict | list) for value in arguments.values()):
        return []
    document = _compiled_inputs(signature).document
    if whole_parameter := _whole_parameter(signature):
        unknown = unknown_names(document, arguments.get(whole_parameter.name))
        return [UnknownName((whole_parameter.name, *name.path), name.proposal) for name in unknown]
    return unknown_names(document, dict(arguments))


def note_on(name: UnknownName) -> Note:
    path = error_messages.place(name.path)
    message = f"This tool does not describe an input “{path}”. It was sent unchanged."
    if name.proposal:
        message += f" Did you mean “{name.proposal}”?"
    return Note(UNKNOWN_INPUT, message, input=path, proposal=name.proposal)


_TOO_LARGE = Fault((), TOO_LARGE)


def _checked_inputs(signature: Signature, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the arguments to send, and their errors."""
    inputs = {name: with_whole_numbers(value) for name, value in arguments.items()}
    faults = _find_faults(signature, inputs)
    # A null that does not fit may mean “no value”, so such inputs are left out.
    nulls = {name for name, value in inputs.items() if value is None} if faults else ()
    if nulls:
        refused = nulls & {fault.path[0] for fault in faults if len(fault.path) == 1} or nulls
        inputs = {name: value for name, value in inputs.items() if name not in refused}
        faults = _find_faults(signature, inputs)
    return inputs, faults


def _find_faults(signature: Signature, inputs: dict[str, Any]) -> list[Fault]:
    whole_parameter = _whole_parameter(signature)
    if whole_parameter and whole_parameter.name not in inputs:
        return []
    value = inputs[whole_parameter.name] if whole_parameter else inputs
    faults = validation.faults_or_too_large(_compiled_inputs(signature), value)
    if faults is None:
        return [_TOO_LARGE]
    return (
        [replace(fault, path=(whole_parameter.name, *fault.path)) for fault in faults]
        if whole_parameter
        else faults
    )


def _whole_parameter(signature: Signature) -> Parameter | None:
    inputs = signature.inputs
    return inputs[0] if len(inputs) == 1 and inputs[0].is_whole else None


def _compiled_inputs(signature: Signature) -> CompiledSchema:
    key = id(signature)
    if (digest := _digests.get(key)) and (ready := validation.compiled(digest)):
        return ready
    schema = inputs_schema(signature)
    if digest is None:
        _digests[key] = canonical_json.digest(schema)
        # Runs before another signature can get the same id().
        weakref.finalize(signature, _digests.pop, key, None).atexit = False
    return validation.checked(schema)


def _explain_fault(signature: Signature, fault: Fault) -> str:
    if not fault.path:
        return f"The inputs as a whole are invalid: the value {fault.why}."
    if len(fault.path) > 1:
        return f"{error_messages.place(fault.path)} {fault.why}"
    if fault.why == error_messages.UNKNOWN:
        return UNKNOWN
    is_defaulted = any(
        parameter.max_defaulted and parameter.name == fault.path[0] for parameter in signature.inputs
    )
    if is_defaulted and fault.keyword == "maximum":
        return f"{fault.why}, because the vendor declares no other maximum"
    return fault.why
