"""A form for an activity: the parts that all kinds have in common.

The page shows everything again that the user entered, valid or not, with each fault at its row.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
from django.utils.translation import gettext as _

from catalog.models import Activity
from catalog.rules.sensitive_values import restore
from core import strict_json
from core.errors import DomainError, invalid
from core.outbound.errors import ProtocolViolationError
from core.stored_sentences import translate_sentence
from execution.activities import kinds
from execution.activities.callees import Callee, CalleeReference, CalleesByReference
from execution.activities.http_request import Template
from execution.activities.mocks.answers import Mock
from execution.activities.picking import ActivityFault, ActivityStep, Source, Steps
from execution.forms import source_rows
from execution.forms.source_rows import Origin, Posted, SourceRow
from people.forms import ModelOperationForm
from protocols.signature import Parameter, Signature

MAX_ROWS = 500
SPARE = 2
# The value of `act` when the user presses Enter: a search box then searches, and any other box saves.
ENTER = "enter"


class NameForm(ModelOperationForm):
    class Meta:
        model = Activity
        fields = ("name",)


@dataclass(frozen=True, slots=True)
class ActivityDraft:
    """An entered configuration, which may be invalid."""

    name: str
    interface: CalleeReference | None
    config: Steps | Template | Mock

    def references(self) -> set[CalleeReference]:
        steps = self.config.steps if isinstance(self.config, Steps) else ()
        return {reference_of(step) for step in steps} | ({self.interface} if self.interface else set())


def reference_of(step: ActivityStep) -> CalleeReference:
    return CalleeReference(tool=step.tool, ordinal=step.ordinal, activity=step.activity)


def references_in(data: Posted) -> set[CalleeReference]:
    """Return the references in a form, whose signatures the caller then loads for `parse_draft`."""
    texts = [data.get("interface", "")]
    texts += [data.get(f"steps-{index}-calls", "") for index in range(count_of(data, "steps"))]
    return {reference for text in texts if (reference := CalleeReference.parse(text))}


def signature_of(reference: CalleeReference | None, callees: CalleesByReference) -> Signature | None:
    callee = callees.get(reference) if reference else None
    return callee.signature if callee else None


def count_of(data: Posted, prefix: str) -> int:
    text = data.get(prefix, "")
    return min(int(text), MAX_ROWS) if text.isdecimal() and len(text) < 6 else 0


def parse_sources(data: Posted, prefix: str, targets: Mapping[str, Parameter]) -> dict[str, Source]:
    """Return the sources of one list by name, without its empty rows."""
    sources = {}
    for index in range(count_of(data, prefix)):
        typed = data.get(f"{prefix}-{index}-typed", "").strip()
        name = data.get(f"{prefix}-{index}-name", typed)
        source = source_rows.parse_source(data, f"{prefix}-{index}", targets.get(name))
        if source is not None or typed:
            sources[name] = source or Source()
    return sources


def state_of(text: str) -> str:
    return hashlib.sha256(text.replace("\r\n", "\n").strip().encode(errors="surrogatepass")).hexdigest()[:16]


def is_json_typed(data: Posted) -> bool:
    return data.get("json-was", "") not in ("", state_of(data.get("json", "")))


def from_json(draft: ActivityDraft, text: str) -> ActivityDraft:
    """Return the draft with another configuration. Raises DomainError for the field `json`."""
    try:
        document = strict_json.loads(text.encode(errors="surrogatepass"))
        return replace(draft, config=msgspec.convert(document, type(draft.config)))
    except ProtocolViolationError as error:
        raise invalid(json=str(error).replace("The reply", "This")) from None
    except msgspec.ValidationError as error:
        raise invalid(json=_("The configuration cannot be read: {error}.").format(error=error)) from None


class ActivityEditor(ABC):
    """The page for one activity.

    stored: the configuration whose values the masks of the draft stand for. shows_faults: validate the draft
    and show its faults.
    """

    template: ClassVar[str]

    @classmethod
    @abstractmethod
    def empty(cls) -> Steps | Template | Mock:
        """Return the configuration of a new activity."""

    @classmethod
    @abstractmethod
    def parse_draft(cls, data: Posted, callees: CalleesByReference) -> ActivityDraft:
        """Return the entered draft. `callees`: the callees that it refers to, with their signatures."""

    @classmethod
    def applied(cls, draft: ActivityDraft, act: str, kind: str, callees: CalleesByReference) -> ActivityDraft:
        """Return the draft after a button that changes it without saving it."""
        verb, _unused, reference = act.partition("-")
        return replace(draft, interface=CalleeReference.parse(reference)) if verb == "interface" else draft

    def __init__(
        self,
        kind: str,
        draft: ActivityDraft,
        callees: CalleesByReference,
        *,
        stored: Mapping[str, Any],
        data: Posted | None = None,
        shows_faults: bool = False,
    ) -> None:
        self.kind, self.draft, self.known, self.shows_faults = kinds.get(kind), draft, callees, shows_faults
        self.stored = stored
        self.head = NameForm(data, initial={"name": draft.name})
        self._messages: dict[str, list[str]] = defaultdict(list)
        self._rendered_paths: set[str] = set()
        self.act, self.json_error, self.data = "", "", data or {}
        self.faults: list[ActivityFault] = []
        if shows_faults:
            try:
                self.faults = list(self.kind.faults(self.config, self.signature))
            except DomainError as error:
                self.faults = [ActivityFault("", error.code, error.message)]
        for fault in self.faults:
            self._messages[fault.place].append(translate_sentence(fault.message))

    @property
    def config(self) -> dict[str, Any]:
        """Return the entered configuration. Raises DomainError for a mask without a stored value."""
        config: dict[str, Any] = restore(msgspec.to_builtins(self.draft.config), self.stored)
        return config

    @property
    def config_json(self) -> str:
        return json.dumps(msgspec.to_builtins(self.draft.config), ensure_ascii=False, indent=2)

    @property
    def json(self) -> str:
        """The text of the JSON field: the entered text as long as it is invalid, else the configuration."""
        return self.data.get("json", "") if self.json_error else self.config_json

    @property
    def json_state(self) -> str:
        """A digest of the rendered JSON. Another digest in a request means that the user edited the field."""
        return state_of(self.config_json)

    @property
    def interface(self) -> Callee | None:
        return self.known.get(self.draft.interface) if self.draft.interface else None

    @property
    def signature(self) -> Signature | None:
        return self.interface.signature if self.interface else None

    def inputs(self) -> list[Origin]:
        signature = self.signature
        if signature is None or not signature.inputs:
            return []
        return [Origin(_("Inputs"), 0, signature.inputs, signature.schema_rest)]

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
    ) -> list[SourceRow]:
        """Return a row for each target, then for each source without a target, then `spare` empty rows.

        prefix: of the field names. place: the path of these sources in the configuration.
        proposed: the proposed source by name, with the reason for it.
        """
        targets_by_name = source_rows.by_name(targets)
        names = [*targets_by_name, *(name for name in sources if name not in targets_by_name)]
        rows = []
        max_choices = max(source_rows.MIN_CHOICES, source_rows.MAX_CHOICES // (len(names) + spare or 1))
        for index in range(len(names) + spare):
            name = names[index] if index < len(names) else ""
            source, target = sources.get(name) if index < len(names) else None, targets_by_name.get(name)
            proposed_source, reason = (proposed or {}).get(name, (None, ""))
            messages = list(self.messages_at(f"{place}.{name}")) if index < len(names) else []
            if self.shows_faults and (json_error := source_rows.find_json_error(source, target)):
                messages.append(json_error)
            rows.append(
                SourceRow(
                    f"{prefix}-{index}",
                    name,
                    source,
                    target,
                    origins,
                    messages,
                    reason=reason if source and source == proposed_source else "",
                    is_gone=bool(name) and target is None and bool(targets_by_name),
                    has_free_name=not targets_by_name,
                    max_choices=max_choices,
                )
            )
        return rows

    def messages_at(self, place: str) -> list[str]:
        """Return the faults at one path, and note that the page shows them there."""
        self._rendered_paths.add(place)
        return self._messages.get(place, [])

    def other_messages(self) -> list[str]:
        """Return the faults that no row shows. The page calls it after the rows."""
        return [
            translate_sentence(fault.message)
            for fault in self.faults
            if fault.place not in self._rendered_paths
        ]

    def refuse(self, error: DomainError) -> None:
        """Add the faults of an error at their fields."""
        fault_paths = {fault.place for fault in self.faults}
        for place, message in error.fields.items():
            if place not in fault_paths and place not in self.head.fields:
                self.faults = [*self.faults, ActivityFault(place, error.code, message)]
                self._messages[place].append(translate_sentence(message))
        if not error.fields or not error.fields.keys().isdisjoint(self.head.fields):
            self.head.refuse(error)
