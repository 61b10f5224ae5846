"""Parameters as JSON Schema, shared by the formats that speak it. The mapping is in docs/exports.md.

A vendor's own schema goes along unchanged as far as nothing was tuned. What was renamed or hidden is
also renamed in references that lead there; rules that may name it are left out.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from msgspec import UNSET, structs

from core.schema import pointers, subschemas
from designer.exports.wire import output_of_all, whole_input
from designer.signatures.effective import Effective, Input
from protocols import parameters as json_schema
from protocols.mcp import document
from protocols.signature import Parameter

# Keywords that name no property, so that they hold whatever was renamed or hidden.
_HARMLESS = {
    *("$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "$dynamicAnchor"),
    *("additionalProperties", "unevaluatedProperties", "title", "description", "deprecated", "nullable"),
}
# By these an object schema may describe or invite more members than its properties.
_OPENING = {
    *("additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if"),
    *("dependentSchemas", "dependencies", "$ref", "$dynamicRef"),
}
# RFC 3986 characters only: a vendor's text may hold anything, a "uri" may not.
_WEB_ADDRESS = re.compile(
    r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?"
)
Lead = Callable[[tuple[str, ...]], tuple[str, ...]]
TYPES = {"string": "string", "enum": "string", "int": "integer", "number": "number", "boolean": "boolean"}


def of_inputs(tool: Effective) -> dict[str, Any]:
    """The object a model fills in: aliases as keys, hidden inputs left out. It always has `properties`."""
    if whole := whole_input(tool):
        return _wrapped(whole)
    schema = {"type": "object", "properties": {}} | as_the_vendor_does(tool)
    if not schema.get("required", True):
        del schema["required"]
    return schema


def of_listed_inputs(tool: Effective) -> dict[str, Any]:
    """The object that a list of inputs with types, values and bounds describes, by the vendor's names."""
    return {
        "type": "object",
        "properties": {
            shown.shown_name: of_parameter(structs.replace(shown.parameter, schema=None))
            for shown in tool.inputs
        },
        "required": [shown.shown_name for shown in tool.inputs if shown.is_required],
        "additionalProperties": False,
    }


def as_the_vendor_does(tool: Effective) -> dict[str, Any]:
    """The same, as close to the vendor's own schema as a target lets us that asks for any object."""
    if whole := whole_input(tool):
        return _as_it_is(whole) or _wrapped(whole)
    rest = tool.schema_rest
    names = {shown.parameter.name: shown.alias for shown in tool.inputs}
    hidden = {hidden.parameter.name: hidden.parameter for hidden in tool.hidden}
    required = [shown.parameter.name for shown in tool.inputs if shown.is_required]
    schema: dict[str, Any] = {"type": "object"}
    if tool.inputs or rest is None or rest.get("properties") == {}:
        schema["properties"] = {shown.alias: of_input(shown) for shown in tool.inputs}
    schema |= _required(rest or {}, required, {*names, *hidden}, names)
    if rest is None:
        return schema | {"additionalProperties": False}
    return _led_on(schema | kept_rest(tool), names, hidden)


def is_in_place(tool: Effective) -> bool:
    """Whether `as_the_vendor_does` shows the input that stands for all as what it is."""
    whole = whole_input(tool)
    return whole is not None and _as_it_is(whole) is not None


def of_outputs(tool: Effective) -> dict[str, Any]:
    """What comes back. Without a schema of the vendor's own, nothing is required or closed."""
    if whole := output_of_all(tool):
        schema = of_parameter(whole.parameter)
        return {"type": "object"} | schema if _is_an_object(schema) else schema
    names = {output.parameter.name: output.alias for output in tool.outputs}
    properties = {output.alias: _of_output(output.parameter) for output in tool.outputs}
    rest = tool.outputs_rest
    if rest is None:
        return {"type": "object", "properties": properties}
    hidden = {parameter.name: parameter for parameter in tool.hidden_outputs}
    required = [output.parameter.name for output in tool.outputs if output.parameter.required]
    is_renamed = bool(hidden) or any(name != alias for name, alias in names.items())
    schema = {"type": rest.get("type") or "object"}
    if properties or rest.get("properties") == {}:
        schema["properties"] = properties
    known = {*names, *hidden}
    schema |= _required(rest, required, known, names) | _rules(rest, is_renamed=is_renamed)
    return _led_on(schema, names, hidden)


