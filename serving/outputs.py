"""Check outputs that a model gives itself against the schema that it saw."""

from typing import Any

import msgspec

from core.errors import DomainError
from core.schema import error_messages, validation
from designer.exports import outputs
from designer.signatures.effective import Effective
from execution.calls.results import MAX_OUTPUTS_BYTES

MAX_FAULTS = 20


def parse_output(
    tool: Effective, output: object, format_: str = "", *, member_name: str = "output"
) -> dict[str, Any]:
    """Return the output by the signature's names. Raises DomainError if it does not fit; `member_name` is the
    caller's name for it.
    """
    if not isinstance(output, dict):
        raise _unfit_error({member_name: "must be an object"})
    if validation.is_too_large(output) or len(msgspec.json.encode(output)) > MAX_OUTPUTS_BYTES:
        raise _unfit_error({member_name: "is too large or too deeply nested"})
    ready = validation.checked(outputs.schema_of(tool, format_))
    if faults := validation.faults(ready, output)[:MAX_FAULTS]:
        raise _unfit_error({error_messages.place((member_name, *fault.path)): fault.why for fault in faults})
    return outputs.by_signature(tool, output, format_)


def _unfit_error(fields: dict[str, str]) -> DomainError:
    name, reason = next(iter(fields.items()))
    message = f"The output does not fit its schema: {name} {reason}."
    return DomainError("invalid_output", message, fields=fields)
