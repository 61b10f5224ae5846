"""Where one value of an activity comes from, as a row of a form: a select, a fixed value, what stands in.

What is typed becomes a source whatever it is worth: whether it can run is judged by the rules of the
activity, and what they say is shown at the row.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from catalog.activities import conversions
from catalog.activities.conversions import UnfitValueError
from catalog.activities.members import members
from catalog.activities.picking import Source
from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import pointers
from protocols.signature import Parameter

FIXED = "fixed"
Posted = Mapping[str, str]
TYPES = {
    "string": "text",
    "enum": "one of a list",
    "int": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "json": "structured",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """What may be picked from: the inputs (step 0), or the outputs of a step. `rest` is what the schema of
    these parameters says beside them."""

    label: str
    step: int
    parameters: Sequence[Parameter]
    rest: Mapping[str, Any] | None = None
    # So that none has to say which step it means.
    is_only: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """`target` is what the value goes to, and None for one that is not known, or not any more. `why` says by
    what it was proposed."""

    prefix: str
    name: str
    source: Source | None
    target: Parameter | None
    origins: Sequence[Origin]
    faults: Sequence[str] = ()
    why: str = ""
    is_gone: bool = False
    is_named_here: bool = False
    groups: list[tuple[str, list[tuple[str, str]]]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", list(self._groups()))

    @property
    def chosen(self) -> str:
        if self.source is None or not _is_picked(self.source):
            return ""
        return FIXED if self.source.value is not UNSET else written(self.source)

    @property
    def value(self) -> str:
        return text_of(self.source.value, self.target) if self.source else ""

    @property
    def otherwise(self) -> str:
        return text_of(self.source.otherwise, self.target) if self.source else ""

    @property
    def kept(self) -> str:
        """The source itself, where its texts would be read as something else."""
        if self.source is None:
            return ""
        values = ((self.source.value, self.value), (self.source.otherwise, self.otherwise))
        is_exact = all(value is UNSET or _same(value_of(text, self.target), value) for value, text in values)
        is_exact = is_exact and self.source.otherwise != ""
        return "" if is_exact else msgspec.json.encode(self.source).decode()

    @property
    def says(self) -> str:
        return says(self.source, self._origin()) if self.source else ""

    @property
    def stand_in(self) -> str:
        return stand_in(self.source) if self.source else ""

    @property
    def type(self) -> str:
        return TYPES[self.target.type] if self.target else ""

    @property
    def values(self) -> list[str]:
        """What a fixed value may be, where that is a list."""
        if self.target is None:
            return []
        if self.target.type == "boolean":
            return ["true", "false"]
        return [each.name for each in self.target.allowed_values]

    @property
    def is_open(self) -> bool:
        return bool(self.otherwise) or any("leave" in fault for fault in self.faults)

    def _groups(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        known = {"", FIXED}
        for origin in self.origins:
            offered = list(_offered(origin, self.target))
            known.update(value for value, _ in offered)
            if offered:
                yield origin.label, offered
        if self.chosen not in known and self.source:
            words, where = self.says, self._origin()
            names = [each.name for each in where.parameters] if where else []
            is_there = (self.source.output or self.source.input) in names or (where and not names)
            yield "", [(self.chosen, words if is_there else f"{words}, which is not there")]

    def _origin(self) -> Origin | None:
        step = self.source.step if self.source else 0
        return next((each for each in self.origins if each.step == step), None)


def read(data: Posted, prefix: str, target: Parameter | None) -> Source | None:
    """What was chosen and typed in one row; None for an empty one."""
    text = {name: data.get(f"{prefix}-{name}", "").replace("\r\n", "\n") for name in ("value", "otherwise")}
    picked, at = data.get(f"{prefix}-from", ""), data.get(f"{prefix}-at", "").strip()
    if kept := _source(data.get(f"{prefix}-kept", "")):
        drawn = Row(prefix, "", kept, target, ())
        if (drawn.chosen, drawn.value, drawn.otherwise, "") == (picked, *text.values(), at):
            return kept
    otherwise = value_of(text["otherwise"], target) if text["otherwise"].strip() else UNSET
    if picked == FIXED:
        return Source(value=value_of(text["value"], target))
    source = _source(picked)
    if source is None:
        return None if otherwise is UNSET else Source(otherwise=otherwise)
    at = at if not at or at.startswith("/") else f"/{at}"
    return msgspec.structs.replace(source, at=source.at + at, otherwise=otherwise)


def why_unreadable(source: Source | None, target: Parameter | None) -> str:
    """Of a fixed value that begins as JSON does, and is none."""
    if source is None or (target and target.type != "json"):
        return ""
    for value in (source.value, source.otherwise):
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            return f"“{printable(value, 40)}” begins as JSON does, and is none. Close what was opened."
    return ""


def written(source: Source) -> str:
    """What is picked, as a select sends it."""
    return msgspec.json.encode(msgspec.structs.replace(source, value=UNSET, otherwise=UNSET)).decode()


def value_of(text: str, target: Parameter | None) -> Any:
    """The value that a text stands for; the text itself where it does not fit, for the rules to say so."""
    if target is None or target.type == "json":
        try:
            return strict_json.loads(text.encode(errors="surrogatepass"))
        except ProtocolViolationError:
            return text
    try:
        return conversions.converted(text, target)
    except UnfitValueError:
        return text


def text_of(value: Any, target: Parameter | None) -> str:
    """What is typed for a value."""
    if value is UNSET:
        return ""
    if isinstance(value, str) and ((target and target.type != "json") or value_of(value, target) == value):
        return value
    return msgspec.json.encode(value).decode()


def says(source: Source, origin: Origin | None = None) -> str:
    """A source in a few words, for people. `origin` is what it picks from."""
    if source.value is not UNSET:
        return f"always {printable(text_of(source.value, None), 60) or 'an empty text'}"
    name = printable(source.output or source.input, 60) or "nothing"
    part = " → ".join(printable(step, 40) for step in pointers.split(source.at))
    is_plain = not source.step or (origin is not None and origin.is_only)
    of = name if is_plain else f"{name} of step {source.step}"
    return of + (f" → {part}" if part else "")


def stand_in(source: Source) -> str:
    """What stands in where there is nothing; "" where nothing does."""
    if source.otherwise is UNSET:
        return ""
    return printable(text_of(source.otherwise, None), 60) or "an empty text"


def _is_picked(source: Source) -> bool:
    return bool(source.input or source.step or source.output or source.value is not UNSET)


def _same(one: Any, other: Any) -> bool:
    # True is not 1 here, and 1.0 is not 1.
    return msgspec.json.encode(one) == msgspec.json.encode(other)


def _source(text: str) -> Source | None:
    if not text.startswith("{"):
        return None
    try:
        return msgspec.json.decode(text, type=Source)
    except msgspec.DecodeError:
        # Another page than ours has sent it.
        return None


def _offered(origin: Origin, target: Parameter | None) -> Iterator[tuple[str, str]]:
    for each in origin.parameters:
        if target is None or conversions.fit(each, target) != "no":
            whole = _pick(origin, each, "")
            yield written(whole), says(whole, origin)
        for pointer in members(each, origin.rest):
            part = _pick(origin, each, pointer)
            yield written(part), says(part, origin)


def _pick(origin: Origin, parameter: Parameter, at: str) -> Source:
    if origin.step:
        return Source(step=origin.step, output=parameter.name, at=at)
    return Source(input=parameter.name, at=at)


def named(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    return {each.name: each for each in parameters}
