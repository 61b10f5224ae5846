"""The text of one pinned tool in one format, as publishing now would write it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Any, Literal

import msgspec
from django.utils.translation import gettext as _

from catalog.models.tools import ItemKind
from catalog.templatetags.display import shown
from catalog.token_estimate import estimate_tokens
from core.errors import DomainError
from core.invisible_characters import HIDDEN
from core.schema import spelling
from designer import exports
from designer.exports import inputs, origins, parts
from designer.exports.base import ALL_TYPES, CarriedTools, Format, FormatLimits, Remark, carried
from designer.exports.origins import Origin, OriginTexts, Span
from designer.exports.parts import ToolPart
from designer.models import Agent, Pin
from designer.pins import masking, pinned_signatures, token_budget
from designer.pins.savings import Saving, find_savings
from designer.releases import composition, publishing
from designer.signatures.effective import Effective
from designer.signatures.words import Path, Words, members, merge_words, of_vendor

TEXTS: dict[str, Format] = {
    format_.name: format_ for format_ in exports.FORMATS if format_.is_text and format_.places is not None
}
USUAL = exports.USUAL
# Bytes of the text of one tool on a page, and of the markup of a part of it.
MAX_SHOWN_BYTES, SPAN_BYTES = 6_000, 40


@dataclass(frozen=True)
class Limit:
    """One rule of a target. `state`: ok, some users will refuse it, or broken."""

    what: str
    has: int
    allows: int
    state: Literal["ok", "warn", "bad"]


@dataclass(frozen=True)
class FormatBudget:
    """The tokens of an agent's tools in a format, by tool name. `advised`: the number of tools that its users
    accept at once.
    """

    format: Format
    costs: Mapping[str, int]
    left_out: list[str]
    advised: int | None

    @property
    def tokens(self) -> int:
        return sum(self.costs.values())

    @property
    def tools(self) -> int:
        return len(self.costs)

    @property
    def is_over(self) -> bool:
        return self.advised is not None and self.tools > self.advised

    @property
    def filled(self) -> float:
        """Return the filled percentage of a bar that ends at the limit or beyond it."""
        return 100 * self.tools / max(self.tools, self.advised or 0, 1)

    @property
    def mark(self) -> float:
        """Return the position of the limit on that bar."""
        return 100 * (self.advised or 0) / max(self.tools, self.advised or 0, 1)


@dataclass(frozen=True)
class ShownTool:
    """A tool as a model sees it.

    tool: what a model sees, before a format writes it.

    text: the exact bytes of the tool in the export, apart from sensitive presets, which are masked. Empty if
        the format cannot carry it.
    """

    format: Format
    tool: Effective
    text: bytes
    spans: list[Span]
    parts: list[ToolPart]
    limits: list[Limit]
    remarks: list[Remark]
    savings: list[Saving]
    budget: FormatBudget

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)

    @cached_property
    def spans_shown(self) -> list[Span]:
        ends = accumulate(len(shown(span.text).encode()) + SPAN_BYTES for span in self.spans)
        spans_with_ends = zip(self.spans, ends, strict=True)
        fitting = takewhile(lambda pair: pair[1] <= MAX_SHOWN_BYTES, spans_with_ends)
        return [span for span, _end in fitting]

    @property
    def exact(self) -> str:
        """Return the text if a page displays all of it, and some of its characters differently."""
        text = self.text.decode()
        return text if HIDDEN.search(text) and not self.is_cut else ""

    @property
    def is_cut(self) -> bool:
        return len(self.spans_shown) < len(self.spans)

    @property
    def broken(self) -> list[Remark]:
        return [remark for remark in self.remarks if remark.level != "loses"]

    @property
    def lost(self) -> list[Remark]:
        return [remark for remark in self.remarks if remark.level == "loses"]


def find_text(name: str) -> Format:
    """Return the format `name`. Raises DomainError if it does not exist or writes no text about tools."""
    format_ = publishing.find_format(name)
    if name not in TEXTS:
        message = _("“{name}” is not a format of tools. Choose one of: {choices}.").format(
            name=name, choices=", ".join(TEXTS)
        )
        raise DomainError("unknown_format", message, fields={"format": message})
    return format_


def shown_tool(
    pin: Pin, format_: Format, trial_words: Words | None = None, pins: Iterable[Pin] | None = None
) -> ShownTool:
    """Build the tool's text.

    trial_words: texts that a designer has entered and not saved; None: the stored ones.
    pins: the agent's rows of `pinned_signatures.read_items`, if they were read.
    Raises DomainError for a prompt or a resource, which no format writes.
    """
    if pin.tool.kind != ItemKind.TOOL:
        message = _("Formats write tools. Prompts and resources are served over MCP.")
        raise DomainError("not_a_tool", message, status=409)
    tried_by_pin = None if trial_words is None else {pin.pk: trial_words}
    document = composition.tools_of(pin.agent, trial_words=tried_by_pin, pins=pins)
    tool = next(tool.signature for tool in document.tools if tool.signature.name == pin.name)
    checked = carried(document, format_.limits)
    document_text = format_.write(checked.fitting)
    names = [row.signature.name for row in checked.fitting.tools]
    text: bytes = b""
    text_parts: list[ToolPart] = []
    text_spans: list[Span] = []
    saving_list: list[Saving] = []
    if pin.name in names and format_.places is not None:
        masked = masking.masked_tool(checked.fitting, pin.name)
        tool = next(row.signature for row in masked.tools if row.signature.name == pin.name)
        export_text = document_text if masked == checked.fitting else format_.write(masked)
        tool_object = parts.tools_in(export_text, format_.places)[names.index(pin.name)]
        wire = format_.wire(tool)
        text, text_parts = msgspec.json.encode(tool_object), parts.parts(tool_object, format_.places, wire)
        signature = pin.version.decoded()
        catalog_words = pinned_signatures.words_about(pin.tool)
        agent_words = pinned_signatures.words_about(pin) if trial_words is None else trial_words
        member_texts = of_vendor(signature) | members(merge_words(catalog_words, agent_words))
        saving_list = find_savings(signature, member_texts, format_.limits, size=len(text))
        text_spans = origins.spans(
            tool_object,
            format_.places,
            wire,
            _origins_of(pin, tool, member_texts, catalog_words, agent_words),
        )
    return ShownTool(
        format=format_,
        tool=tool,
        text=text,
        spans=text_spans,
        parts=text_parts,
        limits=list(_check_limits(tool, format_.limits)),
        remarks=[remark for remark in checked.remarks if remark.tool == pin.name],
        savings=saving_list,
        budget=_build_budget(format_, checked, document_text),
    )


def _origins_of(
    pin: Pin, tool: Effective, texts: Mapping[Path, Any], catalog_words: Words, agent_words: Words
) -> OriginTexts:
    of_agent, of_catalog = members(agent_words), members(catalog_words)
    renamed_inputs = {
        ("parameters", visible.parameter.name, "name") for visible in tool.inputs if visible.is_named
    }

    def origin_of(path: Path) -> Origin:
        # A tuned name that does not fit is not used.
        if path[-1] == "name" and path not in renamed_inputs:
            return "vendor"
        return "agent" if path in of_agent else "catalog" if path in of_catalog else "vendor"

    name: Origin = "vendor" if tool.name == tool.wire_name else "generated"
    return OriginTexts(tool=tool, name="agent" if pin.alias else name, texts=texts, origin_at=origin_of)


def budget(agent: Agent, format_: Format) -> FormatBudget:
    checked = carried(composition.tools_of(agent), format_.limits)
    return _build_budget(format_, checked, format_.write(checked.fitting))


def _build_budget(format_: Format, checked: CarriedTools, document_text: object) -> FormatBudget:
    return FormatBudget(
        format=format_,
        costs=token_budget.costs_as_written(checked.fitting, format_, document_text),
        left_out=checked.left_out,
        advised=format_.limits.advised_tools,
    )


def _check_limits(tool: Effective, limits: FormatLimits) -> Iterator[Limit]:
    length = len(tool.description)
    if limits.tool_description is not None:
        is_met = length <= limits.tool_description
        yield Limit(
            _("Characters of the description"), length, limits.tool_description, "ok" if is_met else "bad"
        )
    if limits.advised_description is not None:
        is_met = length <= limits.advised_description
        label = _("Characters of the description that are safe")
        yield Limit(label, length, limits.advised_description, "ok" if is_met else "warn")
    if limits.input_types != ALL_TYPES:
        wrong = [i.shown_name for i in tool.inputs if i.parameter.type not in limits.input_types]
        yield Limit(_("Inputs of a type that it lacks"), len(wrong), 0, "bad" if wrong else "ok")
    if "outputs" in limits.carries and limits.output_types != ALL_TYPES:
        wrong = [o.parameter.name for o in tool.outputs if o.parameter.type not in limits.output_types]
        yield Limit(_("Outputs of a type that it lacks"), len(wrong), 0, "bad" if wrong else "ok")
    if limits.enum_description is not None:
        values = [value for i in tool.inputs for value in i.parameter.allowed_values]
        max_length = max((len(value.description) for value in values), default=0)
        is_met = max_length <= limits.enum_description
        label = _("Characters of the longest meaning of a value")
        yield Limit(label, max_length, limits.enum_description, "ok" if is_met else "warn")
    if (subset := limits.contract.subset) is not None:
        schema = inputs.write(tool, limits.contract).schema
        properties = len(spelling.properties_of(schema))
        yield Limit(
            _("Inputs of the strict schema"),
            properties,
            subset.properties,
            "ok" if properties <= subset.properties else "bad",
        )
