"""An export format: one function, and the limits of its target as data.

docs/exports.md explains how to add one. A format knows no Django and no database: it converts a release
document into a document of its own.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from core.content_cache import ContentCache, digest_once
from core.schema import validation
from designer.exports import inputs, judge, round_trip, schema, transfers
from designer.exports.contracts import WHOLE, Contract
from designer.exports.document import ReleaseDocument
from designer.exports.inputs import WrittenInputs, WrittenOutputs
from designer.exports.parts import ToolPaths
from designer.exports.round_trip import Exported
from designer.exports.wire import Wire, by_alias, by_vendors_name
from designer.signatures.effective import Effective
from protocols.signature import Parameter, ParameterType

JSON = "application/json"
ALL_TYPES: frozenset[ParameterType] = frozenset(("string", "int", "number", "boolean", "enum", "json"))


class Remark(msgspec.Struct, frozen=True):
    """A warning about a release in one format.

    blocks: the format cannot carry this tool, so the release cannot be exported in it.
    warns: some users of the format will refuse it. loses: the format carries the tool without some part.
    """

    level: Literal["blocks", "warns", "loses"]
    code: str
    tool: str
    message: str


@dataclass(frozen=True, kw_only=True)
class FormatLimits:
    """The rules of a target, with their source and the date of reading. None: the target sets no limit.

    carries: the members of a signature that the target has a member for, out of `MEMBERS`.
    of: a format of procedures writes procedures, and needs no tools.
    contract: what the target refuses of names and schemas.
    shows_vendors_schema: the schema of any object is exported as the vendor wrote it.
    as_listed: adds the members that a rule describes to the inputs, for a target that has only a list of
    inputs.
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
        init=False, repr=False, compare=False, default_factory=lambda: ContentCache(max_bytes=2 * 1024 * 1024)
    )

    def cached_remarks(self, signature: Effective) -> tuple[Remark, ...]:
        return self.verdicts.get(digest_once(signature), lambda: tuple(self.remarks_on(signature)))

    def remarks_on(self, signature: Effective) -> Iterator[Remark]:
        signature = signature if self.as_listed is None else self.as_listed(signature)
        name = signature.name
        if self.as_listed and not signature.inputs and schema.takes_members(schema.of_inputs(signature)):
            message = (
                f"“{name}” takes inputs that are not listed by name, and this format has no place for them."
            )
            yield Remark("blocks", "inputs_not_listed", name, message)
        length = len(signature.description)
        if self.tool_description is not None and length > self.tool_description:
            message = (
                f"“{name}” has a description of {length} characters. {self.tool_description} fit: tune it."
            )
            yield Remark("blocks", "description_too_long", name, message)
        elif self.advised_description is not None and length > self.advised_description:
            message = (
                f"“{name}” has a description of {length} characters; {self.advised_description} are safe."
            )
            yield Remark("warns", "description_long", name, message)
        for parameter in (visible.parameter for visible in signature.inputs):
            yield from self.remarks_on_parameter(name, parameter, self.input_types)
        if "outputs" in self.carries:
            yield from self.remarks_on_outputs(signature)
        for member, (is_there, what) in MEMBERS.items():
            if member not in self.carries and is_there(signature):
                yield Remark("loses", f"no_{member}", name, f"“{name}” goes without {what}.")
        # A warning only: other users of the format take it as the vendor wrote it.
        repairs = self.contract.rule("invalid_schema") is not None
        if (
            "schemas" in self.carries
            and not repairs
            and not validation.is_schema(schema.of_inputs(signature))
        ):
            message = f"“{name}” has a schema that breaks the rules of JSON Schema; some models refuse it."
            yield Remark("warns", "schema_broken", name, message)
        if rule := judge.broken_name(name, self.contract):
            level: Literal["blocks", "warns"] = "warns" if rule.effect == "warns" else "blocks"
            message = f"“{name}” is a name that {self.contract.target} refuses. Give the tool another one."
            yield Remark(level, "name_refused", name, message)
        yield from self.remarks_on_inputs(signature)

    def remarks_on_inputs(self, signature: Effective) -> Iterator[Remark]:
        name = signature.name
        write = inputs.write_as_the_vendor_does if self.shows_vendors_schema else inputs.write
        written_inputs = write(signature, self.contract)
        if written_inputs.refusal:
            message = f"“{name}” {written_inputs.refusal}. Hide that input, or take another format."
            yield Remark("blocks", "schema_not_carried", name, message)
        for rule, what in written_inputs.broken:
            level: Literal["blocks", "warns"] = "warns" if rule.effect == "warns" else "blocks"
            who = f"some users of {self.contract.target}" if level == "warns" else self.contract.target
            verb = "refuse" if level == "warns" else "refuses"
            yield Remark(level, f"{rule.refuses}_refused", name, f"“{name}” {what}, which {who} {verb}.")
        if written_inputs.below:
            message = (
                f"“{name}” has rules about its inputs together, which this format's users refuse at the top "
                f"of a schema, so all inputs go below “{written_inputs.below}”."
            )
            yield Remark("loses", "inputs_below", name, message)
        if "rules" in self.carries and schema.leaves_rules_out(written_inputs.tool):
            message = (
                f"“{name}” has inputs that are hidden or renamed, so the rules that name them are left out."
            )
            yield Remark("loses", "rules_left_out", name, message)
        outputs = WrittenOutputs({})
        if "outputs" in self.carries:
            outputs = inputs.write_outputs(signature, self.contract)
        yield from _about_losses(name, written_inputs, outputs)
        if not written_inputs.refusal and not inputs.is_plain(written_inputs.tool):
            has_other_warning = (
                bool(written_inputs.keywords or written_inputs.left_out or written_inputs.is_cut)
                or "schemas" not in self.carries
            )
            has_other_warning = has_other_warning or schema.leaves_rules_out(written_inputs.tool)
            yield from self.remarks_on_round_trip(written_inputs, has_other_warning=has_other_warning)

    def remarks_on_outputs(self, tool: Effective) -> Iterator[Remark]:
        for parameter in (output.parameter for output in tool.outputs):
            yield from self.remarks_on_parameter(tool.name, parameter, self.output_types)
        below = schema.of_outputs_as_an_object(tool)[1] if self.outputs_are_objects else ""
        if below and (tool.outputs or tool.outputs_rest is not None):
            message = f"“{tool.name}” may return what is no object, so what it returns goes below “{below}”."
            yield Remark("loses", "output_below", tool.name, message)
        if self.needs_output and not tool.outputs:
            message = f"“{tool.name}” declares no output, so one named “result” stands in."
            yield Remark("loses", "output_added", tool.name, message)

    def remarks_on_round_trip(
        self, written_inputs: WrittenInputs, *, has_other_warning: bool
    ) -> Iterator[Remark]:
        """Warn of arguments that only the vendor or only the format accepts.

        has_other_warning: another warning already names what the inputs lose.
        """
        tool, name = written_inputs.tool, written_inputs.tool.name
        if self.as_listed is not None:
            exported = Exported(schema.of_listed_inputs(tool), by_vendors_name(tool))
        else:
            is_complete = not (
                written_inputs.keywords
                or written_inputs.left_out
                or written_inputs.is_cut
                or written_inputs.is_widened
                or tool.hidden
            )
            if self.shows_vendors_schema or (is_complete and written_inputs.schema == schema.of_inputs(tool)):
                return  # a model reads the vendor's schema
            exported = Exported(written_inputs.schema, inputs.names_in(written_inputs))
        outcome = round_trip.check(tool, exported, is_quick=has_other_warning)
        if outcome.has_common is False:
            message = (
                f"“{name}” has no arguments that fit this format and that its vendor accepts. "
                f"{outcome.refused}. Take another format."
            )
            yield Remark("blocks", "no_common_arguments", name, message)
            return
        if outcome.is_limited and not (outcome.has_common and has_other_warning):
            message = (
                f"“{name}” has inputs that are too large to be checked in this format. "
                "Its vendor may refuse arguments that the format accepts."
            )
            yield Remark("warns", "not_checked", name, message)
        if outcome.refused and not has_other_warning:
            message = f"“{name}” accepts arguments in this format that its vendor refuses. {outcome.refused}."
            yield Remark("loses", "accepts_more", name, message)
        if outcome.is_expressible is False and not has_other_warning and not written_inputs.closes_objects:
            yield _fewer_arguments(name)

    def remarks_on_parameter(
        self, tool: str, parameter: Parameter, types: frozenset[ParameterType]
    ) -> Iterator[Remark]:
        where = f"“{parameter.name}” of “{tool}”"
        if parameter.unsupported_type:
            level: Literal["blocks", "warns"] = "blocks" if types != ALL_TYPES else "warns"
            message = f"{where} has the type “{parameter.unsupported_type}”, which Pegboard does not know."
            yield Remark(level, "unknown_type", tool, message)
        elif parameter.type not in types:
            yield Remark("blocks", "type_not_carried", tool, f"{where} has a type that this format lacks.")
        if self.whole_bounds and parameter.type == "int" and not has_whole_bounds(parameter):
            yield Remark(
                "blocks", "bound_not_whole", tool, f"{where} has a limit that is not a whole number."
            )
        if not lists_values(parameter, self):
            message = (
                f"{where} has allowed values that this format cannot list; "
                "its description lists them instead."
            )
            yield Remark("loses", "values_in_words", tool, message)


