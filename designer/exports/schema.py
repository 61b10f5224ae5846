"""Parameters as JSON Schema, for all formats that use it. docs/exports.md has the mapping.

A vendor's schema is exported unchanged if nothing was tuned. Renamed and hidden members are also renamed in
references to them; rules that may name such a member are left out.
"""

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from msgspec import UNSET, structs

from core.schema import loops, pointers, spelling, subschemas
from core.schema.objects import has_object_type
from designer.exports.wire import output_of_all, whole_input
from designer.signatures.effective import Effective, EffectiveInput
from protocols import parameters as json_schema
from protocols.mcp import document
from protocols.signature import Parameter

# Keywords that name no property, so that they stay valid when one is renamed or hidden.
_HARMLESS = {
    *("$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "$dynamicAnchor"),
    *("additionalProperties", "unevaluatedProperties", "title", "description", "deprecated", "nullable"),
}
# With these keywords an object schema may describe or accept more members than its properties.
_OPENING = {
    *("additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if"),
    *("dependentSchemas", "dependencies", "$ref", "$dynamicRef"),
}
# RFC 3986 characters only: a vendor's text may contain anything, a "uri" may not.
_WEB_ADDRESS = re.compile(
    r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?"
)
Lead = Callable[[tuple[str, ...]], tuple[str, ...]]
TYPES = {"string": "string", "enum": "string", "int": "integer", "number": "number", "boolean": "boolean"}


def of_inputs(tool: Effective) -> dict[str, Any]:
    """Return the schema of the object that a model writes: aliases as keys, without hidden inputs. It
    always has `properties`."""
    if single_input := whole_input(tool):
        return _wrap_input(single_input)
    schema = {"type": "object", "properties": {}} | as_the_vendor_does(tool)
    # Some targets refuse an empty list.
    is_empty = spelling.states_empty(schema, "required")
    return {k: value for k, value in schema.items() if k != "required"} if is_empty else schema


def of_listed_inputs(tool: Effective) -> dict[str, Any]:
    """Return the schema of the object that a list of inputs with types, values and bounds describes, by
    the vendor's names."""
    return {
        "type": "object",
        "properties": {
            visible.shown_name: of_parameter(structs.replace(visible.parameter, schema=None))
            for visible in tool.inputs
        },
        "required": [visible.shown_name for visible in tool.inputs if visible.is_required],
        "additionalProperties": False,
    }


def as_the_vendor_does(tool: Effective) -> dict[str, Any]:
    """Return the input schema as close to the vendor's as a target allows that requires any object."""
    if single_input := whole_input(tool):
        return _as_it_is(single_input) or _wrap_input(single_input)
    other_keywords = tool.schema_rest
    names = {visible.parameter.name: visible.alias for visible in tool.inputs}
    hidden = {hidden.parameter.name: hidden.parameter for hidden in tool.hidden}
    required = [visible.parameter.name for visible in tool.inputs if visible.is_required]
    schema: dict[str, Any] = {"type": "object"}
    if tool.inputs or other_keywords is None or spelling.states_empty(other_keywords, "properties"):
        schema["properties"] = {visible.alias: of_input(visible) for visible in tool.inputs}
    schema |= _order_required(other_keywords or {}, required, {*names, *hidden}, names)
    if other_keywords is None:
        return schema | {"additionalProperties": False}
    return _follow_moved_properties(schema | kept_rest(tool), names, hidden)


def is_in_place(tool: Effective) -> bool:
    """Return whether `as_the_vendor_does` exports the input that contains all inputs as it is."""
    single_input = whole_input(tool)
    return single_input is not None and _as_it_is(single_input) is not None


def of_outputs(tool: Effective) -> dict[str, Any]:
    """Return the schema of the outputs. Without a schema of the vendor's, nothing is required or closed."""
    if single_output := output_of_all(tool):
        schema = of_parameter(single_output.parameter)
        return {"type": "object"} | schema if has_object_type(schema) else schema
    names = {output.parameter.name: output.alias for output in tool.outputs}
    properties = {output.alias: of_parameter(output.parameter) for output in tool.outputs}
    for output in tool.outputs:
        if output.parameter.max_defaulted:
            # The protocol's default limits what a model sends, not what a vendor returns.
            del properties[output.alias]["maximum"]
        elif output.parameter.default is not UNSET:
            properties[output.alias]["default"] = output.parameter.default
    other_keywords = tool.outputs_rest
    if other_keywords is None:
        return {"type": "object", "properties": properties}
    hidden = {parameter.name: parameter for parameter in tool.hidden_outputs}
    required = [output.parameter.name for output in tool.outputs if output.parameter.required]
    is_renamed = bool(hidden) or any(name != alias for name, alias in names.items())
    schema = {"type": other_keywords.get("type") or "object"}
    if properties or spelling.states_empty(other_keywords, "properties"):
        schema["properties"] = properties
    declared = {*names, *hidden}
    schema |= _order_required(other_keywords, required, declared, names) | _remaining_rules(
        other_keywords, is_renamed=is_renamed
    )
    return _follow_moved_properties(schema, names, hidden)


def of_outputs_as_an_object(tool: Effective, *, wraps_all: bool = False) -> tuple[dict[str, Any], str]:
    """Return the output schema for a target that accepts only objects, and the property that contains any
    other output, "" if there is none.

    wraps_all: the output that contains all outputs is always written below one property.
    """
    schema, single_output = of_outputs(tool), output_of_all(tool)
    if schema.get("type") == "object" and not (single_output and wraps_all):
        return schema, ""
    name = single_output.alias if single_output else free("value", {output.alias for output in tool.outputs})
    return below(name, schema), name


def below(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with this schema as its only property. Definitions move out, and
    references follow."""
    defined = ("$schema", "$id", *subschemas.DEFINITIONS)
    outside = {keyword: schema[keyword] for keyword in defined if keyword in schema}
    inside = {keyword: value for keyword, value in schema.items() if keyword not in defined}

    def lead(parts: tuple[str, ...]) -> tuple[str, ...]:
        return parts if parts[:1] in (("$defs",), ("definitions",)) else ("properties", name, *parts)

    return _relocate_references({"type": "object", "properties": {name: inside}, **outside}, lead)


def kept_rest(tool: Effective) -> dict[str, Any]:
    """Return the vendor's keywords about the input object, without those that may name a hidden input.

    Hiding an input closes an open object, so that no call reaches the hidden input by its name. If the vendor
    itself allows other names, the object stays open.
    """
    other_keywords = tool.schema_rest or {}
    exported = _remove_nullable(_remaining_rules(other_keywords, is_renamed=_is_renamed(tool)))
    return (
        exported | {"additionalProperties": False}
        if tool.hidden and not _OPENING & other_keywords.keys()
        else exported
    )


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
    """Return the visible inputs and the outputs of a tool."""
    return [*(visible.parameter for visible in tool.inputs), *(output.parameter for output in tool.outputs)]


def is_open(tool: Effective) -> bool:
    """Return whether the object accepts more than its properties, or has rules beside them."""
    other_keywords = tool.schema_rest
    rules = (
        {}
        if other_keywords is None
        else {k: v for k, v in other_keywords.items() if k not in json_schema.DERIVED}
    )
    return other_keywords is not None and rules != {"additionalProperties": False}


def takes_members(input_schema: Mapping[str, Any]) -> bool:
    """Return whether an input schema describes any member, by its properties or by a rule."""
    return bool(
        spelling.properties_of(input_schema)
        or input_schema.get("additionalProperties")
        or spelling.required_of(input_schema)
    ) or any(
        keyword not in _HARMLESS and keyword not in ("type", "properties", "required", "maxProperties")
        for keyword in input_schema
    )


def is_web_address(text: str) -> bool:
    """Return whether `text` may be given to a client as the address of a picture."""
    return _WEB_ADDRESS.fullmatch(text) is not None


def _remove_nullable(root: dict[str, Any]) -> dict[str, Any]:
    """Return the root of an input schema without a `nullable` that lets null in.

    OpenAPI 3.0 allows null beside an object with it. Arguments are an object in every format, and a target
    that reads the keyword refuses such a tool.
    """
    return {keyword: value for keyword, value in root.items() if (keyword, value) != ("nullable", True)}


def _is_renamed(tool: Effective) -> bool:
    return bool(tool.hidden) or any(visible.alias != visible.parameter.name for visible in tool.inputs)


def _remaining_rules(other_keywords: Mapping[str, Any], *, is_renamed: bool) -> dict[str, Any]:
    return {
        keyword: value
        for keyword, value in other_keywords.items()
        if keyword not in json_schema.DERIVED and (keyword in _HARMLESS or not is_renamed)
    }


def _order_required(
    other_keywords: Mapping[str, Any], required: list[str], declared: set[str], names: Mapping[str, str]
) -> dict[str, Any]:
    # In the vendor's own order, with the names that are required of no property.
    if names_in_order := spelling.required_of(other_keywords):
        required = [name for name in names_in_order if name in required or name not in declared]
    renamed = list(dict.fromkeys(names.get(name, name) for name in required))
    return {"required": renamed} if renamed or spelling.states_empty(other_keywords, "required") else {}


def _as_it_is(visible: EffectiveInput) -> dict[str, Any] | None:
    # The input that contains all inputs may itself be an object, such as one with blank names.
    schema = _remove_nullable(of_input(visible))
    is_fit = schema.get("type") == "object" and spelling.has_described_properties(schema)
    return schema if is_fit else None


def _wrap_input(visible: EffectiveInput) -> dict[str, Any]:
    # Every target requires an object, so the input that contains all inputs becomes its only property.
    required = {"required": [visible.alias]} if visible.is_required else {}
    return below(visible.alias, of_input(visible)) | required | {"additionalProperties": False}


def free(wanted: str, taken: set[str]) -> str:
    return next(name for number in count() if (name := wanted + "_" * number) not in taken)


def _follow_moved_properties(
    schema: dict[str, Any], names: Mapping[str, str], hidden: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Return the schema with references that point to the new paths of properties. Hidden ones become
    definitions."""
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
    schema = _relocate_references(schema, lead)
    while missing := [
        name for name in hidden if name in moved and f"hidden {name}" not in spelling.definitions_of(schema)
    ]:
        definitions = {
            f"hidden {name}": _relocate_references(of_parameter(hidden[name]), lead) for name in missing
        }
        schema = {**schema, "$defs": {**spelling.definitions_of(schema), **definitions}}
    return schema


def _relocate_references(schema: dict[str, Any], lead: Lead) -> dict[str, Any]:
    """Return the schema with references that `lead` has changed. It is a copy if it has references."""

    def change(reference: str) -> str:
        try:
            steps = pointers.split_fragment(reference) if loops.is_pointer(reference) else None
        except pointers.PointerError:
            return reference
        return reference if steps is None or lead(steps) == steps else pointers.join_fragment(lead(steps))

    if not loops.has_references(schema):
        return schema
    changed: dict[str, Any] = spelling.with_changed_references(schema, change)
    return changed


def of_input(visible: EffectiveInput) -> dict[str, Any]:
    schema = of_parameter(visible.parameter)
    default = visible.parameter.default if visible.preset is UNSET else visible.preset
    if default is not UNSET:
        schema["default"] = default
    return schema


def of_parameter(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter.schema, dict):
        return _with_tuned_texts(parameter.schema, parameter)
    if parameter.type == "json" or parameter.unsupported_type:
        # Not every client takes true and false for schemas.
        return _with_tuned_texts({"not": {}} if parameter.schema is False else {}, parameter)
    schema: dict[str, Any] = {"type": TYPES[parameter.type]}
    if parameter.title:
        schema["title"] = parameter.title
    if description := described(parameter):
        schema["description"] = description
    # Vendors put limits on types that have none; JSON Schema ignores a keyword of another type.
    if parameter.allowed_values and schema["type"] == "string":
        schema["enum"] = list(dict.fromkeys(value.name for value in parameter.allowed_values))
    if parameter.max_length is not None and parameter.type == "string":
        schema["maxLength"] = parameter.max_length
    if parameter.type in ("int", "number"):
        bounds = {"minimum": parameter.min, "maximum": parameter.max}
        schema |= {keyword: bound for keyword, bound in bounds.items() if bound is not None}
    return schema


# Keywords that may contain the texts of a schema; the only form of a union has those of the union.
_WITH_TEXTS = frozenset(("title", "description", "anyOf", "oneOf"))


def _with_tuned_texts(schema: Mapping[str, Any], parameter: Parameter) -> dict[str, Any]:
    """Return the vendor's schema with the tuned texts where they differ from the vendor's."""
    tuned_schema = dict(schema)
    tuned_texts = (parameter.title, parameter.description)
    if not any(tuned_texts) and _WITH_TEXTS.isdisjoint(schema):
        return tuned_schema  # such as a reference: neither side has a text
    for member, vendor_text, text in zip(
        ("title", "description"), json_schema.title_and_description(schema), tuned_texts, strict=True
    ):
        if text != vendor_text or not isinstance(tuned_schema.get(member, ""), str):
            tuned_schema.pop(member, None)
            tuned_schema |= {member: text} if text else {}
    return tuned_schema


def described(parameter: Parameter) -> str:
    # The description, followed by what each allowed value means: JSON Schema has no place for that.
    meanings = [
        f"- {value.name}: {value.description}" for value in parameter.allowed_values if value.description
    ]
    return "\n".join([parameter.description, *meanings] if parameter.description else meanings)
