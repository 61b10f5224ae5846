"""A form row for the source of one value of an activity: a choice, a fixed value and a fallback.

Each entered row becomes a source. The rules of the activity validate it, and the row shows their messages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from msgspec import UNSET

from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.schema import pointers
from execution.activities import conversions
from execution.activities.conversions import UnfitValueError
from execution.activities.members import members_of_all
from execution.activities.picking import Source
from execution.forms.argument_forms import ArgumentsForm
from protocols.signature import Parameter

FIXED = "fixed"
Posted = Mapping[str, str]
TYPES = {
    "string": gettext_lazy("text"),
    "enum": gettext_lazy("one of a list"),
    "int": gettext_lazy("whole number"),
    "number": gettext_lazy("number"),
    "boolean": gettext_lazy("yes or no"),
    "json": gettext_lazy("structured"),
}

# Of all rows of a page together, from one origin, and of one row.
MAX_CHOICES = 20_000
MIN_CHOICES = 20
# Members of one origin that can be chosen. Further ones are typed by hand.
MAX_MEMBERS = 1_000


@dataclass(frozen=True, slots=True)
class Origin:
    """The parameters that a value can come from: the inputs (step 0) or the outputs of a step.

    rest: the members of their schema that `parameters` does not contain.
    is_only: labels need not name the step.
    """

    label: str
    step: int
    parameters: Sequence[Parameter]
    rest: Mapping[str, Any] | None = None
    is_only: bool = False
    # By the names of parameters; the same for all rows of a page.
    members: Mapping[str, list[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pointers_by_name: dict[str, list[str]] = {}
        for name, pointer in islice(members_of_all(self.parameters, self.rest), MAX_MEMBERS):
            pointers_by_name.setdefault(name, []).append(pointer)
        object.__setattr__(self, "members", pointers_by_name)

    def choices_for(self, target: Parameter | None, limit: int = MAX_CHOICES) -> Iterator[tuple[str, str]]:
        """Yield the parameters that fit the target, and all their members, as values and labels of a
        `select`. If there may be more than `limit`, the parameters come before the members.
        """
        fitting = (
            parameter.name
            for parameter in self.parameters
            if target is None or conversions.conversion_fit(parameter, target) != "no"
        )
        places: Iterator[tuple[str, str]]
        if len(self.parameters) + sum(map(len, self.members.values())) > limit:
            below = ((name, pointer) for name, inside in self.members.items() for pointer in inside)
            places = islice(chain(((name, "") for name in fitting), below), limit)
        else:
            fitting_names = set(fitting)
            places = (
                (parameter.name, pointer)
                for parameter in self.parameters
                for pointer in ([""] if parameter.name in fitting_names else [])
                + self.members.get(parameter.name, [])
            )
        for name, pointer in places:
            if self.step:
                source = Source(step=self.step, output=name, at=pointer)
            else:
                source = Source(input=name, at=pointer)
            yield encode_choice(source), describe_source(source, self)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row. `target` is the parameter that receives the value, or None if there is no such parameter.

    reason: why the source was proposed. is_gone: the signature has no parameter of this name any more.
    settings: the form of a fixed value that is the configuration of a run.
    has_free_name: the user enters the name.
    max_choices: the most choices from one origin; what was chosen before is always one of them.
    """

    prefix: str
    name: str
    source: Source | None
    target: Parameter | None
    origins: Sequence[Origin]
    faults: Sequence[str] = ()
    reason: str = ""
    is_gone: bool = False
    has_free_name: bool = False
    settings: ArgumentsForm | None = None
    max_choices: int = MAX_CHOICES
    groups: list[tuple[str, list[tuple[str, str]]]] = field(init=False)

    def __post_init__(self) -> None:
        groups, listed_values = [], {"", FIXED}
        for origin in self.origins:
            choices = list(origin.choices_for(self.target, self.max_choices))
            listed_values.update(value for value, _unused in choices)
            if choices:
                groups.append((origin.label, choices))
        if self.choice not in listed_values and self.source:
            label, origin_of_source = self.description, self._find_origin()
            names = [parameter.name for parameter in origin_of_source.parameters] if origin_of_source else []
            exists = (self.source.output or self.source.input) in names or (origin_of_source and not names)
            if not exists:
                label = _("{parameter}, which does not exist").format(parameter=label)
            groups.append(("", [(self.choice, label)]))
        object.__setattr__(self, "groups", groups)

    @property
    def choice(self) -> str:
        """The selected value of the row's `select`."""
        source = self.source
        if source is None or not (source.input or source.step or source.output or source.value is not UNSET):
            return ""
        return FIXED if source.value is not UNSET else encode_choice(source)

    @property
    def value(self) -> str:
        return text_of(self.source.value, self.target) if self.source else ""

    @property
    def otherwise(self) -> str:
        return text_of(self.source.otherwise, self.target) if self.source else ""

    @property
    def exact_source(self) -> str:
        """The source as JSON if the texts of the row would be parsed to another source, else ""."""
        if self.source is None:
            return ""
        values = ((self.source.value, self.value), (self.source.otherwise, self.otherwise))
        # Compared as JSON, because True is not 1 and 1.0 is not 1.
        is_exact = all(
            value is UNSET or msgspec.json.encode(value_of(text, self.target)) == msgspec.json.encode(value)
            for value, text in values
        )
        is_exact = is_exact and self.source.otherwise != ""
        return "" if is_exact else msgspec.json.encode(self.source).decode()

    @property
    def description(self) -> str:
        return describe_source(self.source, self._find_origin()) if self.source else ""

    @property
    def stand_in(self) -> str:
        return stand_in(self.source) if self.source else ""

    @property
    def type(self) -> str:
        return str(TYPES[self.target.type]) if self.target else ""

    @property
    def values(self) -> list[str]:
        """The possible fixed values, if the target lists them."""
        if self.target is None:
            return []
        if self.target.type == "boolean":
            return ["true", "false"]
        return [value.name for value in self.target.allowed_values]

    @property
    def is_open(self) -> bool:
        return bool(self.otherwise) or any("leave" in fault for fault in self.faults)

    def _find_origin(self) -> Origin | None:
        step = self.source.step if self.source else 0
        return next((origin for origin in self.origins if origin.step == step), None)