@dataclass(frozen=True, kw_only=True)
class Format:
    """An export format.

    name: its name in URLs.
    write: receives the tools that fit the limits, and returns a JSON document or bytes.
    media_type, suffix: the type of the bytes, and the suffix of a file name.
    wire: the mapping from the names that `write` uses to the vendor's, by default from the aliases for
    models.
    places: the paths at which it writes each tool; None for a format of procedures.
    resolve: writes the activity that executes a tool into the tool, in a format that states it; "" if the
    model itself answers.
    accepts: the JSON Schema of the arguments that callers may send, if it differs from the exported schema.
    """

    name: str
    label: str
    limits: FormatLimits
    write: Callable[[ReleaseDocument], object]
    wire: Callable[[Effective], Wire] = by_alias
    media_type: str = JSON
    suffix: str = "json"
    places: ToolPaths | None = None
    resolve: Callable[[dict[str, Any], str], None] | None = None
    accepts: Callable[[Effective], Any] | None = None

    @property
    def is_text(self) -> bool:
        return self.media_type == JSON

    def body(self, release: ReleaseDocument) -> bytes:
        document = self.write(release)
        return document if isinstance(document, bytes) else msgspec.json.encode(document)


# Members that a format may not have: a test for the member, and its name in a message.
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


def remarks(release: ReleaseDocument, limits: FormatLimits) -> list[Remark]:
    if limits.of == "procedures":
        if not release.procedures:
            message = (
                "This release has no procedures, and the format contains nothing else. "
                "Write one, then publish."
            )
            return [Remark("blocks", "no_procedures", "", message)]
        message = "The tools go by name and description only. Read them in another format as well."
        return [Remark("loses", "tools_by_name", "", message)] if release.tools else []
    warnings = [remark for tool in release.tools for remark in limits.cached_remarks(tool.signature)]
    # A target may use the last of two, or refuse the request; in both cases a call could mean the other tool.
    for name, times in Counter(tool.signature.name for tool in release.tools).items():
        if times > 1:
            message = f"{times} tools are called “{name}”. Give each a name of its own."
            warnings.append(Remark("blocks", "duplicate_name", name, message))
    if limits.advised_tools is not None and len(release.tools) > limits.advised_tools:
        message = f"{len(release.tools)} tools; at most {limits.advised_tools} may be sent in one request."
        warnings.append(Remark("warns", "too_many_tools", "", message))
    return warnings


