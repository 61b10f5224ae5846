"""What a model sees of one pinned tool in one format, as publishing now would write it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import msgspec

from catalog.models.tools import ItemKind
from catalog.token_estimate import estimate_tokens
from core.errors import DomainError
from core.invisible_characters import HIDDEN
from designer import exports, pinned_signatures, token_budget
from designer.exports import inputs, origins, parts
from designer.exports.base import ALL_TYPES, Carried, Format, Limits, Remark, carried
from designer.exports.origins import Origin, Said, Span
from designer.exports.parts import Part
from designer.models import Agent, Pin
from designer.releases import composition, publishing
from designer.savings import Saving, savings
from designer.signatures.effective import Effective
from designer.signatures.words import Path, Words, members, merged, of_vendor

TEXTS: dict[str, Format] = {
    format_.name: format_ for format_ in exports.FORMATS if format_.is_text and format_.places is not None
}
USUAL = exports.USUAL
# Of one tool on a page.
SHOWN_CHARACTERS = 100_000


@dataclass(frozen=True)
class Limit:
    """One rule of a target. `state`: it is met; some users will refuse it; it is broken."""

    what: str
    has: int
    allows: int
    state: Literal["ok", "warn", "bad"]


@dataclass(frozen=True)
class Budget:
    """What the tools of an agent cost in a format, by name. `advised` is how many its users take at once."""

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
        """Of a bar that ends at the limit or beyond it, how many hundredths are taken."""
        return 100 * self.tools / max(self.tools, self.advised or 0, 1)

    @property
    def mark(self) -> float:
        """Where the limit stands on that bar."""
        return 100 * (self.advised or 0) / max(self.tools, self.advised or 0, 1)


@dataclass(frozen=True)
class ShownTool:
    """`text` is to the byte what the export holds for the tool, and empty where it cannot carry it."""

    format: Format
    text: bytes
    spans: list[Span]
    parts: list[Part]
    limits: list[Limit]
    remarks: list[Remark]
    savings: list[Saving]
    budget: Budget

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)

    @property
    def spans_shown(self) -> list[Span]:
        ends = accumulate(len(span.text) for span in self.spans)
        shown = zip(self.spans, ends, strict=True)
        return [span for span, end in shown if end <= SHOWN_CHARACTERS]

    @property
    def exact(self) -> str:
        """The text where a page draws some of its characters otherwise."""
        text = self.text.decode()
        return text if HIDDEN.search(text) else ""

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
    """Raises DomainError for a format that is not there, or writes no text about a tool."""
    format_ = publishing.find_format(name)
    if name not in TEXTS:
        message = f"“{name}” is no text that holds tools. Take one of: {', '.join(TEXTS)}."
        raise DomainError("unknown_format", message, fields={"format": message})
    return format_


def of(pin: Pin, format_: Format, tried: Words | None = None) -> ShownTool:
    """`tried` are words that a designer has typed and not saved; None: those that are kept.

    Raises DomainError for a prompt or a resource, which no format writes.
    """
    if pin.tool.kind != ItemKind.TOOL:
        message = "Formats write tools. Prompts and resources are served over MCP."
        raise DomainError("not_a_tool", message, status=409)
    document = composition.tools_of(pin.agent, tried=None if tried is None else {pin.pk: tried})
    tool = next(tool.signature for tool in document.tools if tool.signature.name == pin.name)
    judged = carried(document, format_.limits)
    whole = format_.write(judged.fitting)
    names = [each.signature.name for each in judged.fitting.tools]
    text: bytes = b""
    found: list[Part] = []
    whence: list[Span] = []
    saved: list[Saving] = []
    if pin.name in names and format_.places is not None:
        own = parts.tools_in(whole, format_.places)[names.index(pin.name)]
        wire = format_.wire(tool)
        text, found = msgspec.json.encode(own), parts.parts(own, format_.places, wire)
        signature = pin.version.decoded()
        for_all = pinned_signatures.words_about(pin.tool)
        ours = pinned_signatures.words_about(pin) if tried is None else tried
        said = of_vendor(signature) | members(merged(for_all, ours))
        saved = savings(signature, said, format_.limits, size=len(text))
        whence = origins.spans(own, format_.places, wire, _said(pin, tool, said, for_all, ours))
    return ShownTool(
        format=format_,
        text=text,
        spans=whence,
        parts=found,
        limits=list(_limits(tool, format_.limits)),
        remarks=[remark for remark in judged.remarks if remark.tool == pin.name],
        savings=saved,
        budget=_budget(format_, judged, whole),
    )


def _said(pin: Pin, tool: Effective, texts: Mapping[Path, Any], for_all: Words, ours: Words) -> Said:
    of_agent, of_catalog = members(ours), members(for_all)
    named = {("parameters", shown.parameter.name, "name") for shown in tool.inputs if shown.is_named}

    def whose(path: Path) -> Origin:
        # A name of ours that does not fit is not shown.
        if path[-1] == "name" and path not in named:
            return "vendor"
        return "agent" if path in of_agent else "catalog" if path in of_catalog else "vendor"

    name: Origin = "vendor" if tool.name == tool.wire_name else "generated"
    return Said(tool=tool, name="agent" if pin.alias else name, texts=texts, whose=whose)


def budget(agent: Agent, format_: Format) -> Budget:
    judged = carried(composition.tools_of(agent), format_.limits)
    return _budget(format_, judged, format_.write(judged.fitting))


def _budget(format_: Format, judged: Carried, whole: object) -> Budget:
    return Budget(
        format=format_,
        costs=token_budget.costs_as_written(judged.fitting, format_, whole),
        left_out=judged.left_out,
        advised=format_.limits.advised_tools,
    )


def _limits(tool: Effective, limits: Limits) -> Iterator[Limit]:
    length = len(tool.description)
    if limits.tool_description is not None:
        is_met = length <= limits.tool_description
        yield Limit(
            "Characters of the description", length, limits.tool_description, "ok" if is_met else "bad"
        )
    if limits.advised_description is not None:
        is_met = length <= limits.advised_description
        what = "Characters of the description that are safe"
        yield Limit(what, length, limits.advised_description, "ok" if is_met else "warn")
    if limits.input_types != ALL_TYPES:
        wrong = [i.shown_name for i in tool.inputs if i.parameter.type not in limits.input_types]
        yield Limit("Inputs of a type that it lacks", len(wrong), 0, "bad" if wrong else "ok")
    if "outputs" in limits.carries and limits.output_types != ALL_TYPES:
        wrong = [o.parameter.name for o in tool.outputs if o.parameter.type not in limits.output_types]
        yield Limit("Outputs of a type that it lacks", len(wrong), 0, "bad" if wrong else "ok")
    if limits.enum_description is not None:
        values = [value for i in tool.inputs for value in i.parameter.allowed_values]
        longest = max((len(value.description) for value in values), default=0)
        is_met = longest <= limits.enum_description
        what = "Characters of the longest meaning of a value"
        yield Limit(what, longest, limits.enum_description, "ok" if is_met else "warn")
    if (subset := limits.contract.subset) is not None:
        schema = inputs.write(tool, limits.contract).schema
        properties = len(schema.get("properties", {}))
        yield Limit(
            "Inputs of the strict schema",
            properties,
            subset.properties,
            "ok" if properties <= subset.properties else "bad",
        )
