"""Parameters as JSON Schema, shared by the formats that speak it. The mapping is in docs/exports.md."""

import re
from typing import Any

from msgspec import UNSET

from catalog.protocols.signature import Parameter
from designer.effective import Effective, Input

# Keywords that name no property, so that they hold whatever was renamed or hidden.
_HARMLESS = {"$schema", "$defs", "definitions", "additionalProperties", "title", "description"}
# RFC 3986 characters only: a vendor's text may hold anything, a "uri" may not.
_WEB_ADDRESS = re.compile(
    r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?"
)
_TYPES = {"string": "string", "enum": "string", "int": "integer", "number": "number", "boolean": "boolean"}


def of_inputs(tool: Effective) -> dict[str, Any]:
    """The object a model fills in: aliases as keys, hidden inputs left out."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {shown.alias: of_input(shown) for shown in tool.inputs},
    }
    if required := [shown.alias for shown in tool.inputs if shown.is_required]:
        schema["required"] = required
    if tool.schema_rest is None:
        schema["additionalProperties"] = False
    else:
        schema |= kept_rest(tool)
    return schema


def of_outputs(tool: Effective) -> dict[str, Any]:
    """What comes back. A vendor may leave outputs out and add new ones: nothing is required or closed."""
    return {
        "type": "object",
        "properties": {output.alias: _of_output(output.parameter) for output in tool.outputs},
    }


def kept_rest(tool: Effective) -> dict[str, Any]:
    """The vendor's keywords about the input object, but none that may name an input that is not there."""
    rest = tool.schema_rest or {}
    if not tool.hidden and all(shown.alias == shown.parameter.name for shown in tool.inputs):
        return rest
    return {keyword: value for keyword, value in rest.items() if keyword in _HARMLESS}


def has_rules(tool: Effective) -> bool:
    return any(keyword not in _HARMLESS for keyword in tool.schema_rest or {})


def is_web_address(text: str) -> bool:
    """Whether a client may be handed `text` as the address of a picture."""
    return _WEB_ADDRESS.fullmatch(text) is not None


def of_input(shown: Input) -> dict[str, Any]:
    schema = of_parameter(shown.parameter)
    default = shown.parameter.default if shown.preset is UNSET else shown.preset
    if default is not UNSET:
        schema["default"] = default
    return schema


def _of_output(parameter: Parameter) -> dict[str, Any]:
    schema = of_parameter(parameter)
    if parameter.max_defaulted:
        # The protocol's default protects what a model sends; what a vendor answers it does not bound.
        del schema["maximum"]
    return schema


def of_parameter(parameter: Parameter) -> dict[str, Any]:
    if parameter.type == "json" or parameter.unsupported_type:
        return _of_json(parameter)
    schema: dict[str, Any] = {"type": _TYPES[parameter.type]}
    if parameter.title:
        schema["title"] = parameter.title
    if description := described(parameter):
        schema["description"] = description
    # Vendors put limits on types that have none; a keyword of another type says nothing in a schema.
    if parameter.allowed_values and schema["type"] == "string":
        schema["enum"] = list(dict.fromkeys(value.name for value in parameter.allowed_values))
    if parameter.max_length is not None and parameter.type == "string":
        schema["maxLength"] = parameter.max_length
    if parameter.type in ("int", "number"):
        schema |= _bounds(parameter)
    return schema


def _bounds(parameter: Parameter) -> dict[str, float]:
    bounds = {"minimum": parameter.min, "maximum": parameter.max}
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None}


def described(parameter: Parameter) -> str:
    """The description, followed by what each allowed value means: JSON Schema has no place for that."""
    meanings = [
        f"- {value.name}: {value.description}" for value in parameter.allowed_values if value.description
    ]
    return "\n".join([parameter.description, *meanings] if parameter.description else meanings)


def _of_json(parameter: Parameter) -> dict[str, Any]:
    if parameter.schema is False:
        schema: dict[str, Any] = {"not": {}}
    else:
        schema = dict(parameter.schema) if isinstance(parameter.schema, dict) else {}
    if parameter.title:
        schema["title"] = parameter.title
    if parameter.description:
        schema["description"] = parameter.description
    return schema
