"""An activity as a person sets it up: what all kinds have in common.

Everything that was typed comes back with the page, whatever it is worth. What stands against running it is
shown at the row that it is about.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
from django import forms

from catalog.activities import kinds, operations
from catalog.activities.callees import Callee, Known, Reference
from catalog.activities.http_request import Template
from catalog.activities.mocks.answers import Mock
from catalog.activities.picking import Fault, Source, Step, Steps
from catalog.forms import source_rows
from catalog.forms.source_rows import Origin, Posted, Row
from core import strict_json
from core.errors import DomainError, invalid
from core.outbound.errors import ProtocolViolationError
from people.forms import OperationForm
from protocols.signature import Parameter, Signature

MAX_ROWS = 500
SPARE = 2
# What Enter in a box does: it seeks where something is sought, and saves elsewhere.
ENTER = "enter"


class NameForm(OperationForm):
    name = forms.CharField(
        max_length=operations.MAX_NAME_LENGTH,
        help_text="As lists and environments call it, such as “Send mail with Larkspur”.",
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """What was typed so far, as a configuration that need not run."""

    name: str
    interface: Reference | None
    config: Steps | Template | Mock

    def references(self) -> set[Reference]:
        made = self.config.steps if isinstance(self.config, Steps) else ()
        return {reference_of(step) for step in made} | ({self.interface} if self.interface else set())


def reference_of(step: Step) -> Reference:
    return Reference(tool=step.tool, ordinal=step.ordinal, activity=step.activity)


def references_in(data: Posted) -> set[Reference]:
    """What a form names, for its signatures to be there when it is read."""
    called = (data.get(f"steps-{at}-calls", "") for at in range(count_of(data, "steps")))
    return {found for text in (data.get("interface", ""), *called) if (found := Reference.read(text))}


def signature_of(reference: Reference | None, known: Known) -> Signature | None:
    callee = known.get(reference) if reference else None
    return callee.signature if callee else None


def count_of(data: Posted, prefix: str) -> int:
    text = data.get(prefix, "")
    return min(int(text), MAX_ROWS) if text.isdecimal() and len(text) < 6 else 0


def sources(data: Posted, prefix: str, targets: Mapping[str, Parameter]) -> dict[str, Source]:
    """The rows of one list that say something, by their names."""
    found = {}
    for at in range(count_of(data, prefix)):
        typed = data.get(f"{prefix}-{at}-typed", "").strip()
        name = data.get(f"{prefix}-{at}-name", typed)
        source = source_rows.read(data, f"{prefix}-{at}", targets.get(name))
        if source is not None or typed:
            found[name] = source or Source()
    return found


def state_of(text: str) -> str:
    return hashlib.sha256(text.replace("\r\n", "\n").strip().encode(errors="surrogatepass")).hexdigest()[:16]


def is_json_typed(data: Posted) -> bool:
    return data.get("json-was", "") not in ("", state_of(data.get("json", "")))


def from_json(draft: Draft, text: str) -> Draft:
    """With another configuration. Raises DomainError with a sentence for `json`."""
    try:
        given = strict_json.loads(text.encode(errors="surrogatepass"))
        return replace(draft, config=msgspec.convert(given, type(draft.config)))
    except ProtocolViolationError as error:
        raise invalid(json=str(error).replace("The reply", "This")) from None
    except msgspec.ValidationError as error:
        raise invalid(json=f"The configuration cannot be read: {error}.") from None


class Editor(ABC):
    """One page on which an activity is set up; `judged` says whether faults are shown."""

    template: ClassVar[str]

    @classmethod
    @abstractmethod
    def empty(cls) -> Steps | Template | Mock:
        """The configuration that a new one begins with."""

    @classmethod
    @abstractmethod
    def read(cls, data: Posted, known: Known) -> Draft:
        """What was typed. `known` has the signatures of what it names."""

    @classmethod
    def applied(cls, draft: Draft, act: str, kind: str, known: Known) -> Draft:
        """What a button does that saves nothing."""
        verb, _, named = act.partition("-")
        return replace(draft, interface=Reference.read(named)) if verb == "interface" else draft

    def __init__(
        self, kind: str, draft: Draft, known: Known, *, data: Posted | None = None, judged: bool = False
    ) -> None:
        self.kind, self.draft, self.known, self.judged = kinds.get(kind), draft, known, judged
        self.head = NameForm(data, initial={"name": draft.name})
        self._said: dict[str, list[str]] = defaultdict(list)
        self._placed: set[str] = set()
        self.act, self.why_no_json, self.data = "", "", data or {}
        self.faults = self._faults() if judged else []
        for fault in self.faults:
            self._said[fault.place].append(fault.message)

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self.draft.config)
        return found

    @property
    def written(self) -> str:
        """The configuration as JSON."""
        return json.dumps(self.config, ensure_ascii=False, indent=2)

    @property
    def json(self) -> str:
        """As it is shown: what was typed there, while it is not taken over."""
        return self.data.get("json", "") if self.why_no_json else self.written

    @property
    def json_state(self) -> str:
        """By which it is noticed that something was typed there."""
        return state_of(self.written)

    @property
    def interface(self) -> Callee | None:
        return self.known.get(self.draft.interface) if self.draft.interface else None

    @property
    def signature(self) -> Signature | None:
        return self.interface.signature if self.interface else None

    def inputs(self) -> list[Origin]:
        found = self.signature
        return [Origin("Inputs", 0, found.inputs, found.schema_rest)] if found and found.inputs else []

    def rows(
        self,
        prefix: str,
        place: str,
        sources: Mapping[str, Source],
        targets: Iterable[Parameter],
        origins: Sequence[Origin],
        *,
        spare: int = 0,
        proposed: Mapping[str, tuple[Source, str]] | None = None,
    ) -> list[Row]:
        """One for each target, then those whose target there is not, then empty ones."""
        known = source_rows.named(targets)
        names = [*known, *(name for name in sources if name not in known)]
        found = []
        for at in range(len(names) + spare):
            name = names[at] if at < len(names) else ""
            source, target = sources.get(name) if at < len(names) else None, known.get(name)
            first, why = (proposed or {}).get(name, (None, ""))
            said = list(self.said(f"{place}.{name}")) if at < len(names) else []
            if self.judged and (unreadable := source_rows.why_unreadable(source, target)):
                said.append(unreadable)
            found.append(
                Row(
                    f"{prefix}-{at}",
                    name,
                    source,
                    target,
                    origins,
                    said,
                    # While the source is the one that was proposed.
                    why=why if source and source == first else "",
                    is_gone=bool(name) and target is None and bool(known),
                    is_named_here=not known,
                )
            )
        return found

    def said(self, place: str) -> list[str]:
        self._placed.add(place)
        return self._said.get(place, [])

    def said_elsewhere(self) -> list[str]:
        """What no row shows. Asked for after the rows."""
        return [fault.message for fault in self.faults if fault.place not in self._placed]

    def refuse(self, error: DomainError) -> None:
        """What the operation refuses is shown where it was typed."""
        known = {fault.place for fault in self.faults}
        for place, said in error.fields.items():
            if place not in known and place not in self.head.fields:
                self.faults = [*self.faults, Fault(place, error.code, said)]
                self._said[place].append(said)
        if not error.fields or not error.fields.keys().isdisjoint(self.head.fields):
            self.head.refuse(error)

    def _faults(self) -> list[Fault]:
        try:
            return list(self.kind.faults(self.config, self.signature))
        except DomainError as error:
            return [Fault("", error.code, error.message)]
