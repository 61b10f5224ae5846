"""What a model sees of one pinned tool in one format, as publishing now would write it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from catalog.token_estimate import estimate_tokens
from core.errors import DomainError
from designer import exports, pinned_signatures
from designer.exports import dialects, parts
from designer.exports.base import ALL_TYPES, Carried, Format, Limits, Remark, carried
from designer.exports.parts import Part
from designer.models import Agent, Pin
from designer.releases import composition, publishing
from designer.savings import Saving, savings
from designer.signatures.effective import Effective
from designer.signatures.words import Words, members, merged, of_vendor

TEXTS: dict[str, Format] = {
    format_.name: format_ for format_ in exports.FORMATS if format_.is_text and format_.places is not None
}
USUAL = next(iter(TEXTS.values()))
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
    """What all tools of an agent cost in a format. `advised` is how many tools its users take at once."""

    format: Format
    tokens: int
    tools: int
    left_out: list[str]
    advised: int | None

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
    parts: list[Part]
    limits: list[Limit]
    remarks: list[Remark]
    savings: list[Saving]
    budget: Budget

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)

    @property
    def text_shown(self) -> str:
        return self.text.decode()[:SHOWN_CHARACTERS]

    @property
    def is_cut(self) -> bool:
        return len(self.text_shown) < len(self.text.decode())

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
    """`tried` are words that a designer has typed and not saved; None: those that are kept."""
    document = composition.tools_of(pin.agent, tried=None if tried is None else {pin.pk: tried})
    tool = next(tool.signature for tool in document.tools if tool.signature.name == pin.name)
    judged = carried(document, format_.limits)
    whole = format_.write(judged.fitting)
    names = [each.signature.name for each in judged.fitting.tools]
    text: bytes = b""
    found: list[Part] = []
    saved: list[Saving] = []
    if pin.name in names and format_.places is not None:
        own = parts.tools_in(whole, format_.places)[names.index(pin.name)]
        text, found = msgspec.json.encode(own), parts.parts(own, format_.places, format_.wire(tool))
        signature = pin.version.decoded()
        ours = pinned_signatures.words_about(pin) if tried is None else tried
        said = of_vendor(signature) | members(merged(pinned_signatures.words_about(pin.tool), ours))
        saved = savings(signature, said, format_.limits, size=len(text))
    return ShownTool(
        format=format_,
        text=text,
        parts=found,
        limits=list(_limits(tool, format_.limits)),
        remarks=[remark for remark in judged.remarks if remark.tool == pin.name],
        savings=saved,
        budget=_budget(format_, judged, whole),
    )


def budget(agent: Agent, format_: Format) -> Budget:
    judged = carried(composition.tools_of(agent), format_.limits)
    return _budget(format_, judged, format_.write(judged.fitting))


def _budget(format_: Format, judged: Carried, whole: object) -> Budget:
    return Budget(
        format=format_,
        tokens=estimate_tokens(msgspec.json.encode(whole)),
        tools=len(judged.fitting.tools),
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
    if (sizes := limits.dialect.strict_sizes) is not None:
        schema = dialects.inputs(tool, limits.dialect).schema
        properties = len(schema.get("properties", {}))
        yield Limit(
            "Inputs of the strict schema",
            properties,
            sizes.properties,
            "ok" if properties <= sizes.properties else "bad",
        )
