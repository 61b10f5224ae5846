"""Translations as CSV (RFC 4180) for spreadsheets. Pure."""

import csv
import io

from django.utils.translation import gettext as _

from catalog.translations.exchange import FileContents, FileRow, unreadable
from core.csv_cells import guard_cell, unguard_cell

COLUMNS = ("digest", "language", "where", "source", "translation", "is_confirmed")


def write_csv(rows: list[FileRow], language: str) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(COLUMNS)
    for row in rows:
        state = "yes" if row.is_confirmed else "no" if row.translation else ""
        cells = (row.digest, language, row.position, row.source, row.translation, state)
        writer.writerow([guard_cell(cell) for cell in cells])
    return lines.getvalue()


def read_csv(body: bytes, language: str) -> FileContents:
    """Return the translations. Raises DomainError if it is no CSV with the columns that are needed."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise unreadable(
            _("The file is not UTF-8 (byte {position}). Save it as “CSV UTF-8”.").format(position=exc.start)
        ) from exc
    header = text.partition("\n")[0]
    # Spreadsheets of some countries separate by semicolons.
    rows = csv.DictReader(io.StringIO(text), delimiter=";" if header.count(";") > header.count(",") else ",")
    contents = FileContents()
    try:
        columns = {*(rows.fieldnames or ())}
        if "translation" not in columns or not columns & {"digest", "source"}:
            raise unreadable(
                _("The first line must name the columns “digest” or “source”, and “translation”.")
            )
        for row in rows:
            cells = {name: unguard_cell(row.get(name) or "") for name in COLUMNS}
            if cells["language"].strip() not in ("", language):
                contents.refuse(
                    rows.line_num, _("This line is not for “{language}”.").format(language=language)
                )
                continue
            contents.add(rows.line_num, cells["digest"], cells["source"], cells["translation"])
    except csv.Error as exc:
        contents.refuse(
            rows.line_num, _("The file cannot be read from this line on: {reason}.").format(reason=exc)
        )
    return contents
