"""The texts of a tool that can be translated, and the rules for a translation. Pure."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from core.errors import invalid
from core.invisible_characters import find_hidden, name_of

# Longer texts, and more of one tool, are left as they are.
MAX_SOURCE, MAX_TEXTS = 10_000, 300
MAX_TRANSLATION = 20_000
_LETTER = re.compile(r"[^\W\d_]")
# French has a space of this kind before a colon; the text needs none of its own.
_SPACES = {ord("\u00a0"): " ", ord("\u202f"): " "}


class ToolText(NamedTuple):
    """A text of a tool.

    member: `title`, `description`, or `input`, `input_title`, `output`, `output_title` with a `name`.
    """

    member: str
    name: str
    source: str
    digest: str

    @property
    def label(self) -> str:
        words = {"input": "Input", "output": "Output", "input_title": "Title of input"}
        words |= {"output_title": "Title of output", "title": "Title", "description": "Description"}
        return f"{words[self.member]} {self.name}".rstrip()


class DescribedParameter(Protocol):
    """An input or an output."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...


class TextsOwner(DescribedParameter, Protocol):
    """A signature, or the part of it that is searched."""

    @property
    def inputs(self) -> Sequence[DescribedParameter]: ...
    @property
    def outputs(self) -> Sequence[DescribedParameter]: ...


def digest_of(source: str) -> str:
    return hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()


def key_of(digest: str) -> int:
    """Return the first eight bytes of a digest as a number that PostgreSQL can store."""
    return int.from_bytes(bytes.fromhex(digest[:16]), "big", signed=True)


def texts_of(signature: TextsOwner) -> list[ToolText]:
    """Return the texts in the order of pages, the first of those that are equal."""
    members = [("description", "", signature.description)]
    if signature.title != signature.name:
        members.insert(0, ("title", "", signature.title))
    for kind, parameters in (("input", signature.inputs), ("output", signature.outputs)):
        for parameter in parameters:
            if parameter.title != parameter.name:
                members.append((f"{kind}_title", parameter.name, parameter.title))
            members.append((kind, parameter.name, parameter.description))
    texts: dict[str, ToolText] = {}
    for member, name, source in members:
        if len(texts) < MAX_TEXTS and 0 < len(source) <= MAX_SOURCE and _LETTER.search(source):
            text = ToolText(member, name, source, digest_of(source))
            texts.setdefault(text.digest, text)
    return list(texts.values())


def prose_of(texts: Iterable[ToolText]) -> str:
    """Return the texts that show which language the vendor writes."""
    return "\n".join(text.source for text in texts if text.member in ("description", "input", "output"))


def normalize_translation(text: str) -> str:
    """Return the translation as it is stored. Raises DomainError for one that is not a visible text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(_SPACES).strip()
    if not text:
        raise invalid(text=_("The translation is empty. Enter a text, or remove the translation."))
    if len(text) > MAX_TRANSLATION:
        message = _("The translation has {length} characters. It may have up to {maximum}.").format(
            length=number_format(len(text), force_grouping=True),
            maximum=number_format(MAX_TRANSLATION, force_grouping=True),
        )
        raise invalid(text=message)
    for match in find_hidden(text):
        character = name_of(text[match.start])
        message = _(
            "Remove the character {character}: it is invisible, or it changes how others look."
        ).format(character=character)
        raise invalid(text=message)
    return text
