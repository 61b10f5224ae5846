"""What an export format is: one function and its target's limits as data.

How to add one: docs/exports.md. A format knows no Django and no database; it gets a release
document and returns one of its own.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from core.schema import validation
from designer.exports import inputs, judge, round_trip, schema, transfers
from designer.exports.content_cache import ContentCache, digest
from designer.exports.contracts import WHOLE, Contract
from designer.exports.document import ReleaseDocument
from designer.exports.inputs import WrittenInputs, WrittenOutputs
from designer.exports.parts import Places
from designer.exports.round_trip import Exported
from designer.exports.wire import Wire, by_alias, by_vendors_name
from designer.signatures.effective import Effective
from protocols.signature import Parameter, ParameterType

JSON = "application/json"
ALL_TYPES: frozenset[ParameterType] = frozenset(("string", "int", "number", "boolean", "enum", "json"))


class Remark(msgspec.Struct, frozen=True):
    """What a designer should know about a release in one format.

    `blocks`: the format cannot carry this tool, so the release cannot be exported in it.
    `warns`: some users of the format will refuse it. `loses`: carried, but not all of it.
    """

    level: Literal["blocks", "warns", "loses"]
    code: str
    tool: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A target's rules, with where and when they were read. None: the target sets no limit.

    `carries` names the members of a signature that the target has a place for, out of `MEMBERS`. A format
    `of` procedures writes these, and needs no tools. `contract` lists what the target refuses of names and
    schemas. `shows_vendors_schema`: a schema of any object goes out as the vendor wrote it. `as_listed` adds
    the members that a rule describes to the inputs, for a target that has nothing but a list of inputs.
    """

    source: str
    date: str
    carries: frozenset[str]
    of: Literal["tools", "procedures"] = "tools"
    tool_description: int | None = None
    advised_description: int | None = None
    advised_tools: int | None = None
    input_types: frozenset[ParameterType] = ALL_TYPES
    output_types: frozenset[ParameterType] = ALL_TYPES
    enum_value: re.Pattern[str] | None = None
    enum_description: int | None = None
    whole_bounds: bool = False
    needs_output: bool = False
    outputs_are_objects: bool = False
    contract: Contract = WHOLE
    shows_vendors_schema: bool = False
    as_listed: Callable[[Effective], Effective] | None = None
    verdicts: ContentCache[tuple[Remark, ...]] = field(
        init=False, repr=False, compare=False, default_factory=ContentCache
    )


@dataclass(frozen=True, kw_only=True)
class Format:
    """`name` is what a URL says. `write` gets the tools that fit the limits and returns anything that JSON
    can hold, or bytes: `media_type` and `suffix`, of a file name, say what these are. `wire` is the way back
    from the names that it writes, by default a model's aliases. `places` is where it writes each tool; a
    format of procedures has none. One that says what carries a tool out has `resolve`, which writes that into
    a tool as `write` has it: "" where the model itself answers. `accepts` is the JSON Schema of the arguments
    that its callers may send, where that is not the schema of its dialect.
    """

    name: str
    label: str
    limits: Limits
    write: Callable[[ReleaseDocument], object]
    wire: Callable[[Effective], Wire] = by_alias
    media_type: str = JSON
    suffix: str = "json"
    places: Places | None = None
    resolve: Callable[[dict[str, Any], str], None] | None = None
    accepts: Callable[[Effective], Any] | None = None

    @property
    def is_text(self) -> bool:
        return self.media_type == JSON

    def body(self, release: ReleaseDocument) -> bytes:
        document = self.write(release)
        return document if isinstance(document, bytes) else msgspec.json.encode(document)


