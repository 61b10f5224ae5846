"""Export the texts of tools for translators, and import their translations."""

from collections.abc import Iterator

from django.db.models import QuerySet, TextChoices
from django.utils.translation import gettext as _

from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.models.translations import TranslationOrigin
from catalog.translations import csv_file, stored, tool_texts, xliff_file
from catalog.translations.exchange import (
    MAX_FILE_BYTES,
    MAX_ROWS,
    FileProblem,
    FileRow,
    Reader,
    Writer,
    too_large,
)
from catalog.translations.languages import find_language
from catalog.translations.stored import WriteCounts
from catalog.translations.tool_texts import ToolText
from core.errors import invalid
from people.models import User

BATCH = 500


class FileFormat(TextChoices):
    CSV = "csv", "CSV"
    XLIFF = "xliff", "XLIFF"

    @property
    def extension(self) -> str:
        return "xlf" if self == FileFormat.XLIFF else "csv"


MEDIA_TYPES = {
    FileFormat.CSV: "text/csv; charset=utf-8",
    FileFormat.XLIFF: "application/xliff+xml; charset=utf-8",
}
_READERS: dict[FileFormat, Reader] = {
    FileFormat.CSV: csv_file.read_csv,
    FileFormat.XLIFF: xliff_file.read_xliff,
}
_WRITERS: dict[FileFormat, Writer] = {
    FileFormat.CSV: csv_file.write_csv,
    FileFormat.XLIFF: xliff_file.write_xliff,
}


def find_format(name: str) -> FileFormat:
    if name not in FileFormat.values:
        raise invalid(type=_("Choose one of {formats}.").format(formats=", ".join(FileFormat.values)))
    return FileFormat(name)


def tools_to_translate(vendor: str = "") -> QuerySet[Tool]:
    """Return the offered tools, of one vendor by its slug, or of all."""
    tools = Tool.objects.filter(
        status=ToolStatus.ACTIVE, endpoint__removed_at=None, endpoint__vendor__removed_at=None
    )
    return tools.filter(endpoint__vendor__slug=vendor) if vendor else tools


def export_file(
    language: str, file_format: FileFormat, *, vendor: str = "", only_missing: bool = False
) -> str:
    """Return the texts of the tools with their translations. Raises DomainError if they are too many."""
    find_language(language)
    rows: list[FileRow] = []
    size = 0
    for row in _file_rows(language, vendor):
        if only_missing and row.translation:
            continue
        rows.append(row)
        size += len(row.source) + len(row.translation)
        if len(rows) > MAX_ROWS or size > MAX_FILE_BYTES:
            raise too_large()
    content = _WRITERS[file_format](rows, language)
    if len(content.encode(errors="replace")) > MAX_FILE_BYTES:
        raise too_large()
    return content


def _file_rows(language: str, vendor: str) -> Iterator[FileRow]:
    """Yield each text once, in the order of tools."""
    written_digests: set[str] = set()
    last = 0
    tools = tools_to_translate(vendor).exclude(current=None).select_related("current", "endpoint__vendor")
    while batch := list(tools.filter(pk__gt=last).order_by("pk")[:BATCH]):
        last = batch[-1].pk
        texts: dict[str, tuple[Tool, ToolText]] = {}
        for tool in batch:
            for text in tool_texts.texts_of(tool.current.decoded()) if tool.current else ():
                if text.digest not in written_digests:
                    texts.setdefault(text.digest, (tool, text))
        written_digests |= texts.keys()
        translations = stored.translations_of(texts.keys(), language)
        for digest, (tool, text) in texts.items():
            translation = translations.get(digest)
            yield FileRow(
                digest,
                text.source,
                f"{tool.endpoint.vendor}, {tool.name}, {text.label}",
                translation.text if translation else "",
                bool(translation and translation.is_confirmed),
            )


def import_file(
    body: bytes, file_format: FileFormat, *, actor: User, language: str
) -> tuple[WriteCounts, list[FileProblem]]:
    """Store the translations of a file, and return the counts and the lines that were not read.

    Raises DomainError for a file that is too large or cannot be read at all. Equal files have an effect once,
    so an import that was interrupted is repeated.
    """
    find_language(language)
    if len(body) > MAX_FILE_BYTES:
        raise too_large()
    contents = _READERS[file_format](body, language)
    counts = stored.write_translations(
        contents.texts,
        language=language,
        origin=TranslationOrigin.IMPORT,
        actor=actor,
        why=f"Imported as {file_format.label}",
    )
    return counts, contents.problems
