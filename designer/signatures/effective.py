"""The signature that a model sees: the vendor's with tuned texts, the same on every surface.

The agent's tuning takes precedence over the catalog's, and that over the vendor's text, member by member. The
vendor's names are stored with the aliases, so that a call can be mapped back.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from core.content_cache import ObjectCache
from core.translatable import Wording
from core.translatable import mark as _
from designer.signatures import model_names
from designer.signatures.words import NOTHING, OutputWords, ParameterWords, ValueWords, Words, merge_words
from protocols import parameters as json_schema
from protocols.calls import arguments
from protocols.signature import Annotations, Parameter, Requirements, Signature, ToolKind

# A transfer to a sub-agent appears as a tool; no vendor offers it.
ShownKind = ToolKind | Literal["transfer"]


class EffectiveInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a model sees. With a preset it is optional: the preset is the default.

    is_named: a designer chose the alias. hidden_values: accepted by the vendor, but not offered to the model.
    """

    alias: str
    parameter: Parameter
    preset: Any = UNSET
    is_named: bool = False
    hidden_values: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """Return the name for formats that accept any text as a name."""
        return self.alias if self.is_named else self.parameter.name

    @property
    def is_required(self) -> bool:
        return self.parameter.required and self.preset is UNSET


class HiddenInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a model never sees: every call sends the preset, or omits the input."""

    parameter: Parameter
    preset: Any = UNSET


class Output(msgspec.Struct, frozen=True, kw_only=True):
    alias: str
    parameter: Parameter


# Weak references remove a tool's derived data from the cache.
class Effective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, weakref=True):
    """A tool's signature as a model sees it.

    name: the model's name of the tool. wire_name: the vendor's.
    hidden_outputs: left out of a call's answer.
    """

    name: str
    wire_name: str
    description: str
    title: str = ""
    img: str = ""
    tags: tuple[str, ...] = ()
    inputs: tuple[EffectiveInput, ...] = ()
    hidden: tuple[HiddenInput, ...] = ()
    outputs: tuple[Output, ...] = ()
    hidden_outputs: tuple[Parameter, ...] = ()
    annotations: Annotations = Annotations()
    requirements: Requirements = Requirements()
    kind: ShownKind = "tool"
    schema_rest: dict[str, Any] | None = None
    outputs_rest: dict[str, Any] | None = None

    @property
    def vendor_input_names(self) -> list[str]:
        """Return the vendor's input names, visible or hidden."""
        return [*(i.parameter.name for i in self.inputs), *(h.parameter.name for h in self.hidden)]


class Misfit(msgspec.Struct, frozen=True):
    """Tuned texts that this version cannot apply. `exposes`: something hidden would become visible.

    parameter: the input or output. place: the path of the member if it is not an input.
    """

    parameter: str
    message: str
    exposes: bool
    place: str = ""

    @property
    def path(self) -> str:
        return self.place or f"parameters.{self.parameter}"


MAX_NAMES = 20  # of one tool, whose signatures are shared
_untuned: ObjectCache[dict[str, Effective]] = ObjectCache()


def effective(
    signature: Signature, *, name: str, catalog_tuning: Words | None = None, agent_tuning: Words | None = None
) -> Effective:
    """Return the effective signature, which is always callable: texts that do not fit (`misfits`) are
    ignored.
    """
    catalog_words, agent_words = catalog_tuning or NOTHING, agent_tuning or NOTHING
    # Most tools are not tuned, and every list builds this for each of its tools.
    words = (
        agent_words
        if catalog_words == NOTHING
        else catalog_words
        if agent_words == NOTHING
        else merge_words(catalog_words, agent_words)
    )
    if words != NOTHING:
        return _build_effective(signature, words, name)
    # By the name, which is another one in each agent that has renamed the tool.
    by_name = _untuned.get(signature, dict)
    result = by_name.get(name)
    if result is None:
        if len(by_name) >= MAX_NAMES:
            by_name.clear()
        result = by_name[name] = _build_effective(signature, words, name)
    return result


def _build_effective(signature: Signature, words: Words, name: str) -> Effective:
    inputs, hidden_inputs = _effective_inputs(signature, words)
    out = model_names.aliases(parameter.name for parameter in signature.outputs)
    outputs = {p.name: words.outputs.get(p.name, OutputWords()) for p in signature.outputs}
    stated = msgspec.to_builtins(words.effects) if words.effects else {}
    return Effective(
        name=name,
        wire_name=signature.name,
        description=signature.description if words.description is None else words.description,
        title=signature.title if words.title is None else words.title,
        img=signature.img,
        tags=signature.tags,
        inputs=inputs,
        hidden=hidden_inputs,
        outputs=tuple(
            Output(alias=out[p.name], parameter=_with_description(p, outputs[p.name].description))
            for p in signature.outputs
            if not outputs[p.name].hidden
        ),
        hidden_outputs=tuple(p for p in signature.outputs if outputs[p.name].hidden),
        annotations=replace(signature.annotations, **stated),
        requirements=signature.requirements,
        kind=signature.kind,
        schema_rest=signature.schema_rest and signature.enforced_rest,
        outputs_rest=signature.outputs_rest,
    )


