"""A form for an activity that sends an HTTP request."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Credential
from catalog.models.vendors import OAuthKind
from execution.activities.callees import CalleeReference, CalleesByReference
from execution.activities.http_request import METHODS, Form, OutputSource, Template
from execution.forms import source_rows
from execution.forms.activity_fields import SPARE, ActivityDraft, ActivityEditor, count_of, parse_sources
from execution.forms.source_rows import Posted, SourceRow
from protocols.call_outcome import OutcomeKind
from protocols.signature import Parameter

LISTS = {
    "query": gettext_lazy("Query"),
    "headers": gettext_lazy("Headers"),
    "body": gettext_lazy("Body"),
}
TAKEN = {
    "json": gettext_lazy("JSON of the reply"),
    "text": gettext_lazy("Text of the reply"),
    "header": gettext_lazy("A header"),
    "status": gettext_lazy("The status"),
}
MEANINGS = {
    "ok": gettext_lazy("Succeeded"),
    "tool_error": gettext_lazy("Failed"),
    "invalid_arguments": gettext_lazy("Invalid input"),
    "unavailable": gettext_lazy("Unavailable, try again later"),
    "refused": gettext_lazy("Refused"),
}


@dataclass(frozen=True, slots=True)
class OutputRow:
    """The part of the reply that one output is taken from. None: the output is missing."""

    prefix: str
    name: str
    taken: OutputSource | None
    target: Parameter | None
    faults: Sequence[str]
    has_free_name: bool

    @property
    def is_gone(self) -> bool:
        return bool(self.name) and self.target is None and not self.has_free_name


@dataclass(frozen=True, slots=True)
class StatusRow:
    prefix: str
    status: str
    means: str
    faults: Sequence[str]


class HttpEditor(ActivityEditor):
    template: ClassVar[str] = "catalog/_activity_http.html"
    methods = METHODS
    forms: ClassVar[tuple[str, ...]] = get_args(Form)
    taken_from = TAKEN
    meanings = MEANINGS

    @classmethod
    def empty(cls) -> Template:
        return Template(address="")

    @classmethod
    def parse_draft(cls, data: Posted, callees: CalleesByReference) -> ActivityDraft:
        interface = CalleeReference.parse(data.get("interface", ""))
        statuses = {}
        for index in range(count_of(data, "statuses")):
            outcome = data.get(f"statuses-{index}-means", "")
            if status := data.get(f"statuses-{index}-status", "").strip():
                statuses[status] = cast(OutcomeKind, outcome if outcome in MEANINGS else "tool_error")
        template = Template(
            address=data.get("address", "").strip(),
            method=data.get("method", "GET"),
            query=parse_sources(data, "query", {}),
            headers=parse_sources(data, "headers", {}),
            body=parse_sources(data, "body", {}),
            form=cast(Form, data.get("form") if data.get("form") in cls.forms else "json"),
            outputs=dict(_parse_outputs(data)),
            statuses=statuses,
            credential=data.get("credential", ""),
        )
        return ActivityDraft(data.get("name", ""), interface, template)

    @property
    def request(self) -> Template:
        return cast(Template, self.draft.config)

    @property
    def placeholders(self) -> list[str]:
        """The placeholders of the inputs in an address."""
        return [f"{{{parameter.name}}}" for parameter in self.signature.inputs] if self.signature else []

    def lists(self) -> list[tuple[str, str, list[SourceRow], list[str]]]:
        """Return name, label, rows and faults of the query, the headers and the body."""
        sources_by_list: Mapping[str, Any] = {name: getattr(self.request, name) for name in LISTS}
        return [
            (
                name,
                str(label),
                self.rows(name, name, sources_by_list[name], (), self.inputs(), spare=SPARE),
                self.messages_at(name),
            )
            for name, label in LISTS.items()
        ]

    def outputs(self) -> list[OutputRow]:
        declared_outputs = source_rows.by_name(self.signature.outputs) if self.signature else {}
        outputs = self.request.outputs
        names = [*declared_outputs, *(name for name in outputs if name not in declared_outputs)]
        names += [] if declared_outputs else [""] * SPARE
        return [
            OutputRow(
                f"outputs-{index}",
                name,
                outputs.get(name) if name else None,
                declared_outputs.get(name),
                self.messages_at(f"outputs.{name}") if name else (),
                not declared_outputs,
            )
            for index, name in enumerate(names)
        ]

    def statuses(self) -> list[StatusRow]:
        statuses = self.request.statuses
        rows: list[tuple[str, str, list[str]]] = [
            (status, means, self.messages_at(f"statuses.{status}")) for status, means in statuses.items()
        ]
        rows += [("", "", [])] * SPARE
        return [StatusRow(f"statuses-{index}", *row) for index, row in enumerate(rows)]

    def credentials(self) -> list[tuple[str, str]]:
        """Return the credentials that an activity may send, with their addresses, for administrators."""
        rows = Credential.objects.filter(removed_at=None).exclude(kind=OAuthKind.USERS)
        return [
            (str(row.pk), _("{credential}, for {origin}").format(credential=row, origin=row.origin))
            for row in rows.order_by("name")
        ]

    @property
    def credential_label(self) -> str:
        credential_id = self.request.credential
        return next(
            (label for pk, label in self.credentials() if pk == credential_id), _("a removed credential")
        )

    def field_messages(self) -> Mapping[str, Sequence[str]]:
        """Return the faults of the fields that are not in a row."""
        return {name: self.messages_at(name) for name in ("address", "method", "credential")}


def _parse_outputs(data: Posted) -> Iterable[tuple[str, OutputSource]]:
    for index in range(count_of(data, "outputs")):
        prefix = f"outputs-{index}"
        name = data.get(f"{prefix}-name", data.get(f"{prefix}-typed", "").strip())
        origin, pointer = data.get(f"{prefix}-of", ""), data.get(f"{prefix}-at", "").strip()
        if origin not in TAKEN or not name:
            continue
        pointer = pointer if not pointer or pointer.startswith("/") else f"/{pointer}"
        is_header = origin == "header"
        yield (
            name,
            OutputSource(
                cast(Any, origin),
                at=pointer if origin == "json" else "",
                header=data.get(f"{prefix}-header", "").strip() if is_header else "",
            ),
        )
