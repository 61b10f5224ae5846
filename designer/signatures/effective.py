"""What a model is shown: the vendor's signature with our words in it, the same on every surface.

The agent's tuning goes before the catalog's, the catalog's before the vendor's text, member by
member. The vendor's own names stay beside the aliases, so that a call finds its way back.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from catalog.protocols.calls import arguments
from catalog.protocols.signature import Annotations, Parameter, Requirements, Signature, ToolKind
from designer.signatures import model_names


class ParameterWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Our words about one input. None and UNSET leave it as it was inherited."""

    description: str | None = None
    hidden: bool | None = None
    preset: Any = UNSET


class Words(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tuning, without where it is kept. `parameters` goes by the vendor's parameter name."""

    description: str | None = None
    parameters: dict[str, ParameterWords] = {}


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input that a model sees. With a preset it need not be given: the preset stands in."""

    alias: str
    parameter: Parameter
    preset: Any = UNSET

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


class Effective(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`name` is the model's name of the tool and `wire_name` the vendor's."""

    name: str
    wire_name: str
    description: str
    title: str = ""
    img: str = ""
    tags: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    outputs: tuple[Output, ...] = ()
    annotations: Annotations = Annotations()
    requirements: Requirements = Requirements()
    kind: ToolKind = "tool"
    schema_rest: dict[str, Any] | None = None
    outputs_rest: dict[str, Any] | None = None

    @property
    def taken(self) -> list[str]:
        """What the vendor takes, by its own names, shown or hidden."""
        return [*(i.parameter.name for i in self.inputs), *(h.parameter.name for h in self.hidden)]


class Misfit(msgspec.Struct, frozen=True):
    """A tuned input that this version cannot honour. `exposes` says that a hidden input would show."""

    parameter: str
    message: str
    exposes: bool


NOTHING = Words()


def effective(
    signature: Signature, *, name: str, catalog_tuning: Words | None = None, agent_tuning: Words | None = None
) -> Effective:
    """Always gives a signature that can be called: words that do not fit it (`misfits`) are set aside."""
    words = merged(catalog_tuning or NOTHING, agent_tuning or NOTHING)
    keys = model_names.aliases(parameter.name for parameter in signature.inputs)
    shown: list[Input] = []
    hidden: list[Hidden] = []
    for vendors in signature.inputs:
        ours = words.parameters.get(vendors.name, ParameterWords())
        parameter = vendors
        if ours.description is not None:
            parameter = msgspec.structs.replace(vendors, description=ours.description)
        preset = UNSET if why_not_preset(vendors, ours.preset, signature.schema_rest) else ours.preset
        if ours.hidden and not (vendors.required and preset is UNSET):
            hidden.append(Hidden(parameter=parameter, preset=preset))
        else:
            shown.append(Input(alias=keys[vendors.name], parameter=parameter, preset=preset))
    out = model_names.aliases(parameter.name for parameter in signature.outputs)
    return Effective(
        name=name,
        wire_name=signature.name,
        description=signature.description if words.description is None else words.description,
        title=signature.title,
        img=signature.img,
        tags=signature.tags,
        inputs=tuple(shown),
        hidden=tuple(hidden),
        outputs=tuple(Output(alias=out[p.name], parameter=p) for p in signature.outputs),
        annotations=signature.annotations,
        requirements=signature.requirements,
        kind=signature.kind,
        schema_rest=signature.schema_rest,
        outputs_rest=signature.outputs_rest,
    )


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


def merged(below: Words, above: Words) -> Words:
    """`above` goes first, member by member."""
    parameters = dict(below.parameters)
    for name, words in above.parameters.items():
        under = parameters.get(name, ParameterWords())
        parameters[name] = ParameterWords(
            description=under.description if words.description is None else words.description,
            hidden=under.hidden if words.hidden is None else words.hidden,
            preset=under.preset if words.preset is UNSET else words.preset,
        )
    return Words(
        description=below.description if above.description is None else above.description,
        parameters=parameters,
    )


def misfits(signature: Signature, words: Words) -> list[Misfit]:
    """What `effective` sets aside, for a person to look at before it is published."""
    found = []
    inputs = {parameter.name: parameter for parameter in signature.inputs}
    for name, ours in words.parameters.items():
        if name not in inputs:
            found.append(Misfit(name, f"This version has no input “{name}”.", exposes=False))
            continue
        hides = bool(ours.hidden)
        if why := why_not_preset(inputs[name], ours.preset, signature.schema_rest):
            found.append(Misfit(name, why, exposes=hides))
        elif hides and inputs[name].required and ours.preset is UNSET:
            message = f"“{name}” is required: give it a preset, or let the model see it."
            found.append(Misfit(name, message, exposes=True))
    return found


def why_not_preset(parameter: Parameter, value: object, rest: Mapping[str, Any] | None = None) -> str:
    """A sentence that says why `value` cannot be sent as this input; empty when it can, or is UNSET.

    `rest` is the signature's, for the definitions that the input's schema may refer to.
    """
    if value is UNSET:
        return ""
    if parameter.schema is not None:
        why = arguments.why_not(parameter, value, rest or {})
        return f"“{parameter.name}”: {why}." if why else ""
    if parameter.type == "enum":
        return _why_not_listed(parameter, value)
    if parameter.type == "json":
        return ""
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