def _with_description(parameter: Parameter, description: str | None) -> Parameter:
    return parameter if description is None else replace(parameter, description=description)


def _effective_inputs(
    signature: Signature, words: Words
) -> tuple[tuple[EffectiveInput, ...], tuple[HiddenInput, ...]]:
    """Return the inputs that the model sees, and the hidden ones."""
    keys = model_names.aliases(parameter.name for parameter in signature.inputs)
    visible: list[EffectiveInput] = []
    hidden: list[HiddenInput] = []
    for vendor_input in signature.inputs:
        if vendor_input.name not in words.parameters:
            visible.append(EffectiveInput(alias=keys[vendor_input.name], parameter=vendor_input))
            continue
        tuned = words.parameters[vendor_input.name]
        is_named = tuned.name is not None and not _why_not_name(signature, words, vendor_input.name)
        parameter, hidden_values = _tuned_parameter(vendor_input, tuned)
        preset = UNSET if _why_not_preset(vendor_input, tuned, signature) else tuned.preset
        if tuned.hidden and not (vendor_input.required and preset is UNSET):
            hidden.append(HiddenInput(parameter=parameter, preset=preset))
            continue
        visible.append(
            EffectiveInput(
                alias=tuned.name if is_named and tuned.name else keys[vendor_input.name],
                parameter=parameter,
                preset=preset,
                is_named=is_named,
                hidden_values=hidden_values,
            )
        )
    return tuple(visible), tuple(hidden)


def _tuned_parameter(vendors: Parameter, tuned: ParameterWords) -> tuple[Parameter, tuple[str, ...]]:
    """Return the input as a model reads it, and its hidden values."""
    parameter = _with_description(vendors, tuned.description)
    value_names = {value.name for value in vendors.allowed_values}
    tuned_values = {name: value_words for name, value_words in tuned.values.items() if name in value_names}
    hidden = {name for name, value_words in tuned_values.items() if value_words.hidden}
    if hidden == value_names:
        hidden = set()
    descriptions = {
        name: value_words.description
        for name, value_words in tuned_values.items()
        if value_words.description is not None
    }
    if not hidden and not descriptions:
        return parameter, ()
    values = tuple(
        replace(value, description=descriptions.get(value.name, value.description))
        for value in vendors.allowed_values
        if value.name not in hidden
    )
    parameter = replace(parameter, allowed_values=values)
    if isinstance(parameter.default, str) and parameter.default in hidden:
        parameter = replace(parameter, default=UNSET)
    if isinstance(vendors.schema, dict):
        # A schema cannot describe values, so tuned descriptions of values follow the description.
        meanings = [
            f"- {v.name}: {v.description}" for v in values if v.name in descriptions and v.description
        ]
        text = "\n".join(filter(None, [parameter.description, *meanings]))
        visible_names = [value.name for value in values]
        schema = (
            json_schema.without_values(vendors.schema, hidden, visible_names) if hidden else vendors.schema
        )
        parameter = replace(parameter, description=text, schema=schema)
    return parameter, tuple(value.name for value in vendors.allowed_values if value.name in hidden)


def as_document(tool: Effective) -> dict[str, Any]:
    """Return the signature for people and scripts: parameters flat, empty lists included."""

    def flat(held: EffectiveInput | HiddenInput | Output) -> dict[str, Any]:
        members: dict[str, Any] = msgspec.to_builtins(held)
        return {**members.pop("parameter"), **members}

    return {
        **msgspec.to_builtins(tool),
        "title": tool.title,
        "tags": list(tool.tags),
        "inputs": [flat(visible) for visible in tool.inputs],
        "hidden": [flat(hidden) for hidden in tool.hidden],
        "outputs": [flat(output) for output in tool.outputs],
    }