# Members that a format may have no place for: how to see one, and what is lost with it.
MEMBERS: dict[str, tuple[Callable[[Effective], bool], str]] = {
    "title": (lambda e: bool(e.title), "its display title"),
    "img": (lambda e: bool(e.img), "its picture"),
    "tags": (lambda e: bool(e.tags), "its tags"),
    "outputs": (lambda e: bool(e.outputs), "what it returns"),
    "annotations": (
        lambda e: bool(msgspec.to_builtins(e.annotations)),
        "the vendor's hints about its effects",
    ),
    "rules": (schema.has_rules, "the rules that tie its inputs together"),
    "schemas": (
        lambda e: any(p.schema is not None for p in schema.parameters(e)),
        "the finer rules of its inputs and outputs",
    ),
    "defaults": (
        lambda e: any(
            i.preset is not msgspec.UNSET or i.parameter.default is not msgspec.UNSET for i in e.inputs
        ),
        "the values that stand in for inputs that are not given",
    ),
    "presets": (
        lambda e: any(hidden.preset is not msgspec.UNSET for hidden in e.hidden),
        "the presets of hidden inputs, so the caller must add them",
    ),
}


def remarks(release: ReleaseDocument, limits: Limits) -> list[Remark]:
    if limits.of == "procedures":
        return list(_about_procedures(release))
    found = [remark for tool in release.tools for remark in _evaluate(tool.signature, limits)]
    # A target may take the last of two, or refuse the request; either way a call could mean the other tool.
    for name, times in Counter(tool.signature.name for tool in release.tools).items():
        if times > 1:
            message = f"{times} tools are called “{name}”. Give each a name of its own."
            found.append(Remark("blocks", "duplicate_name", name, message))
    if limits.advised_tools is not None and len(release.tools) > limits.advised_tools:
        message = f"{len(release.tools)} tools; at most {limits.advised_tools} may be sent in one request."
        found.append(Remark("warns", "too_many_tools", "", message))
    return found


@dataclass(frozen=True)
class Carried:
    """What a format makes of a release: the tools that it can carry, and the names of those left out."""

    fitting: ReleaseDocument
    left_out: list[str]
    remarks: list[Remark]

    @property
    def is_whole(self) -> bool:
        return not self.blocking

    @property
    def is_partial(self) -> bool:
        # Some tools have to be left out, and some can be carried.
        return bool(self.left_out and self.fitting.tools)

    @property
    def is_any(self) -> bool:
        return self.is_whole or self.is_partial

    @property
    def blocking(self) -> list[Remark]:
        return [remark for remark in self.remarks if remark.level == "blocks"]


def carried(release: ReleaseDocument, limits: Limits) -> Carried:
    """One judgement for every format: what blocks a tool leaves that tool out, and no other. Transfers are
    among the tools."""
    release = transfers.shown(release)
    found = remarks(release, limits)
    blocked = {remark.tool for remark in found if remark.level == "blocks"}
    fitting = tuple(tool for tool in release.tools if tool.signature.name not in blocked)
    left_out = [tool.signature.name for tool in release.tools if tool.signature.name in blocked]
    return Carried(msgspec.structs.replace(release, tools=fitting), left_out, found)


def _evaluate(signature: Effective, limits: Limits) -> tuple[Remark, ...]:
    return limits.verdicts.get(digest(signature), lambda: tuple(_about(signature, limits)))


def _about_procedures(release: ReleaseDocument) -> Iterator[Remark]:
    if not release.procedures:
        message = "This release has no procedures, and this format holds nothing else: write one, publish."
        yield Remark("blocks", "no_procedures", "", message)
    elif release.tools:
        message = "The tools go by name and description only. Read them in another format as well."
        yield Remark("loses", "tools_by_name", "", message)