def of_outputs_as_an_object(tool: Effective, *, wraps_all: bool = False) -> tuple[dict[str, Any], str]:
    """The same for a target that takes nothing but objects, and the one property that holds what is none; ""
    where all is as it was. `wraps_all`: the output that stands for all goes below itself whatever it is."""
    schema, whole = of_outputs(tool), output_of_all(tool)
    if schema.get("type") == "object" and not (whole and wraps_all):
        return schema, ""
    name = whole.alias if whole else free("value", {output.alias for output in tool.outputs})
    return below(name, schema), name


def below(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """An object with this schema as its only property. Definitions move out, and references follow."""
    defined = ("$schema", "$id", *subschemas.DEFINITIONS)
    outside = {keyword: schema[keyword] for keyword in defined if keyword in schema}
    inside = {keyword: value for keyword, value in schema.items() if keyword not in defined}

    def lead(parts: tuple[str, ...]) -> tuple[str, ...]:
        return parts if parts[:1] in (("$defs",), ("definitions",)) else ("properties", name, *parts)

    return _relocated({"type": "object", "properties": {name: inside}, **outside}, lead)


def kept_rest(tool: Effective) -> dict[str, Any]:
    """Return the vendor's keywords about the input object, without those that may name a hidden input.

    Hiding an input closes an open object, so that no call reaches the hidden input by its name. Where the
    vendor itself invites other names, the object stays open.
    """
    rest = tool.schema_rest or {}
    kept = _remove_nullable(_rules(rest, is_renamed=_is_renamed(tool)))
    return kept | {"additionalProperties": False} if tool.hidden and not _OPENING & rest.keys() else kept


def has_rules(tool: Effective) -> bool:
    return any(
        keyword not in _HARMLESS and keyword not in json_schema.DERIVED for keyword in tool.schema_rest or {}
    )


def leaves_rules_out(tool: Effective) -> bool:
    return has_rules(tool) and _is_renamed(tool)


def hints(tool: Effective) -> dict[str, bool]:
    """Return the effects that the vendor states, under MCP's names without their suffix."""
    return {
        name.removesuffix("Hint"): value for name, value in document.write_hints(tool.annotations).items()
    }


def parameters(tool: Effective) -> list[Parameter]:
    """What is shown of a tool, going in and coming out."""
    return [*(shown.parameter for shown in tool.inputs), *(output.parameter for output in tool.outputs)]


def is_open(tool: Effective) -> bool:
    """Whether the object may hold more than its properties say, or rules beside them."""
    rest = tool.schema_rest
    said = {} if rest is None else {k: v for k, v in rest.items() if k not in json_schema.DERIVED}
    return rest is not None and said != {"additionalProperties": False}


def takes_members(written: Mapping[str, Any]) -> bool:
    """Whether an input schema describes any member, by its properties or by a rule."""
    return bool(
        written.get("properties") or written.get("additionalProperties") or written.get("required")
    ) or any(
        keyword not in _HARMLESS and keyword not in ("type", "properties", "required", "maxProperties")
        for keyword in written
    )


def is_web_address(text: str) -> bool:
    """Whether a client may be handed `text` as the address of a picture."""
    return _WEB_ADDRESS.fullmatch(text) is not None


def _remove_nullable(root: dict[str, Any]) -> dict[str, Any]:
    """Return the root of an input schema without a `nullable` that lets null in.

    OpenAPI 3.0 allows null beside an object with it. Arguments are an object in every format, and a target
    that reads the keyword refuses such a tool.
    """
    return {keyword: value for keyword, value in root.items() if (keyword, value) != ("nullable", True)}


def _is_renamed(tool: Effective) -> bool:
    return bool(tool.hidden) or any(shown.alias != shown.parameter.name for shown in tool.inputs)


def _is_an_object(schema: dict[str, Any]) -> bool:
    """Whether all that fits is an object, though the type stands further down, where few clients look."""
    waiting, seen = [schema], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict) or id(each) in seen:
            continue
        seen.add(id(each))
        if each.get("type") == "object":
            return True
        inner = each.get("allOf")
        waiting += inner if isinstance(inner, list) else []
        with suppress(LookupError):
            waiting.append(pointers.resolve_reference(schema, str(each.get("$ref"))))
    return False