def misfits(signature: Signature, words: Words) -> list[Misfit]:
    """Return the tuned texts that `effective` ignores, for a user to check before publishing."""
    misfit_list = []
    inputs = {parameter.name: parameter for parameter in signature.inputs}
    for name, tuned in words.parameters.items():
        path = f"parameters.{name}"
        if name not in inputs:
            misfit_list.append(
                Misfit(name, Wording(_("This version has no input “{name}”."), {"name": name}), exposes=False)
            )
            continue
        if tuned.name is not None and (reason := _why_not_name(signature, words, name)):
            misfit_list.append(Misfit(name, reason, exposes=False, place=f"{path}.name"))
        hides = bool(tuned.hidden)
        if reason := _why_not_preset(inputs[name], tuned, signature):
            misfit_list.append(Misfit(name, reason, exposes=hides))
        elif hides and inputs[name].required and tuned.preset is UNSET:
            template = _("“{name}” is required. Enter a preset, or let the model see it.")
            message = Wording(template, {"name": name})
            misfit_list.append(Misfit(name, message, exposes=True))
        value_names = {value.name for value in inputs[name].allowed_values}
        for value in tuned.values.keys() - value_names:
            template = _("“{name}” has no value “{value}” in this version.")
            message = Wording(template, {"name": name, "value": value})
            misfit_list.append(Misfit(name, message, exposes=False, place=f"{path}.values.{value}"))
        if value_names and value_names <= {
            value for value, value_words in tuned.values.items() if value_words.hidden
        }:
            template = _("All values of “{name}” are hidden. Leave one, or hide the input.")
            message = Wording(template, {"name": name})
            misfit_list.append(Misfit(name, message, exposes=True, place=f"{path}.values"))
    outputs = {parameter.name for parameter in signature.outputs}
    for name in words.outputs:
        if name not in outputs:
            message = Wording(_("This version has no output “{name}”."), {"name": name})
            misfit_list.append(Misfit(name, message, exposes=False, place=f"outputs.{name}"))
    return misfit_list


def _why_not_name(signature: Signature, words: Words, name: str) -> str:
    """Return why the tuned name of this input cannot be used; "" if it can."""
    tuned_name = words.parameters[name].name or ""
    if not model_names.is_property(tuned_name):
        template = _("“{name}” is not a name that every model accepts: letters, digits and _, at most 64.")
        return Wording(template, {"name": tuned_name})
    aliases = model_names.aliases(parameter.name for parameter in signature.inputs)
    for other, alias in aliases.items():
        other_words = words.parameters.get(other)
        used_names = {other.lower(), alias.lower(), ((other_words and other_words.name) or alias).lower()}
        if other != name and tuned_name.lower() in used_names:
            template = _("“{name}” is a name of another input, “{other}”.")
            return Wording(template, {"name": tuned_name, "other": other})
    return ""


def _why_not_preset(parameter: Parameter, tuned: ParameterWords, signature: Signature) -> str:
    if reason := why_not_preset(parameter, tuned.preset, signature.schema_rest):
        return reason
    is_hidden = isinstance(tuned.preset, str) and tuned.values.get(tuned.preset, ValueWords()).hidden
    # The preset may be sensitive.
    template = _("“{name}”: the preset is a value that is hidden.")
    return Wording(template, {"name": parameter.name}) if is_hidden else ""


def why_not_preset(parameter: Parameter, value: object, root: Mapping[str, Any] | None = None) -> str:
    """Return why `value` cannot be sent as this input; "" if it can, or is UNSET.

    root: the signature's definitions, which the input's schema may refer to.
    """
    if value is UNSET:
        return ""
    if parameter.schema is not None:
        reason = arguments.value_problem(parameter, value, root or {})
        values = {"name": parameter.name, "reason": reason}
        return Wording(_("“{name}”: {reason}."), values) if reason else ""
    if parameter.type == "enum":
        allowed = [allowed.name for allowed in parameter.allowed_values]
        if isinstance(value, str) and (value in allowed or not allowed):
            return ""
        if not allowed:
            return Wording(_("This must be a text."))
        values = {"name": parameter.name, "values": ", ".join(allowed)}
        return Wording(_("“{name}” must be one of: {values}."), values)
    if parameter.type == "json":
        return ""
    value = arguments.with_whole_numbers(value)
    types, template = _ACCEPTED_TYPES[parameter.type]
    # To Python, true and false are whole numbers.
    is_odd = isinstance(value, bool) != (parameter.type == "boolean")
    if is_odd or not isinstance(value, types) or (isinstance(value, float) and not math.isfinite(value)):
        return Wording(template, {"name": parameter.name})
    if isinstance(value, str):
        is_long = parameter.max_length is not None and len(value) > parameter.max_length
        limit = {"name": parameter.name, "count": parameter.max_length}
        return Wording(_("“{name}” may have at most {count} characters."), limit) if is_long else ""
    return "" if isinstance(value, bool) else _why_out_of_bounds(parameter, value)


_ACCEPTED_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, _("“{name}” must be a text.")),
    "int": (int, _("“{name}” must be a whole number.")),
    "number": ((int, float), _("“{name}” must be a number.")),
    "boolean": (bool, _("“{name}” must be true or false.")),
}


def _why_out_of_bounds(parameter: Parameter, value: Any) -> str:
    if parameter.min is not None and value < parameter.min:
        values = {"name": parameter.name, "limit": parameter.min}
        return Wording(_("“{name}” must be at least {limit}."), values)
    if parameter.max is not None and value > parameter.max:
        values = {"name": parameter.name, "limit": parameter.max}
        return Wording(_("“{name}” must be at most {limit}."), values)
    return ""
