"""A mock that any agent may use, as a person sets it up: its seed, its examples and its situations."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import msgspec

from catalog.activities.callees import Known, Reference
from catalog.activities.mocks import answers, generation
from catalog.activities.mocks.answers import Mock, MockExample
from catalog.activities.mocks.situations import SITUATIONS, Situation
from catalog.forms.activity_fields import Draft, Editor, count_of, signature_of
from catalog.forms.source_rows import Posted
from catalog.protocols.signature import Signature
from core import strict_json
from core.outbound.errors import ProtocolViolationError

KINDS: dict[str, type[Situation]] = {str(each.__struct_config__.tag): each for each in SITUATIONS}
# How `switch` is chosen.
SWITCHES = {"on": "On", "off": "Off", "when": "For the calls that “when” describes"}
# Members that most situations do without.
SELDOM = ("when", "message")
# In the place of a situation's own members, while what was typed for them is no object.
TYPED = "members"
NO_OBJECT = 'This is no JSON object, such as {"city": "Oslo"}.'
NO_SEED = f"Give a whole number from 0 to {answers.MAX_SEED}."


@dataclass(frozen=True, slots=True)
class ExampleRow:
    index: int
    arguments: str
    outputs: str
    arguments_faults: Sequence[str]
    outputs_faults: Sequence[str]

    @property
    def number(self) -> int:
        return self.index + 1


@dataclass(frozen=True, slots=True)
class SituationRow:
    index: int
    name: str
    label: str
    switch: str
    members: str
    may_have: Sequence[str]
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
        mock = Mock(
            # What is no number, object or situation is kept as it was typed, for the rules to say so.
            seed=int(seed) if seed.isdecimal() and len(seed) < 20 else cast(Any, seed),
            examples=tuple(_examples(data)),
            situations=cast(Any, tuple(_situations(data))),
        )
        with suppress(msgspec.ValidationError):
            mock = msgspec.convert(msgspec.to_builtins(mock), Mock)
        return Draft(data.get("name", ""), Reference.read(data.get("interface", "")), mock)

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
                _text(each.arguments) if each.arguments else "",
                _text(each.outputs),
                self._said_of(f"examples.{index}.arguments", each.arguments),
                self._said_of(f"examples.{index}.outputs", each.outputs),
            )
            for index, each in enumerate(self.mock.examples)
        ]

    def situations(self) -> list[SituationRow]:
        return [self._situation(index, cast(Any, each)) for index, each in enumerate(self.mock.situations)]

    def _situation(self, index: int, told: Situation | dict[str, Any]) -> SituationRow:
        # A dictionary, while some of the mock cannot be read.
        if isinstance(told, dict):
            name, switch = str(told["name"]), told.get("switch")
            members = told.get(TYPED, {each: told[each] for each in told if each not in ("name", "switch")})
        else:
            name, switch = told.name, told.switch
            named = [*_own(name), *(each for each in SELDOM if getattr(told, each))]
            members = {each: getattr(told, each) for each in named}
        return SituationRow(
            index,
            name,
            KINDS[name].label,
            "when" if switch is None else "on" if switch else "off",
            _text(members),
            [*_own(name), *SELDOM],
            self._said_of(f"situations.{index}", members),
        )

    def seed_faults(self) -> list[str]:
        said = self.said("seed")
        return [NO_SEED] if said else []

    def example_faults(self) -> list[str]:
        """What is wrong with the answers as a whole."""
        return self.said("examples")

    def _said_of(self, place: str, value: Any) -> list[str]:
        below = [each.place for each in self.faults if each.place.startswith(f"{place}.")]
        found = [words for each in dict.fromkeys([place, *below]) for words in self.said(each)]
        return [NO_OBJECT] if self.judged and isinstance(value, str) else found


def _examples(data: Posted) -> Iterable[MockExample]:
    for at in range(count_of(data, "examples")):
        given = [_object(data.get(f"examples-{at}-{name}", "")) for name in ("arguments", "outputs")]
        yield MockExample(arguments=given[0], outputs=given[1])


def _situations(data: Posted) -> Iterable[dict[str, Any]]:
    for at in range(count_of(data, "situations")):
        name, chosen = (data.get(f"situations-{at}-{each}", "") for each in ("name", "switch"))
        if name not in KINDS:
            continue
        members = _object(data.get(f"situations-{at}-members", ""))
        members = members if isinstance(members, dict) else {TYPED: members}
        # The page shows what a situation says when it is told nothing, which need not be kept.
        usual = msgspec.structs.asdict(KINDS[name]())
        members = {each: value for each, value in members.items() if usual.get(each, TYPED) != value}
        yield {**members, "name": name, **({"switch": chosen == "on"} if chosen in ("on", "off") else {})}


def _own(name: str) -> list[str]:
    return [each for each in KINDS[name].__struct_fields__ if each not in ("switch", *SELDOM)]


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
    except generation.UnmetSchemaError:
        return {}