@dataclass(frozen=True)
class CarriedTools:
    """The tools of a release that a format can carry, and the names of those left out."""

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


def carried(release: ReleaseDocument, limits: FormatLimits) -> CarriedTools:
    """Check a release against the limits of a format. A warning that blocks leaves out its tool, and no
    other. Transfers count as tools."""
    release = transfers.with_transfers_as_tools(release)
    warnings = remarks(release, limits)
    blocked = {remark.tool for remark in warnings if remark.level == "blocks"}
    fitting = tuple(tool for tool in release.tools if tool.signature.name not in blocked)
    left_out = [tool.signature.name for tool in release.tools if tool.signature.name in blocked]
    return CarriedTools(msgspec.structs.replace(release, tools=fitting), left_out, warnings)


def _about_losses(name: str, written_inputs: WrittenInputs, outputs: WrittenOutputs) -> Iterator[Remark]:
    if written_inputs.keywords:
        message = (
            f"“{name}” goes without these rules of its inputs: {', '.join(sorted(written_inputs.keywords))}."
        )
        yield Remark("loses", "keywords_left_out", name, message)
    if outputs.keywords:
        message = f"“{name}” goes without these rules of its outputs: {', '.join(sorted(outputs.keywords))}."
        yield Remark("loses", "keywords_left_out", name, message)
    if written_inputs.left_out:
        paths = ", ".join(f"“{'.'.join(path)}”" for path in written_inputs.left_out)
        message = f"“{name}” goes without inputs that have no strict form: {paths}."
        yield Remark("loses", "inputs_left_out", name, message)
    if written_inputs.closes_objects:
        yield _fewer_arguments(name)
    if written_inputs.is_cut or outputs.is_cut:
        message = (
            f"“{name}” has a schema that leads back to itself or nowhere, or is too large to be written "
            "without references; at that place, it takes anything."
        )
        yield Remark("loses", "references_cut", name, message)


def _fewer_arguments(name: str) -> Remark:
    message = f"“{name}” accepts arguments at its vendor that this format has no place for."
    return Remark("loses", "accepts_fewer", name, message)


def has_whole_bounds(parameter: Parameter) -> bool:
    # An integer of 400 digits cannot become a float.
    return not any(
        isinstance(bound, float) and not bound.is_integer() for bound in (parameter.min, parameter.max)
    )


def lists_values(parameter: Parameter, limits: FormatLimits) -> bool:
    """Return whether the format can list the allowed values as values."""
    if limits.enum_value is None or not parameter.allowed_values:
        return True
    longest_description = limits.enum_description or math.inf
    return parameter.type == "enum" and all(
        limits.enum_value.fullmatch(value.name) and len(value.description) <= longest_description
        for value in parameter.allowed_values
    )