def _about(signature: Effective, limits: Limits) -> Iterator[Remark]:
    signature = signature if limits.as_listed is None else limits.as_listed(signature)
    name = signature.name
    if limits.as_listed and not signature.inputs and schema.takes_members(schema.of_inputs(signature)):
        message = f"“{name}” takes inputs that are not listed by name, and this format has no place for them."
        yield Remark("blocks", "inputs_not_listed", name, message)
    yield from _about_description(signature, limits)
    for parameter in (shown.parameter for shown in signature.inputs):
        yield from _about_parameter(name, parameter, limits, limits.input_types)
    if "outputs" in limits.carries:
        yield from _about_outputs(signature, limits)
    for member, (is_there, what) in MEMBERS.items():
        if member not in limits.carries and is_there(signature):
            yield Remark("loses", f"no_{member}", name, f"“{name}” goes without {what}.")
    # A warning only: other users of the format take it as the vendor wrote it.
    repairs = limits.contract.rule("invalid_schema") is not None
    if "schemas" in limits.carries and not repairs and not validation.is_schema(schema.of_inputs(signature)):
        message = f"“{name}” has a schema that breaks the rules of JSON Schema; some models refuse it."
        yield Remark("warns", "schema_broken", name, message)
    if rule := judge.broken_name(name, limits.contract):
        level: Literal["blocks", "warns"] = "warns" if rule.effect == "warns" else "blocks"
        message = f"“{name}” is a name that {limits.contract.target} refuses. Give the tool another one."
        yield Remark(level, "name_refused", name, message)
    yield from _about_inputs(signature, limits)


def _about_inputs(signature: Effective, limits: Limits) -> Iterator[Remark]:
    name = signature.name
    write = inputs.write_as_the_vendor_does if limits.shows_vendors_schema else inputs.write
    shown = write(signature, limits.contract)
    if shown.refusal:
        message = f"“{name}” {shown.refusal}. Hide that input, or take another format."
        yield Remark("blocks", "schema_not_carried", name, message)
    for rule, what in shown.broken:
        level: Literal["blocks", "warns"] = "warns" if rule.effect == "warns" else "blocks"
        who = f"some users of {limits.contract.target}" if level == "warns" else limits.contract.target
        verb = "refuse" if level == "warns" else "refuses"
        yield Remark(level, f"{rule.refuses}_refused", name, f"“{name}” {what}, which {who} {verb}.")
    if shown.below:
        message = (
            f"“{name}” has rules about its inputs together, which this format's users refuse at the top of a "
            f"schema, so all inputs go below “{shown.below}”."
        )
        yield Remark("loses", "inputs_below", name, message)
    if "rules" in limits.carries and schema.leaves_rules_out(shown.tool):
        message = f"“{name}” has inputs that are hidden or renamed, so the rules that name them are left out."
        yield Remark("loses", "rules_left_out", name, message)
    outputs = WrittenOutputs({})
    if "outputs" in limits.carries:
        outputs = inputs.write_outputs(signature, limits.contract)
    yield from _about_losses(name, shown, outputs)
    if not shown.refusal and not inputs.is_plain(shown.tool):
        is_told = bool(shown.keywords or shown.left_out or shown.is_cut) or "schemas" not in limits.carries
        is_told = is_told or schema.leaves_rules_out(shown.tool)
        yield from _about_round_trip(shown, limits, is_told=is_told)


def _about_losses(name: str, shown: WrittenInputs, outputs: WrittenOutputs) -> Iterator[Remark]:
    if shown.keywords:
        message = f"“{name}” goes without these rules of its inputs: {', '.join(sorted(shown.keywords))}."
        yield Remark("loses", "keywords_left_out", name, message)
    if outputs.keywords:
        message = f"“{name}” goes without these rules of its outputs: {', '.join(sorted(outputs.keywords))}."
        yield Remark("loses", "keywords_left_out", name, message)
    if shown.left_out:
        paths = ", ".join(f"“{'.'.join(path)}”" for path in shown.left_out)
        message = f"“{name}” goes without inputs that have no strict form: {paths}."
        yield Remark("loses", "inputs_left_out", name, message)
    if shown.is_cut or outputs.is_cut:
        message = (
            f"“{name}” has a schema that leads back to itself or nowhere, or is too large to be written "
            "without references; at that place, it takes anything."
        )
        yield Remark("loses", "references_cut", name, message)


