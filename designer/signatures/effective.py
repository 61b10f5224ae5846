"""What a model is shown: the vendor's signature with our words in it, the same on every surface.

The agent's tuning goes before the catalog's, the catalog's before the vendor's text, member by
member. The vendor's own names stay beside the aliases, so that a call finds its way back.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from designer.signatures import model_names
from designer.signatures.words import NOTHING, OutputWords, ParameterWords, ValueWords, Words, merged
from protocols import parameters as json_schema
from protocols.calls import arguments
from protocols.signature import Annotations, Parameter, Requirements, Signature, ToolKind

# A transfer to a sub-agent is shown as a tool; no vendor offers it.
ShownKind = ToolKind | Literal["transfer"]


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a model sees. With a preset it need not be given: the preset stands in.

    `is_named`: a designer chose the alias. `hidden_values` are those that the vendor takes and a model may
    not give.
    """

    alias: str
    parameter: Parameter
    preset: Any = UNSET
    is_named: bool = False
    hidden_values: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """For formats that take any text as a name."""
        return self.alias if self.is_named else self.parameter.name

    @property
    def is_required(self) -> bool:
        return self.parameter.required and self.preset is UNSET


class Hidden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a model never sees: every call sends the preset, or leaves the input out."""

    parameter: Parameter
    preset: Any = UNSET


class Output(msgspec.Struct, frozen=True, kw_only=True):
    alias: str
    parameter: Parameter


# Weak references tell the runtime when what it keeps of a tool may go.
class Effective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, weakref=True):
    """`name` is the model's name of the tool and `wire_name` the vendor's.

    What `hidden_outputs` name is left out of what a call answers.
    """

    name: str
    wire_name: str
    description: str
    title: str = ""
    img: str = ""
    tags: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    outputs: tuple[Output, ...] = ()
    hidden_outputs: tuple[Parameter, ...] = ()
    annotations: Annotations = Annotations()
    requirements: Requirements = Requirements()
    kind: ShownKind = "tool"
    schema_rest: dict[str, Any] | None = None
    outputs_rest: dict[str, Any] | None = None

    @property
    def taken(self) -> list[str]:
        """What the vendor takes, by its own names, shown or hidden."""
        return [*(i.parameter.name for i in self.inputs), *(h.parameter.name for h in self.hidden)]


class Misfit(msgspec.Struct, frozen=True):
    """Words that this version cannot honour. `exposes` says that something hidden would show.

    `parameter` is the input or output that they are about, `place` where they stand if that is no input.
    """

    parameter: str
    message: str
    exposes: bool
    place: str = ""

    @property
    def path(self) -> str:
        return self.place or f"parameters.{self.parameter}"


def effective(
    signature: Signature, *, name: str, catalog_tuning: Words | None = None, agent_tuning: Words | None = None
) -> Effective:
    """Always gives a signature that can be called: words that do not fit it (`misfits`) are set aside."""
    below, above = catalog_tuning or NOTHING, agent_tuning or NOTHING
    # Most tools are not tuned, and every list builds this for each of its tools.
    words = above if below == NOTHING else below if above == NOTHING else merged(below, above)
    keys = model_names.aliases(parameter.name for parameter in signature.inputs)
    shown: list[Input] = []
    hidden: list[Hidden] = []
    for vendors in signature.inputs:
        if vendors.name not in words.parameters:
            shown.append(Input(alias=keys[vendors.name], parameter=vendors))
            continue
        ours = words.parameters[vendors.name]
        is_named = ours.name is not None and not _why_not_name(signature, words, vendors.name)
        parameter, hidden_values = _reworded(vendors, ours)
        preset = UNSET if _why_not_preset(vendors, ours, signature) else ours.preset
        if ours.hidden and not (vendors.required and preset is UNSET):
            hidden.append(Hidden(parameter=parameter, preset=preset))
            continue
        shown.append(
            Input(
                alias=ours.name if is_named and ours.name else keys[vendors.name],
                parameter=parameter,
                preset=preset,
                is_named=is_named,
                hidden_values=hidden_values,
            )
        )
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
        inputs=tuple(shown),
        hidden=tuple(hidden),
        outputs=tuple(
            Output(alias=out[p.name], parameter=_described(p, outputs[p.name].description))
            for p in signature.outputs
            if not outputs[p.name].hidden
        ),
        hidden_outputs=tuple(p for p in signature.outputs if outputs[p.name].hidden),
        annotations=replace(signature.annotations, **stated),
        requirements=signature.requirements,
        kind=signature.kind,
        schema_rest=signature.schema_rest,
        outputs_rest=signature.outputs_rest,
    )


def _described(parameter: Parameter, description: str | None) -> Parameter:
    return parameter if description is None else replace(parameter, description=description)


def _reworded(vendors: Parameter, ours: ParameterWords) -> tuple[Parameter, tuple[str, ...]]:
    """The input as a model reads it, and the values that it may not give."""
    parameter = _described(vendors, ours.description)
    known = {value.name for value in vendors.allowed_values}
    said = {name: about for name, about in ours.values.items() if name in known}
    hidden = {name for name, about in said.items() if about.hidden}
    if hidden == known:
        hidden = set()
    worded = {name: about.description for name, about in said.items() if about.description is not None}
    if not hidden and not worded:
        return parameter, ()
    values = tuple(
        replace(value, description=worded.get(value.name, value.description))
        for value in vendors.allowed_values
        if value.name not in hidden
    )
    parameter = replace(parameter, allowed_values=values)
    if isinstance(parameter.default, str) and parameter.default in hidden:
        parameter = replace(parameter, default=UNSET)
    if isinstance(vendors.schema, dict):
        # A schema has no place for what a value means, so our words about values follow the description.
        meanings = [f"- {v.name}: {v.description}" for v in values if v.name in worded and v.description]
        text = "\n".join(filter(None, [parameter.description, *meanings]))
        kept = [value.name for value in values]
        schema = json_schema.without_values(vendors.schema, hidden, kept) if hidden else vendors.schema
        parameter = replace(parameter, description=text, schema=schema)
    return parameter, tuple(value.name for value in vendors.allowed_values if value.name in hidden)


def as_document(tool: Effective) -> dict[str, Any]:
    """For people and scripts: parameters flat, and no list left out for being empty."""

    def flat(held: Input | Hidden | Output) -> dict[str, Any]:
        members: dict[str, Any] = msgspec.to_builtins(held)
        return {**members.pop("parameter"), **members}

    return {
        **msgspec.to_builtins(tool),
        "title": tool.title,
        "tags": list(tool.tags),
        "inputs": [flat(shown) for shown in tool.inputs],
        "hidden": [flat(hidden) for hidden in tool.hidden],
        "outputs": [flat(output) for output in tool.outputs],
    }


def misfits(signature: Signature, words: Words) -> list[Misfit]:
    """What `effective` sets aside, for a person to look at before it is published."""
    found = []
    inputs = {parameter.name: parameter for parameter in signature.inputs}
    for name, ours in words.parameters.items():
        at = f"parameters.{name}"
        if name not in inputs:
            found.append(Misfit(name, f"This version has no input “{name}”.", exposes=False))
            continue
        if ours.name is not None and (why := _why_not_name(signature, words, name)):
            found.append(Misfit(name, why, exposes=False, place=f"{at}.name"))
        hides = bool(ours.hidden)
        if why := _why_not_preset(inputs[name], ours, signature):
            found.append(Misfit(name, why, exposes=hides))
        elif hides and inputs[name].required and ours.preset is UNSET:
            message = f"“{name}” is required: give it a preset, or let the model see it."
            found.append(Misfit(name, message, exposes=True))
        known = {value.name for value in inputs[name].allowed_values}
        for value in ours.values.keys() - known:
            message = f"“{name}” has no value “{value}” in this version."
            found.append(Misfit(name, message, exposes=False, place=f"{at}.values.{value}"))
        if known and known <= {value for value, about in ours.values.items() if about.hidden}:
            message = f"All values of “{name}” are hidden. Leave one, or hide the input."
            found.append(Misfit(name, message, exposes=True, place=f"{at}.values"))
    outputs = {parameter.name for parameter in signature.outputs}
    for name in words.outputs:
        if name not in outputs:
            message = f"This version has no output “{name}”."
            found.append(Misfit(name, message, exposes=False, place=f"outputs.{name}"))
    return found


def _why_not_name(signature: Signature, words: Words, name: str) -> str:
    """Why our name for this input cannot be shown; empty when it can.

    A call may go by the names of any format, so a name that another input has in one of them is taken.
    """
    ours = words.parameters[name].name or ""
    if not model_names.is_property(ours):
        return f"“{ours}” is no name that every model takes: letters, digits and _, at most 64."
    aliases = model_names.aliases(parameter.name for parameter in signature.inputs)
    for other, alias in aliases.items():
        about = words.parameters.get(other)
        taken = {other.lower(), alias.lower(), ((about and about.name) or alias).lower()}
        if other != name and ours.lower() in taken:
            return f"“{ours}” is a name of another input, “{other}”."
    return ""


def _why_not_preset(parameter: Parameter, ours: ParameterWords, signature: Signature) -> str:
    if why := why_not_preset(parameter, ours.preset, signature.schema_rest):
        return why
    is_hidden = isinstance(ours.preset, str) and ours.values.get(ours.preset, ValueWords()).hidden
    return f"“{parameter.name}”: the preset “{ours.preset}” is a value that is hidden." if is_hidden else ""


def why_not_preset(parameter: Parameter, value: object, rest: Mapping[str, Any] | None = None) -> str:
    """A sentence that says why `value` cannot be sent as this input; empty when it can, or is UNSET.

    `rest` is the signature's, for the definitions that the input's schema may refer to.
    """
    if value is UNSET:
        return ""
    if parameter.schema is not None:
        why = arguments.value_problem(parameter, value, rest or {})
        return f"“{parameter.name}”: {why}." if why else ""
    if parameter.type == "enum":
        return _why_not_listed(parameter, value)
    if parameter.type == "json":
        return ""
    value = arguments.with_whole_numbers(value)
    types, called = _TAKEN[parameter.type]
    # To Python, true and false are whole numbers.
    is_odd = isinstance(value, bool) != (parameter.type == "boolean")
    if is_odd or not isinstance(value, types) or (isinstance(value, float) and not math.isfinite(value)):
        return f"“{parameter.name}” takes {called}."
    if isinstance(value, str):
        is_long = parameter.max_length is not None and len(value) > parameter.max_length
        return f"“{parameter.name}” takes at most {parameter.max_length} characters." if is_long else ""
    return "" if isinstance(value, bool) else _why_out_of_bounds(parameter, value)


_TAKEN: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "a text"),
    "int": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
}


def _why_out_of_bounds(parameter: Parameter, value: Any) -> str:
    if parameter.min is not None and value < parameter.min:
        return f"“{parameter.name}” takes no less than {parameter.min}."
    if parameter.max is not None and value > parameter.max:
        return f"“{parameter.name}” takes no more than {parameter.max}."
    return ""


def _why_not_listed(parameter: Parameter, value: object) -> str:
    allowed = [allowed.name for allowed in parameter.allowed_values]
    if isinstance(value, str) and (value in allowed or not allowed):
        return ""
    return f"“{parameter.name}” takes one of: {', '.join(allowed)}." if allowed else "This takes a text."
