"""Translations as XLIFF 2.0 for translation programs. Pure.

https://docs.oasis-open.org/xliff/xliff-core/v2.0/xliff-core-v2.0.html. A document type is refused, so a file
has no entities; elements within a text are refused too, because texts of tools have no markup.
"""

import re
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from django.utils.translation import gettext as _

from catalog.translations.exchange import FileContents, FileRow, unreadable

NAMESPACE = "urn:oasis:names:tc:xliff:document:2.0"
MAX_DEPTH = 50
# The characters that XML cannot contain (https://www.w3.org/TR/xml/#charsets).
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_xliff(rows: list[FileRow], language: str) -> str:
    units = []
    for row in rows:
        state = "final" if row.is_confirmed else "translated" if row.translation else "initial"
        target = f"<target>{_escape_text(row.translation)}</target>" if row.translation else ""
        name = quoteattr(_NO_XML.sub("\ufffd", row.position))
        units.append(
            f'<unit id="{row.digest}" name={name}><segment state="{state}">'
            f"<source>{_escape_text(row.source)}</source>{target}</segment></unit>\n"
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<xliff xmlns="{NAMESPACE}" version="2.0" srcLang="und" trgLang="{language}" xml:space="preserve">\n'
        f'<file id="tools">\n{"".join(units)}</file>\n</xliff>\n'
    )


def _escape_text(text: str) -> str:
    # A parser would read a carriage return as a line feed.
    escaped = escape(text, {"\r": "&#13;"})
    return _NO_XML.sub(lambda match: f'<cp hex="{ord(match[0]):04X}"/>', escaped)


def read_xliff(body: bytes, language: str) -> FileContents:
    """Return the translations. Raises DomainError if it is no XLIFF for this language."""
    reader = _Reader(language)
    try:
        reader.parser.Parse(body, True)
    except expat.ExpatError as exc:
        message = _("The file is not XML from line {line} on: {reason}.").format(
            line=exc.lineno, reason=expat.ErrorString(exc.code)
        )
        if not reader.is_xliff:
            raise unreadable(message) from exc
        reader.contents.refuse(exc.lineno, message)
    except (LookupError, ValueError) as exc:
        # The parser's errors for an encoding that it cannot read.
        raise unreadable(_("The file declares an encoding that cannot be read. Save it as UTF-8.")) from exc
    return reader.contents


class _Reader:
    """Reads elements as they come. Of a unit, `texts` has its source and its target."""

    def __init__(self, language: str) -> None:
        self.language, self.contents = language, FileContents()
        self.is_xliff, self.depth = False, 0
        self.unit, self.unit_line, self.problem = "", 0, ""
        self.texts: dict[str, list[str]] = {}
        self.member = ""
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self.refuse_document_type
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.add_text

    def refuse_document_type(self, *_unused: object) -> NoReturn:
        raise unreadable(_("The file declares a document type. Remove it: XLIFF has none."))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise unreadable(_("The file is nested more than {depth} deep.").format(depth=MAX_DEPTH))
        tag = name.removeprefix(f"{NAMESPACE} ")
        if not self.is_xliff:
            if tag != "xliff" or not attributes.get("version", "").startswith("2."):
                raise unreadable(_("The file is not XLIFF 2. Export it in this version."))
            if attributes.get("trgLang") != self.language:
                raise unreadable(
                    _("The file's target language (trgLang) is not “{language}”.").format(
                        language=self.language
                    )
                )
            self.is_xliff = True
        elif self.member:
            code = attributes.get("hex", "")
            if tag == "cp" and self.member == "source" and re.fullmatch("[0-9A-Fa-f]{1,4}", code):
                self.add_text(chr(int(code, 16)))
            else:
                self.problem = _("The {member} contains the element “{element}”. Write plain text.").format(
                    member=self.member, element=tag[:40]
                )
        elif tag == "unit":
            self.unit, self.unit_line = attributes.get("id", ""), self.parser.CurrentLineNumber
            self.texts, self.problem = {"source": [], "target": []}, ""
        elif tag in self.texts:
            self.member = tag

    def end(self, name: str) -> None:
        self.depth -= 1
        tag = name.removeprefix(f"{NAMESPACE} ")
        if tag == self.member:
            self.member = ""
        elif tag == "unit" and self.texts:
            source, target = ("".join(self.texts[member]) for member in ("source", "target"))
            self.texts = {}
            if self.problem:
                self.contents.refuse(self.unit_line, self.problem)
            else:
                # A file of another program has its own ids: then the source identifies the text.
                digest = self.unit if re.fullmatch("[0-9a-f]{64}", self.unit) else ""
                self.contents.add(self.unit_line, digest, source, target)

    def add_text(self, text: str) -> None:
        if self.member:
            self.texts[self.member].append(text)