def parse_source(data: Posted, prefix: str, target: Parameter | None) -> Source | None:
    """Return the source that one row describes, or None for an empty row."""
    text = {name: data.get(f"{prefix}-{name}", "").replace("\r\n", "\n") for name in ("value", "otherwise")}
    choice, pointer = data.get(f"{prefix}-from", ""), data.get(f"{prefix}-at", "").strip()
    if exact_source := _decode_source(data.get(f"{prefix}-kept", "")):
        row = SourceRow(prefix, "", exact_source, target, ())
        if (row.choice, row.value, row.otherwise, "") == (choice, *text.values(), pointer):
            return exact_source
    otherwise = value_of(text["otherwise"], target) if text["otherwise"].strip() else UNSET
    if choice == FIXED:
        return Source(value=value_of(text["value"], target))
    source = _decode_source(choice)
    if source is None:
        return None if otherwise is UNSET else Source(otherwise=otherwise)
    pointer = pointer if not pointer or pointer.startswith("/") else f"/{pointer}"
    return msgspec.structs.replace(source, at=source.at + pointer, otherwise=otherwise)


def find_json_error(source: Source | None, target: Parameter | None) -> str:
    """Return a message if a fixed value begins like a JSON array or object but is not valid JSON, else ""."""
    if source is None or (target and target.type != "json"):
        return ""
    for value in (source.value, source.otherwise):
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            return _("“{value}” is not valid JSON. Check that each bracket and quote is closed.").format(
                value=printable(value, 40)
            )
    return ""


def encode_choice(source: Source) -> str:
    """Return the source without its values, as a `select` sends it."""
    return msgspec.json.encode(msgspec.structs.replace(source, value=UNSET, otherwise=UNSET)).decode()


def value_of(text: str, target: Parameter | None) -> Any:
    """Parse a text as a value for the target. A text that does not fit is returned itself, and the rules
    report it."""
    if target is None or target.type == "json":
        try:
            return strict_json.loads(text.encode(errors="surrogatepass"))
        except ProtocolViolationError:
            return text
    try:
        return conversions.convert_value(text, target)
    except UnfitValueError:
        return text


def text_of(value: Any, target: Parameter | None) -> str:
    """Return the text with which a user enters the value."""
    if value is UNSET:
        return ""
    if isinstance(value, str) and ((target and target.type != "json") or value_of(value, target) == value):
        return value
    return msgspec.json.encode(value).decode()


def describe_source(source: Source, origin: Origin | None = None) -> str:
    """Describe a source in a few words. `origin`: the inputs or the step that the source refers to."""
    if source.value is not UNSET:
        value = printable(text_of(source.value, None), 60)
        return _("always {value}").format(value=value) if value else _("always an empty text")
    name = printable(source.output or source.input, 60) or _("nothing")
    part = " → ".join(printable(step, 40) for step in pointers.split(source.at))
    is_plain = not source.step or (origin is not None and origin.is_only)
    label = name if is_plain else _("{output} of step {number}").format(output=name, number=source.step)
    return label + (f" → {part}" if part else "")


def stand_in(source: Source) -> str:
    """Return the fallback of a source as text, "" without one."""
    if source.otherwise is UNSET:
        return ""
    return printable(text_of(source.otherwise, None), 60) or _("an empty text")


def _decode_source(text: str) -> Source | None:
    if not text.startswith("{"):
        return None
    try:
        return msgspec.json.decode(text, type=Source)
    except msgspec.DecodeError:
        # The page sends only valid sources, so another client sent this one.
        return None


def by_name(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}
