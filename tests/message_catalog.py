"""The messages of the pages: found in templates and Python, kept in locale/, compiled for gettext.

`python -m tests.message_catalog` adds new messages to each language, removes those that no page shows,
and compiles.
"""

import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).parent.parent
LANGUAGES = ("de",)
PACKAGES = ("core", "people", "protocols", "catalog", "execution", "designer", "serving", "pegboard")
# In place of the time at which a file was made: it changes only with its messages.
NO_TIME = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTIONS = [
    "_",
    "mark",
    "gettext",
    "gettext_lazy",
    "gettext_noop",
    "ngettext",
    "ngettext_lazy",
    "pgettext",
    "pgettext_lazy",
    "npgettext",
]


def path_of(language: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / "django.po"


def messages_of_pages() -> Catalog:
    """Return all messages of templates and Python, without translations."""
    catalog = Catalog()
    for path, source in _sources():
        for _line, function, message, _comments in extract_python(
            io.BytesIO(source.encode()), FUNCTIONS, [], {"encoding": "utf-8"}
        ):
            if message:  # a function called with a variable has none
                _add(catalog, str(path), function, message)
    return catalog


def _sources() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        # One line, because the result has the indentation of HTML.
        yield path.relative_to(ROOT), " ".join(templatize(path.read_text()).split("\n"))
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(ROOT), path.read_text()


def _add(catalog: Catalog, path: str, function: str, found: str | tuple[str | None, ...]) -> None:
    arguments = [found] if isinstance(found, str) else list(found)
    context = arguments.pop(0) if "pgettext" in function else None
    texts = arguments[:2] if function.startswith(("n", "np")) else arguments[:1]
    if all(texts):
        catalog.add(tuple(texts) if len(texts) == 2 else texts[0], locations=[(path, 0)], context=context)


def translations_of(language: str) -> Catalog:
    with path_of(language).open("rb") as file:
        return read_po(file, locale=language, charset="utf-8")


def compiled(translations: Catalog) -> bytes:
    """Return the file that gettext reads. A message without a translation is not in it and stays English."""
    complete = Catalog(locale=translations.locale, creation_date=NO_TIME, revision_date=NO_TIME)
    for message in translations:
        if message.id and is_translated(message):
            complete.add(message.id, message.string, context=message.context)
    file = io.BytesIO()
    write_mo(file, complete)
    return file.getvalue()


def key_of(message: Message) -> tuple[str | None, str | tuple[str, ...]]:
    return message.context, message.id if isinstance(message.id, str) else tuple(message.id)


def is_translated(message: Message) -> bool:
    texts = message.string if isinstance(message.string, tuple) else (message.string,)
    return bool(texts) and all(texts)


def main() -> None:
    messages = messages_of_pages()
    for language in LANGUAGES:
        path = path_of(language)
        translations = translations_of(language) if path.exists() else Catalog(locale=language)
        translations.update(messages, no_fuzzy_matching=True)
        translations.obsolete.clear()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            write_po(file, translations, width=0, sort_output=True, include_lineno=False, omit_header=True)
        path.with_suffix(".mo").write_bytes(compiled(translations))
        missing = sum(1 for message in translations if not is_translated(message))
        sys.stdout.write(f"{language}: {len(translations)} messages, {missing} without a translation\n")


if __name__ == "__main__":
    main()
