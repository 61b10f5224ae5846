"""A mock that any agent may use, as a person sets it up: its seed, its examples and its situations."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import msgspec
from msgspec import UNSET

from catalog.activities.callees import Known, Reference
from catalog.activities.mocks import answers
from catalog.activities.mocks.answers import Mock, MockExample
from catalog.activities.mocks.situations import KINDS, Situation
from catalog.forms.activity_fields import Draft, Editor, count_of, signature_of
from catalog.forms.source_rows import TYPES, Posted, named, text_of, value_of
from core import strict_json
from core.outbound.errors import ProtocolViolationError
from core.schema.samples import UnmetSchemaError
from protocols.signature import Parameter, Signature

# How `switch` is chosen.
SWITCHES = {"on": "On", "off": "Off", "when": "For the calls that are said below"}
# What a field for each member of a situation is called.
LABELS = {
    "hint": "Hint for the model",
    "after_ms": "Milliseconds until it may be tried again",
    "times": "How many times",
    "provider": "Provider",
    "polls": "Given when it is gone on with for the time number",
    "url": "Address that the user visits",
    "schema": "JSON Schema of the answer",
    "parameter_errors": "What is wrong with an input",
    "retry_after": "Seconds until it is back",
    "seconds": "Seconds",
    "message": "What it says, in place of our words",
    "when": "Which calls meet it",
}
BY_INPUT = ("parameter_errors", "when")
HINTS = {
    "when": "By input what its value must be; * stands for any characters. It counts where neither “On” nor "
    "“Off” is chosen.",
    "schema": "Of what the user answers.",
}
NO_OBJECT = 'This is no JSON object, such as {"city": "Oslo"}.'
NO_SEED = f"Give a whole number from 0 to {answers.MAX_SEED}."


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
    """Values by name, a field for each; or all of them as one JSON object, where fields cannot say them."""

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


class MockEditor(Editor):
    template: ClassVar[str] = "catalog/_activity_mock.html"
    switches = SWITCHES
    offered: ClassVar[dict[str, str]] = {name: kind.label for name, kind in KINDS.items()}

    @classmethod
    def empty(cls) -> Mock:
        return Mock()

    @classmethod
    def read(cls, data: Posted, known: Known) -> Draft:
        seed = data.get("seed", "").strip()
        interface = Reference.read(data.get("interface", ""))
        signature = signature_of(interface, known)
        mock = Mock(
            # What is no number, object or situation is kept as it was typed, for the rules to say so.
            seed=int(seed) if seed.isdecimal() and len(seed) < 20 else cast(Any, seed),
            examples=tuple(_examples(data, signature)),
            situations=cast(Any, tuple(_situations(data, signature))),
        )
        with suppress(msgspec.ValidationError):
            mock = msgspec.convert(msgspec.to_builtins(mock), Mock)
        return Draft(data.get("name", ""), interface, mock)

    @classmethod
    def applied(cls, draft: Draft, act: str, kind: str, known: Known) -> Draft:
        """Adds an example or a situation, or takes one out."""
        mock = cast(Mock, draft.config)
        match act.split("-"):
            case ["example"]:
                made = MockExample(outputs=_made_up(mock, signature_of(draft.interface, known)))
                mock = msgspec.structs.replace(mock, examples=(*mock.examples, made))
            case ["situation", name] if name in KINDS:
                added = cast(Any, KINDS[name](switch=True))
                mock = msgspec.structs.replace(mock, situations=(*mock.situations, added))
            case ["drop", ("examples" | "situations") as which, at]:
                left = [each for index, each in enumerate(getattr(mock, which)) if str(index) != at]
                mock = msgspec.structs.replace(mock, **{which: tuple(left)})
            case _:
                return super().applied(draft, act, kind, known)
        return replace(draft, config=mock)

    @property
    def mock(self) -> Mock:
        return cast(Mock, self.draft.config)

    def examples(self) -> list[ExampleRow]:
        return [
            ExampleRow(
                index,
                self._values(f"examples-{index}-arguments", each.arguments, _inputs(self.signature)),
                self._values(f"examples-{index}-outputs", each.outputs, _outputs(self.signature)),
            )
            for index, each in enumerate(self.mock.examples)
        ]

    def situations(self) -> list[SituationRow]:
        return [self._situation(index, cast(Any, each)) for index, each in enumerate(self.mock.situations)]

    def _situation(self, index: int, told: Situation | dict[str, Any]) -> SituationRow:
        # A dictionary, while some of the mock cannot be read.
        said = told if isinstance(told, dict) else {"name": told.name, **msgspec.structs.asdict(told)}
        kind, switch, prefix = KINDS[str(said["name"])], said.get("switch"), f"situations-{index}"
        said = {**msgspec.structs.asdict(kind()), **said}
        plain, objects = _members(kind)
        return SituationRow(
            index,
            kind.label,
            str(said["name"]),
            "when" if switch is None else "on" if switch else "off",
            [ValueField(f"{prefix}-{each}", LABELS[each], text_of(said[each], _TEXT)) for each in plain],
            [
                self._values(f"{prefix}-{each}", said[each], _by_input(each, self.signature), each)
                for each in objects
            ],
            [words for each in plain for words in self.said(f"situations.{index}.{each}")]
            + self.said(f"situations.{index}"),
        )

    def _values(self, id_: str, value: Any, parameters: Sequence[Parameter], member: str = "") -> Values:
        place = id_.replace("-", ".")
        below = [each.place for each in self.faults if each.place.startswith(f"{place}.")]
        faults = [words for each in dict.fromkeys([place, *below]) for words in self.said(each)]
        if self.judged and isinstance(value, str):
            faults = [NO_OBJECT]
        fields = _fields(id_, value, parameters) if _are_sayable(value, parameters) else []
        told = _text(value) if value else ""
        return Values(id_, LABELS.get(member, ""), fields, told, faults, HINTS.get(member, ""))

    def seed_faults(self) -> list[str]:
        said = self.said("seed")
        return [NO_SEED] if said else []

    def example_faults(self) -> list[str]:
        """What is wrong with the answers as a whole."""
        return self.said("examples")


# As which a member that is no object is shown: as it is typed.
_TEXT = Parameter(id="", name="", type="string", required=False, description="")


def _members(kind: type[Situation]) -> tuple[list[str], list[str]]:
    """Those that are texts or numbers, and those that are objects; what it says stands last."""
    own = [each for each in kind.__struct_fields__ if each not in ("switch", "when", "message")]
    objects = [each for each in own if isinstance(getattr(kind(), each), dict)]
    return [*(each for each in own if each not in objects), "message"], [*objects, "when"]


def _inputs(signature: Signature | None) -> Sequence[Parameter]:
    return signature.inputs if signature else ()


def _outputs(signature: Signature | None) -> Sequence[Parameter]:
    return signature.outputs if signature else ()


def _by_input(member: str, signature: Signature | None) -> Sequence[Parameter]:
    """A text for each input, such as the pattern of its value; none for what no field can say."""
    if member not in BY_INPUT:
        return ()
    return [msgspec.structs.replace(_TEXT, id=each.id, name=each.name) for each in _inputs(signature)]


def _fields(id_: str, values: Mapping[str, Any], parameters: Sequence[Parameter]) -> list[ValueField]:
    return [
        ValueField(
            f"{id_}-{number}",
            each.name,
            text_of(values.get(each.name, UNSET), each),
            "" if each.type == _TEXT.type else TYPES[each.type],
            ["true", "false"] if each.type == "boolean" else [value.name for value in each.allowed_values],
            each.type == "json",
        )
        for number, each in enumerate(parameters)
    ]


def _are_sayable(value: Any, parameters: Sequence[Parameter]) -> bool:
    """Whether fields would give back what there is: an empty one says nothing."""
    by_name = named(parameters)
    if not isinstance(value, Mapping) or not by_name or not value.keys() <= by_name.keys():
        return False
    return all(
        (text := text_of(each, by_name[name]))
        and msgspec.json.encode(value_of(text, by_name[name])) == msgspec.json.encode(each)
        for name, each in value.items()
    )


def _typed(data: Posted, id_: str, parameters: Sequence[Parameter]) -> Any:
    """As the page showed it: one JSON object, or a field for each."""
    if id_ in data:
        return _object(data[id_])
    texts = {each: data.get(f"{id_}-{n}", "").replace("\r\n", "\n") for n, each in enumerate(parameters)}
    return {each.name: value_of(text, each) for each, text in texts.items() if text}


def _examples(data: Posted, signature: Signature | None) -> Iterable[MockExample]:
    for at in range(count_of(data, "examples")):
        yield MockExample(
            arguments=_typed(data, f"examples-{at}-arguments", _inputs(signature)),
            outputs=_typed(data, f"examples-{at}-outputs", _outputs(signature)),
        )


def _situations(data: Posted, signature: Signature | None) -> Iterable[dict[str, Any]]:
    for at in range(count_of(data, "situations")):
        prefix = f"situations-{at}"
        name, chosen = (data.get(f"{prefix}-{each}", "") for each in ("name", "switch"))
        if name not in KINDS:
            continue
        plain, objects = _members(KINDS[name])
        usual = msgspec.structs.asdict(KINDS[name]())
        told: dict[str, Any] = {
            each: typed if isinstance(usual[each], str) else value_of(typed, None)
            for each in plain
            if (typed := data.get(f"{prefix}-{each}", "").strip())
        }
        told |= {each: _typed(data, f"{prefix}-{each}", _by_input(each, signature)) for each in objects}
        # The page shows what a situation says when it is told nothing, which need not be kept.
        told = {each: value for each, value in told.items() if usual[each] != value}
        yield {**told, "name": name, **({"switch": chosen == "on"} if chosen in ("on", "off") else {})}


def _object(text: str) -> Any:
    """The JSON object that was typed; the text itself where it is none."""
    if not text.strip():
        return {}
    try:
        value = strict_json.loads(text.encode(errors="surrogatepass"))
    except ProtocolViolationError:
        return text
    return value if isinstance(value, dict) else text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _made_up(mock: Mock, signature: Signature | None) -> dict[str, Any]:
    seed = mock.seed if isinstance(mock.seed, int) else 0
    try:
        return answers.made_up(Mock(seed=seed), signature, {}) if signature else {}
    except UnmetSchemaError:
        return {}
