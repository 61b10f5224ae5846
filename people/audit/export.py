"""Export of the audit trail as CSV or JSON lines, in batches: memory does not grow with the export."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet, TextChoices
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core.csv_cells import guard_cell
from core.errors import DomainError
from people.models import AuditEntry

MAX_ENTRIES = 100_000
BATCH = 1_000
COLUMNS = (
    *("id", "at", "actor", "action", "kind", "object_id", "label", "before", "after", "why"),
    *("position", "hash"),
)


class ExportFormat(TextChoices):
    CSV = "csv", "CSV"
    JSON_LINES = "jsonl", gettext_lazy("JSON lines")


MEDIA_TYPES = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.JSON_LINES: "application/jsonl; charset=utf-8",
}


def check_size(entries: QuerySet[AuditEntry]) -> None:
    """Raise DomainError if more than MAX_ENTRIES entries would be exported."""
    if entries.order_by("-pk")[: MAX_ENTRIES + 1].count() > MAX_ENTRIES:
        message = _(
            "More than {maximum} entries match. Choose dates, and export one part after the other."
        ).format(maximum=number_format(MAX_ENTRIES, force_grouping=True))
        raise DomainError("too_many_entries", message, status=413)


def write(entries: QuerySet[AuditEntry], export_format: ExportFormat) -> Iterator[str]:
    """Yield the entries as text, the newest first, about BATCH entries at a time."""
    if export_format == ExportFormat.CSV:
        yield _csv_lines([COLUMNS])
    rows = entries.order_by("-pk")
    batch = list(rows[:BATCH])
    while batch:
        documents = [
            {name: getattr(entry, name) for name in COLUMNS}
            | {"at": entry.at.isoformat(), "actor": entry.actor_name}
            for entry in batch
        ]
        if export_format == ExportFormat.CSV:
            yield _csv_lines(
                [
                    [
                        (
                            json.dumps(value, ensure_ascii=False)
                            if isinstance(value, dict)
                            else guard_cell("" if value is None else str(value))
                        )
                        for value in document.values()
                    ]
                    for document in documents
                ]
            )
        else:
            yield "".join(f"{json.dumps(document, ensure_ascii=False)}\n" for document in documents)
        batch = list(rows.filter(pk__lt=batch[-1].pk)[:BATCH])


def _csv_lines(rows: list[Any]) -> str:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    return lines.getvalue()
