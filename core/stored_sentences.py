"""English sentences of Pegboard that were stored, in the language of a page.

A sentence is found again by its template in the catalog of translations, so nothing is stored beside it.
"""

import re
import struct
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter
from typing import NamedTuple

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import get_language, gettext, to_locale

from core.translating import translate

# Placeholders whose values are texts of Pegboard, which are translated too. Other values, and all in quotes,
# stay as they are.
NESTED = re.compile(
    r"(changes|claim|complaint|description|effect|error|explanation|fault|format|hint|how|limit|look_alike|member|message"
    r"|more|new_name|old_name|outcome|position|previous_list|problem|reasons?|refusal|requirement|rule|sentence"
    r"|side|source|statement|types|what|who|why)[0-9_]*"
)
_QUOTES = ("“", "„", '"', "'", "`")
MAX_LENGTH = 4_000
MAX_BREAKS = 8
MIN_OWN_TEXT = 3
MIN_WITHOUT_START = 10  # of a message that begins with a placeholder
MAX_DEPTH = 4  # of texts in the values of texts
_BREAK = re.compile(r"(?<=[.?!:]) |; ")
_GROUPED_NUMBER = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_KEY_LENGTH = 3


class SentenceTemplate(NamedTuple):
    """A message of the catalog with placeholders.

    literals: the texts around the placeholders, one more than these.
    nested: the placeholders whose values are translated too.
    key: the longest literal.
    weight: the number of their characters.
    """

    message: str
    literals: tuple[str, ...]
    placeholders: tuple[str, ...]
    nested: frozenset[str]
    key: str
    weight: int

    def match(self, text: str) -> dict[str, str] | None:
        """Return the values by placeholder. One pass over the text, whatever a vendor wrote in it."""
        first, *inner, last = self.literals
        end = len(text) - len(last)
        if not (text.startswith(first) and text.endswith(last)):
            return None
        values, start = [], len(first)
        for literal in inner:
            # A value has at least one character.
            stop = text.find(literal, start + 1, end)
            if stop < 0:
                return None
            values.append(text[start:stop])
            start = stop + len(literal)
        values.append(text[start:end])
        # “a”, “b” is not one quoted value.
        quoted = (value for literal, value in zip(self.literals, values, strict=False) if literal[-1:] == "“")
        if start >= end or any("”" in value for value in quoted):
            return None
        return dict(zip(self.placeholders, values, strict=True))


class WeightedText(NamedTuple):
    """A translated text, and how many of its English characters were found in the catalog."""

    weight: int
    text: str


def translate_sentence(text: str) -> str:
    """Return a wording, or an English text of Pegboard, in the language of the page.

    Values in it are inserted as they are. A text that the catalog does not have stays English.
    """
    language = get_language()
    if not language or language == settings.LANGUAGE_CODE or len(text) > MAX_LENGTH:
        return text
    # Values of a wording may be sentences that were stored.
    return _translate(str(translate(text)), language).text


@lru_cache(maxsize=4096)
def _translate(text: str, language: str, depth: int = 0) -> WeightedText:
    """Translate sentence by sentence, in the division of which the catalog has most."""
    breaks = [match.span() for match in _BREAK.finditer(text)][:MAX_BREAKS]
    starts = [0, *(stop for _start, stop in breaks)]
    best: list[WeightedText] = []
    for index, end in enumerate([*(start for start, _stop in breaks), len(text)]):
        candidates = [_translate_undivided(text[:end], language, depth)]
        for earlier in range(index):
            tail = _translate_undivided(text[starts[earlier + 1] : end], language, depth)
            separator = text[breaks[earlier][0] : breaks[earlier][1]]
            head = best[earlier]
            candidates.append(WeightedText(head.weight + tail.weight, f"{head.text}{separator}{tail.text}"))
        best.append(max(candidates, key=lambda candidate: candidate.weight))
    return best[-1]


def _translate_undivided(text: str, language: str, depth: int) -> WeightedText:
    if text and (exact := gettext(text)) != text:
        return WeightedText(len(text), exact)
    best = WeightedText(0, text)
    templates = templates_of(language)
    for template in templates.get(text[:_KEY_LENGTH], templates[""]):
        if template.key in text and (values := template.match(text)) is not None:
            translated_values = {name: WeightedText(0, value) for name, value in values.items()}
            for name, value in values.items():
                if _GROUPED_NUMBER.fullmatch(value):
                    number = number_format(int(value.replace(",", "")), force_grouping=True)
                    translated_values[name] = WeightedText(0, number)
                elif name in template.nested and depth + 1 < MAX_DEPTH:
                    translated_values[name] = _translate(value, language, depth + 1)
            weight = template.weight + sum(part.weight for part in translated_values.values())
            if weight > best.weight:
                texts = {name: part.text for name, part in translated_values.items()}
                best = WeightedText(weight, gettext(template.message).format(**texts))
    return best


@cache
def templates_of(language: str) -> dict[str, list[SentenceTemplate]]:
    """Return the templates that may fit a text by how it begins; "" for all other texts.

    They come from the compiled catalog (GNU gettext manual, 10.3). Contexts and plurals are left out.
    """
    path = Path(settings.LOCALE_PATHS[0], to_locale(language), "LC_MESSAGES", "django.mo")
    data = path.read_bytes() if path.exists() else bytes(20)
    _magic, _revision, count, table = struct.unpack_from("<4I", data)
    by_start = defaultdict[str, list[SentenceTemplate]](list)
    for index in range(count):
        length, offset = struct.unpack_from("<2I", data, table + 8 * index)
        message = data[offset : offset + length]
        if any(mark in message for mark in (b"\0", b"\4", b"%(")):
            continue
        if template := parse_template(message.decode()):
            start = template.literals[0][:_KEY_LENGTH]
            by_start[start if len(start) == _KEY_LENGTH else ""].append(template)
    anywhere = by_start.pop("", [])
    return {"": anywhere, **{start: [*templates, *anywhere] for start, templates in by_start.items()}}


def parse_template(message: str) -> SentenceTemplate | None:
    """Return the parts of a message with placeholders in braces and some text of its own."""
    try:
        parts = list(Formatter().parse(message))
    except ValueError:
        return None  # braces of an example
    names = [name for _literal, name, _format, _conversion in parts if name is not None]
    literals = [literal for literal, *_rest in parts]
    if len(literals) == len(names):
        literals.append("")
    text = "".join(literals)
    # Others, such as “{label} removed.”, would match sentences that the catalog does not have.
    is_telling = len("".join(text.split())) >= MIN_OWN_TEXT and (
        literals[0] or len(text) >= MIN_WITHOUT_START
    )
    if not names or not all(map(str.isidentifier, names)) or not is_telling:
        return None
    nested = frozenset(
        name
        for literal, name in zip(literals, names, strict=False)
        if NESTED.fullmatch(name) and not literal.endswith(_QUOTES)
    )
    key = max(literals, key=len)
    return SentenceTemplate(message, tuple(literals), tuple(names), nested, key, len(text))
