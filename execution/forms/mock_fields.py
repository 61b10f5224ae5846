"""A form for a shared mock: its seed, its examples and its situations."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import msgspec
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from msgspec import UNSET

from core import strict_json
from core.outbound.errors import ProtocolViolationError
from core.schema.samples import UnmetSchemaError
from execution.activities.callees import CalleeReference, CalleesByReference
from execution.activities.mocks import answers
from execution.activities.mocks.answers import ExampleAnswer, Mock
from execution.activities.mocks.situations import KINDS, Situation
from execution.forms.activity_fields import ActivityDraft, ActivityEditor, count_of, signature_of
from execution.forms.source_rows import TYPES, Posted, by_name, text_of, value_of
from protocols.signature import Parameter, Signature

SWITCHES = {"on": _("On"), "off": _("Off"), "when": _("For the calls below")}
# Labels of the members of a situation.
LABELS = {
    "hint": _("Hint for the model"),
    "after_ms": _("Milliseconds until a retry is allowed"),
    "times": _("Number of failed calls"),
    "provider": _("Provider"),
    "polls": _("Completed at the poll number"),
    "url": _("Address that the user visits"),
    "schema": _("JSON Schema of the answer"),
    "parameter_errors": _("What is wrong with an input"),
    "retry_after": _("Seconds until it is available again"),
    "seconds": _("Seconds"),
    "message": _("Message, in place of the default text"),
    "when": _("Calls that it applies to"),
}
BY_INPUT = ("parameter_errors", "when")
HINTS = {
    "when": _(
        "The required value of each input, where * matches any characters. It has an effect only if "
        "neither “On” nor “Off” is chosen."
    ),
    "schema": _("The schema of the user's answer."),
}
NO_OBJECT = _('This is not a JSON object. Enter one such as {"city": "Oslo"}.')
NO_SEED = _("Enter a whole number from 0 to {maximum}.")


@dataclass(frozen=True, slots=True)
class ValueField:
    id: str
    label: str
    typed: str
    type: str = ""
    choices: Sequence[str] = ()
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class Values:
    """Values by name: one field for each, or one JSON object if the fields cannot represent them."""

    id: str
    label: str
    fields: Sequence[ValueField]
    json: str
    faults: Sequence[str]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ExampleRow:
    index: int
    arguments: Values
    outputs: Values

    @property
    def number(self) -> int:
        return self.index + 1


@dataclass(frozen=True, slots=True)
class SituationRow:
    index: int
    label: str
    name: str
    switch: str
    members: Sequence[ValueField]
    objects: Sequence[Values]
    faults: Sequence[str]


class MockEditor(ActivityEditor):
    template: ClassVar[str] = "catalog/_activity_mock.html"
    switches = SWITCHES

    @property
    def offered(self) -> dict[str, str]:
        """The labels of the situations that can be added."""
        return {name: gettext(kind.label) for name, kind in KINDS.items()}

    @classmethod
    def empty(cls) -> Mock:
        return Mock()

    @classmethod
    def parse_draft(cls, data: Posted, callees: CalleesByReference) -> ActivityDraft:
        seed = data.get("seed", "").strip()
        interface = CalleeReference.parse(data.get("interface", ""))
        signature = signature_of(interface, callees)
        mock = Mock(
            # Invalid entries remain as text, and the rules report them.
            seed=int(seed) if seed.isdecimal() and len(seed) < 20 else cast(Any, seed),
            examples=tuple(
                ExampleAnswer(
                    arguments=_parse_values(data, f"examples-{index}-arguments", _inputs_of(signature)),
                    outputs=_parse_values(data, f"examples-{index}-outputs", _outputs_of(signature)),
                )
                for index in range(count_of(data, "examples"))
            ),
            situations=cast(Any, tuple(_parse_situations(data, signature))),
        )
        with suppress(msgspec.ValidationError):
            mock = msgspec.convert(msgspec.to_builtins(mock), Mock)
        return ActivityDraft(data.get("name", ""), interface, mock)

    @classmethod
    def applied(cls, draft: ActivityDraft, act: str, kind: str, callees: CalleesByReference) -> ActivityDraft:
        """Add or remove an example or a situation."""
        mock = cast(Mock, draft.config)
        match act.split("-"):
            case ["example"]:
                signature = signature_of(draft.interface, callees)
                seed = mock.seed if isinstance(mock.seed, int) else 0
                try:
                    outputs = answers.made_up(Mock(seed=seed), signature, {}) if signature else {}
                except UnmetSchemaError:
                    outputs = {}
                example = ExampleAnswer(outputs=outputs)
                mock = msgspec.structs.replace(mock, examples=(*mock.examples, example))
            case ["situation", name] if name in KINDS:
                added = cast(Any, KINDS[name](switch=True))
                mock = msgspec.structs.replace(mock, situations=(*mock.situations, added))
            case ["drop", ("examples" | "situations") as list_name, index]:
                remaining = [
                    item for position, item in enumerate(getattr(mock, list_name)) if str(position) != index
                ]
                mock = msgspec.structs.replace(mock, **{list_name: tuple(remaining)})
            case _:
                return super().applied(draft, act, kind, callees)
        return replace(draft, config=mock)

    @property
    def mock(self) -> Mock:
        return cast(Mock, self.draft.config)

    def examples(self) -> list[ExampleRow]:
        return [
            ExampleRow(
                index,
                self._values(f"examples-{index}-arguments", example.arguments, _inputs_of(self.signature)),
                self._values(f"examples-{index}-outputs", example.outputs, _outputs_of(self.signature)),
            )
            for index, example in enumerate(self.mock.examples)
        ]

    def situations(self) -> list[SituationRow]:
        rows = []
        # A situation is a dictionary as long as a part of the mock is invalid.
        situations = cast(Sequence[Situation | dict[str, Any]], self.mock.situations)
        for index, situation in enumerate(situations):
            if isinstance(situation, dict):
                values = situation
            else:
                values = {"name": situation.name, **msgspec.structs.asdict(situation)}
            kind, switch, prefix = KINDS[str(values["name"])], values.get("switch"), f"situations-{index}"
            values = {**msgspec.structs.asdict(kind()), **values}
            plain, objects = _members_of_kind(kind)
            row = SituationRow(
                index,
                gettext(kind.label),
                str(values["name"]),
                "when" if switch is None else "on" if switch else "off",
                [
                    ValueField(f"{prefix}-{name}", str(LABELS[name]), text_of(values[name], _TEXT))
                    for name in plain
                ],
                [
                    self._values(f"{prefix}-{name}", values[name], _by_input(name, self.signature), name)
                    for name in objects
                ],
                [message for name in plain for message in self.messages_at(f"situations.{index}.{name}")]
                + self.messages_at(f"situations.{index}"),
            )
            rows.append(row)
        return rows

    def _values(self, id_: str, value: Any, parameters: Sequence[Parameter], member: str = "") -> Values:
        path = id_.replace("-", ".")
        paths_below = [fault.place for fault in self.faults if fault.place.startswith(f"{path}.")]
        paths = dict.fromkeys([path, *paths_below])
        messages = [message for path in paths for message in self.messages_at(path)]
        if self.shows_faults and isinstance(value, str):
            messages = [str(NO_OBJECT)]
        shown_parameters = parameters if _fields_can_represent(value, parameters) else ()
        fields = [
            ValueField(
                f"{id_}-{number}",
                parameter.name,
                text_of(value.get(parameter.name, UNSET), parameter),
                "" if parameter.type == _TEXT.type else str(TYPES[parameter.type]),
                ["true", "false"]
                if parameter.type == "boolean"
                else [allowed.name for allowed in parameter.allowed_values],
                parameter.type == "json",
            )
            for number, parameter in enumerate(shown_parameters)
        ]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        return Values(
            id_,
            str(LABELS.get(member, "")),
            fields,
            text if value else "",
            messages,
            str(HINTS.get(member, "")),
        )

    def seed_faults(self) -> list[str]:
        return [NO_SEED.format(maximum=answers.MAX_SEED)] if self.messages_at("seed") else []

    def example_faults(self) -> list[str]:
        """Return the faults of the examples as a list."""
        return self.messages_at("examples")


# The parameter of members that are not objects.
_TEXT = Parameter(id="", name="", type="string", required=False, description="")


def _members_of_kind(kind: type[Situation]) -> tuple[list[str], list[str]]:
    """Return the text and number members of a situation, and its object members, in the order of the page."""
    specific = [name for name in kind.__struct_fields__ if name not in ("switch", "when", "message")]
    objects = [name for name in specific if isinstance(getattr(kind(), name), dict)]
    return [*(name for name in specific if name not in objects), "message"], [*objects, "when"]


def _inputs_of(signature: Signature | None) -> Sequence[Parameter]:
    return signature.inputs if signature else ()


def _outputs_of(signature: Signature | None) -> Sequence[Parameter]:
    return signature.outputs if signature else ()


def _by_input(member: str, signature: Signature | None) -> Sequence[Parameter]:
    """Return a text parameter for each input, if the member maps inputs to texts."""
    if member not in BY_INPUT:
        return ()
    return [
        msgspec.structs.replace(_TEXT, id=parameter.id, name=parameter.name)
        for parameter in _inputs_of(signature)
    ]


def _fields_can_represent(value: Any, parameters: Sequence[Parameter]) -> bool:
    """Return whether the texts of the fields parse to exactly `value`. An empty field has no value."""
    targets = by_name(parameters)
    if not isinstance(value, Mapping) or not targets or not value.keys() <= targets.keys():
        return False
    return all(
        (text := text_of(item, targets[name]))
        and msgspec.json.encode(value_of(text, targets[name])) == msgspec.json.encode(item)
        for name, item in value.items()
    )


def _parse_values(data: Posted, id_: str, parameters: Sequence[Parameter]) -> Any:
    """Return the values of one JSON field, or of a field for each parameter, whichever the page has."""
    if id_ in data:
        # A text that contains no object stays a text.
        object_text = data[id_]
        if not object_text.strip():
            return {}
        try:
            value = strict_json.loads(object_text.encode(errors="surrogatepass"))
        except ProtocolViolationError:
            return object_text
        return value if isinstance(value, dict) else object_text
    values = {}
    for index, parameter in enumerate(parameters):
        if text := data.get(f"{id_}-{index}", "").replace("\r\n", "\n"):
            values[parameter.name] = value_of(text, parameter)
    return values


def _parse_situations(data: Posted, signature: Signature | None) -> Iterable[dict[str, Any]]:
    for index in range(count_of(data, "situations")):
        prefix = f"situations-{index}"
        name, switch = (data.get(f"{prefix}-{field}", "") for field in ("name", "switch"))
        if name not in KINDS:
            continue
        plain, objects = _members_of_kind(KINDS[name])
        defaults = msgspec.structs.asdict(KINDS[name]())
        values: dict[str, Any] = {
            member: text if isinstance(defaults[member], str) else value_of(text, None)
            for member in plain
            if (text := data.get(f"{prefix}-{member}", "").strip())
        }
        for member in objects:
            values[member] = _parse_values(data, f"{prefix}-{member}", _by_input(member, signature))
        # The page shows default values, which are not stored.
        values = {member: value for member, value in values.items() if defaults[member] != value}
        yield {**values, "name": name, **({"switch": switch == "on"} if switch in ("on", "off") else {})}