def _about_round_trip(shown: WrittenInputs, limits: Limits, *, is_told: bool) -> Iterator[Remark]:
    """is_told: other remarks say what the inputs lose."""
    tool, name = shown.tool, shown.tool.name
    exported = _exported(shown, limits)
    if exported is None:
        return
    outcome = round_trip.check(tool, exported, is_quick=is_told)
    if outcome.has_common is False:
        message = (
            f"“{name}” has no arguments that fit this format and that its vendor accepts. {outcome.refused}. "
            "Take another format."
        )
        yield Remark("blocks", "no_common_arguments", name, message)
        return
    if outcome.refused and not is_told:
        message = f"“{name}” accepts arguments in this format that its vendor refuses. {outcome.refused}."
        yield Remark("loses", "accepts_more", name, message)
    if outcome.is_expressible is False and not is_told:
        message = f"“{name}” accepts arguments at its vendor that this format has no place for."
        yield Remark("loses", "accepts_fewer", name, message)


def _exported(shown: WrittenInputs, limits: Limits) -> Exported | None:
    """Return what a model is told of the inputs, None where that is just what the vendor says."""
    tool = shown.tool
    if limits.as_listed is not None:
        return Exported(schema.of_listed_inputs(tool), by_vendors_name(tool))
    is_whole = not (shown.keywords or shown.left_out or shown.is_cut or shown.is_widened or tool.hidden)
    if limits.shows_vendors_schema or (is_whole and shown.schema == schema.of_inputs(tool)):
        return None
    return Exported(shown.schema, inputs.names_in(shown))


def _about_description(tool: Effective, limits: Limits) -> Iterator[Remark]:
    name, length = tool.name, len(tool.description)
    if limits.tool_description is not None and length > limits.tool_description:
        message = (
            f"“{name}” has a description of {length} characters. {limits.tool_description} fit: tune it."
        )
        yield Remark("blocks", "description_too_long", name, message)
    elif limits.advised_description is not None and length > limits.advised_description:
        message = f"“{name}” has a description of {length} characters; {limits.advised_description} are safe."
        yield Remark("warns", "description_long", name, message)


def _about_outputs(tool: Effective, limits: Limits) -> Iterator[Remark]:
    for parameter in (output.parameter for output in tool.outputs):
        yield from _about_parameter(tool.name, parameter, limits, limits.output_types)
    below = schema.of_outputs_as_an_object(tool)[1] if limits.outputs_are_objects else ""
    if below and (tool.outputs or tool.outputs_rest is not None):
        message = f"“{tool.name}” may return what is no object, so what it returns goes below “{below}”."
        yield Remark("loses", "output_below", tool.name, message)
    if limits.needs_output and not tool.outputs:
        message = f"“{tool.name}” declares no output, so one named “result” stands in."
        yield Remark("loses", "output_added", tool.name, message)


def _about_parameter(
    tool: str, parameter: Parameter, limits: Limits, types: frozenset[ParameterType]
) -> Iterator[Remark]:
    where = f"“{parameter.name}” of “{tool}”"
    if parameter.unsupported_type:
        level: Literal["blocks", "warns"] = "blocks" if types != ALL_TYPES else "warns"
        message = f"{where} has the type “{parameter.unsupported_type}”, which Pegboard does not know."
        yield Remark(level, "unknown_type", tool, message)
    elif parameter.type not in types:
        yield Remark("blocks", "type_not_carried", tool, f"{where} has a type that this format lacks.")
    if limits.whole_bounds and parameter.type == "int" and not has_whole_bounds(parameter):
        yield Remark("blocks", "bound_not_whole", tool, f"{where} has a limit that is not a whole number.")
    if not lists_values(parameter, limits):
        message = (
            f"{where} has allowed values that this format cannot list; its description lists them instead."
        )
        yield Remark("loses", "values_in_words", tool, message)


def has_whole_bounds(parameter: Parameter) -> bool:
    return all(bound is None or float(bound).is_integer() for bound in (parameter.min, parameter.max))


def lists_values(parameter: Parameter, limits: Limits) -> bool:
    """Whether the allowed values can be listed as what they are."""
    if limits.enum_value is None or not parameter.allowed_values:
        return True
    longest = limits.enum_description or math.inf
    return parameter.type == "enum" and all(
        limits.enum_value.fullmatch(value.name) and len(value.description) <= longest
        for value in parameter.allowed_values
    )
