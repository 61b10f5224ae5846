"""The rows of translation files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.translations.tool_texts import digest_of, normalize_translation
from core.errors import DomainError

# For a file in both directions, so that an exported file can be imported again.
MAX_ROWS, MAX_FILE_BYTES = 20_000, 10_000_000
MAX_PROBLEMS = 200


class FileRow(NamedTuple):
    """A text of a tool with its translation. position: where the text is, for the translator."""

    digest: str
    source: str
    position: str
    translation: str = ""
    is_confirmed: bool = False


class FileProblem(NamedTuple):
    """A line that was not read, or with line 1 a whole file."""

    line: int
    message: str


@dataclass
class FileContents:
    """The translations of a file by the digest of their source, and the lines that have none."""

    texts: dict[str, str] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)

    def add(self, line: int, digest: str, source: str, translation: str) -> None:
        """Add a translation, if there is one. Without a digest, the source identifies the text."""
        if not translation.strip():
            return
        try:
            digest = digest.strip().lower() or digest_of(source)
            if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
                message = _("The digest of this line has been changed. Leave it as it was exported.")
                raise DomainError("invalid", message)
            text = normalize_translation(translation)
        except DomainError as error:
            self.refuse(line, next(iter(error.fields.values()), error.message))
            return
        if self.texts.setdefault(digest, text) != text:
            self.refuse(
                line, _("An earlier line has another translation of the same text. That one is used.")
            )
        if len(self.texts) > MAX_ROWS:
            raise too_large()

    def refuse(self, line: int, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(FileProblem(line, message))


def too_large() -> DomainError:
    message = _(
        "A file has up to {count} texts and {size} MB. Choose one vendor, or divide the file."
    ).format(count=number_format(MAX_ROWS, force_grouping=True), size=MAX_FILE_BYTES // 1_000_000)
    return DomainError("too_large", message, status=413, fields={"file": message})


def unreadable(message: str) -> DomainError:
    """Return the error for a file that cannot be read at all."""
    return DomainError("invalid_file", message, fields={"file": message})


Reader = Callable[[bytes, str], FileContents]
Writer = Callable[[list[FileRow], str], str]