def _rules(rest: Mapping[str, Any], *, is_renamed: bool) -> dict[str, Any]:
    return {
        keyword: value
        for keyword, value in rest.items()
        if keyword not in json_schema.DERIVED and (keyword in _HARMLESS or not is_renamed)
    }


def _required(
    rest: Mapping[str, Any], required: list[str], known: set[str], names: Mapping[str, str]
) -> dict[str, Any]:
    # In the vendor's own order, with the names that are required of no property.
    listed = rest.get("required")
    if isinstance(listed, list):
        wanted = [name for name in listed if isinstance(name, str)]
        required = [name for name in wanted if name in required or name not in known]
    found = list(dict.fromkeys(names.get(name, name) for name in required))
    return {"required": found} if found or listed == [] else {}


def _as_it_is(shown: Input) -> dict[str, Any] | None:
    # An input that stands for the whole and is an object all the same, such as one with blank names.
    schema = _remove_nullable(of_input(shown))
    properties = schema.get("properties", {})
    is_fit = isinstance(properties, dict) and all(isinstance(each, dict) for each in properties.values())
    return schema if schema.get("type") == "object" and is_fit else None


def _wrapped(shown: Input) -> dict[str, Any]:
    # Every target wants an object. An input that stands for the whole becomes its only property.
    required = {"required": [shown.alias]} if shown.is_required else {}
    return below(shown.alias, of_input(shown)) | required | {"additionalProperties": False}


def free(wanted: str, taken: set[str]) -> str:
    return next(name for number in count() if (name := wanted + "_" * number) not in taken)


def _led_on(
    schema: dict[str, Any], names: Mapping[str, str], hidden: Mapping[str, Parameter]
) -> dict[str, Any]:
    """References to properties lead to where those are now; the hidden ones are kept as definitions."""
    moved: set[str] = set()

    def lead(parts: tuple[str, ...]) -> tuple[str, ...]:
        if parts[:1] != ("properties",) or len(parts) < 2:
            return parts
        if parts[1] in hidden:
            moved.add(parts[1])
            return ("$defs", f"hidden {parts[1]}", *parts[2:])
        return ("properties", names.get(parts[1], parts[1]), *parts[2:])

    if not hidden and all(name == alias for name, alias in names.items()):
        return schema
    schema = _relocated(schema, lead)
    while wanted := [
        name for name in hidden if name in moved and f"hidden {name}" not in schema.get("$defs", {})
    ]:
        kept = {f"hidden {name}": _relocated(of_parameter(hidden[name]), lead) for name in wanted}
        schema = {**schema, "$defs": {**schema.get("$defs", {}), **kept}}
    return schema


def _relocated(schema: dict[str, Any], lead: Lead) -> dict[str, Any]:
    def change(each: dict[str, Any]) -> dict[str, Any]:
        reference = each.get("$ref")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return each
        try:
            parts = pointers.split_fragment(reference)
        except pointers.PointerError:
            return each
        led = lead(parts)
        return each if led == parts else {**each, "$ref": pointers.join_fragment(led)}

    changed: dict[str, Any] = subschemas.mapped(schema, change)
    return changed


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
    elif parameter.default is not UNSET:
        schema["default"] = parameter.default
    return schema


def of_parameter(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter.schema, dict):
        return _worded(parameter.schema, parameter)
    if parameter.type == "json" or parameter.unsupported_type:
        # Not every client takes true and false for schemas.
        return _worded({"not": {}} if parameter.schema is False else {}, parameter)
    schema: dict[str, Any] = {"type": TYPES[parameter.type]}
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
        bounds = {"minimum": parameter.min, "maximum": parameter.max}
        schema |= {keyword: bound for keyword, bound in bounds.items() if bound is not None}
    return schema


def _worded(schema: Mapping[str, Any], parameter: Parameter) -> dict[str, Any]:
    """The vendor's schema with our words where they differ from what it says itself."""
    worded = dict(schema)
    ours = (parameter.title, parameter.description)
    for member, said, text in zip(("title", "description"), json_schema.words(schema), ours, strict=True):
        if text != said or not isinstance(worded.get(member, ""), str):
            worded.pop(member, None)
            worded |= {member: text} if text else {}
    return worded


def described(parameter: Parameter) -> str:
    # The description, followed by what each allowed value means: JSON Schema has no place for that.
    meanings = [
        f"- {value.name}: {value.description}" for value in parameter.allowed_values if value.description
    ]
    return "\n".join([parameter.description, *meanings] if parameter.description else meanings)
