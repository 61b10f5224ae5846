"""An activity that sends an HTTP request, as a person sets it up: rows for all that it is made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

from catalog.activities.callees import Known, Reference
from catalog.activities.http_request import METHODS, Form, Taken, Template
from catalog.forms import source_rows
from catalog.forms.activity_fields import SPARE, Draft, Editor, count_of, signature_of, sources
from catalog.forms.source_rows import Posted, Row
from catalog.models import Credential
from catalog.models.vendors import CredentialKind
from protocols.base import OutcomeKind
from protocols.signature import Parameter

LISTS = {
    "query": "Query",
    "headers": "Headers",
    "body": "Body",
}
TAKEN = {
    "json": "JSON of the reply",
    "text": "Text of the reply",
    "header": "A header",
    "status": "The status",
}
MEANINGS = {
    "ok": "It worked",
    "tool_error": "It failed",
    "invalid_arguments": "An input does not fit",
    "unavailable": "It is away: try later",
    "refused": "It refuses",
}


@dataclass(frozen=True, slots=True)
class OutputRow:
    """What one output is taken from; None: it does not come."""

    prefix: str
    name: str
    taken: Taken | None
    target: Parameter | None
    faults: Sequence[str]
    is_named_here: bool

    @property
    def is_gone(self) -> bool:
        return bool(self.name) and self.target is None and not self.is_named_here


@dataclass(frozen=True, slots=True)
class StatusRow:
    prefix: str
    status: str
    means: str
    faults: Sequence[str]


class HttpEditor(Editor):
    template: ClassVar[str] = "catalog/_activity_http.html"
    methods = METHODS
    forms: ClassVar[tuple[str, ...]] = get_args(Form)
    taken_from = TAKEN
    meanings = MEANINGS

    @classmethod
    def empty(cls) -> Template:
        return Template(address="")

    @classmethod
    def read(cls, data: Posted, known: Known) -> Draft:
        interface = Reference.read(data.get("interface", ""))
        signature = signature_of(interface, known)
        promised = source_rows.named(signature.outputs) if signature else {}
        template = Template(
            address=data.get("address", "").strip(),
            method=data.get("method", "GET"),
            query=sources(data, "query", {}),
            headers=sources(data, "headers", {}),
            body=sources(data, "body", {}),
            form=cast(Form, data.get("form") if data.get("form") in cls.forms else "json"),
            outputs=dict(_outputs(data, promised)),
            statuses=dict(_statuses(data)),
            credential=data.get("credential", ""),
        )
        return Draft(data.get("name", ""), interface, template)

    @property
    def request(self) -> Template:
        return cast(Template, self.draft.config)

    @property
    def placeholders(self) -> list[str]:
        """How inputs are written in the address."""
        return [f"{{{each.name}}}" for each in self.signature.inputs] if self.signature else []

    def lists(self) -> list[tuple[str, str, list[Row], list[str]]]:
        """The rows of the query, the headers and the body, and what is wrong with each list."""
        shown: Mapping[str, Any] = {name: getattr(self.request, name) for name in LISTS}
        return [
            (
                name,
                label,
                self.rows(name, name, shown[name], (), self.inputs(), spare=SPARE),
                self.said(name),
            )
            for name, label in LISTS.items()
        ]

    def outputs(self) -> list[OutputRow]:
        known = source_rows.named(self.signature.outputs) if self.signature else {}
        made = self.request.outputs
        names = [*known, *(name for name in made if name not in known)]
        names += [] if known else [""] * SPARE
        return [
            OutputRow(
                f"outputs-{at}",
                name,
                made.get(name) if name else None,
                known.get(name),
                self.said(f"outputs.{name}") if name else (),
                not known,
            )
            for at, name in enumerate(names)
        ]

    def statuses(self) -> list[StatusRow]:
        made = self.request.statuses
        rows: list[tuple[str, str, list[str]]] = [
            (status, means, self.said(f"statuses.{status}")) for status, means in made.items()
        ]
        rows += [("", "", [])] * SPARE
        return [StatusRow(f"statuses-{at}", *row) for at, row in enumerate(rows)]

    def credentials(self) -> list[tuple[str, str]]:
        """For administrators: those that an activity may carry, and where each goes."""
        rows = Credential.objects.filter(removed_at=None).exclude(kind=CredentialKind.OAUTH_USERS)
        return [(str(row.pk), f"{row}, for {row.origin}") for row in rows.order_by("name")]

    @property
    def credential_words(self) -> str:
        chosen = self.request.credential
        return next((words for pk, words in self.credentials() if pk == chosen), "one that is gone")

    def said_of(self) -> Mapping[str, Sequence[str]]:
        """What is wrong with what stands in no row."""
        return {place: self.said(place) for place in ("address", "method", "credential")}


def _outputs(data: Posted, promised: Mapping[str, Parameter]) -> Iterable[tuple[str, Taken]]:
    for at in range(count_of(data, "outputs")):
        prefix = f"outputs-{at}"
        name = data.get(f"{prefix}-name", data.get(f"{prefix}-typed", "").strip())
        of, part = data.get(f"{prefix}-of", ""), data.get(f"{prefix}-at", "").strip()
        if of not in TAKEN or not name:
            continue
        part = part if not part or part.startswith("/") else f"/{part}"
        is_header = of == "header"
        yield (
            name,
            Taken(
                cast(Any, of),
                at=part if of == "json" else "",
                header=data.get(f"{prefix}-header", "").strip() if is_header else "",
            ),
        )


def _statuses(data: Posted) -> Iterable[tuple[str, OutcomeKind]]:
    for at in range(count_of(data, "statuses")):
        status, means = data.get(f"statuses-{at}-status", "").strip(), data.get(f"statuses-{at}-means", "")
        if status:
            yield status, cast(OutcomeKind, means if means in MEANINGS else "tool_error")
