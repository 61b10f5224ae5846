"""Characters that are invisible, or that change how other characters look. Pure.

This table is used for names, messages, log lines, pages and the inspection of tools.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from core.unassigned_characters import UNASSIGNED as _UNASSIGNED


class CharacterKind(NamedTuple):
    code: str
    description: str


TAG = CharacterKind("TAG_CHARACTERS", "letters of an alphabet that cannot be seen")
BIDI = CharacterKind("BIDI_CONTROL", "a character that turns the order of the letters around")
MARK = CharacterKind("DIRECTION_MARK", "an invisible mark of writing direction")
ZERO_WIDTH = CharacterKind("ZERO_WIDTH", "a character without width")
HYPHEN = CharacterKind("SOFT_HYPHEN", "a hyphen that is not drawn")
SELECTOR = CharacterKind("VARIATION_SELECTOR", "an invisible variation selector")
SMUGGLED = CharacterKind("VARIATION_SELECTORS", "variation selectors in a row, which can hold hidden text")
COMBINING = CharacterKind(
    "COMBINING_MARK", "a mark that is drawn over a letter and that no ordinary text has"
)
FILLER = CharacterKind("FILLER", "a filler that looks like nothing")
ESCAPE = CharacterKind("TERMINAL_ESCAPE", "the beginning of a command to a terminal")
ERASING = CharacterKind("ERASING_CONTROL", "a control character that can erase or cut text")
CONTROL = CharacterKind("CONTROL_CHARACTER", "a control character")
PRIVATE = CharacterKind("PRIVATE_USE", "a character without an agreed meaning")
SURROGATE = CharacterKind("SURROGATE", "half a character")
NONCHARACTER = CharacterKind("NONCHARACTER", "a code point that is no character")
UNASSIGNED = CharacterKind("UNASSIGNED", "a code point that is no character yet")
SEPARATOR = CharacterKind("LINE_SEPARATOR", "an invisible line separator")
SPACE = CharacterKind("UNUSUAL_SPACE", "a space that is not the usual one")

KINDS = (
    *(TAG, BIDI, MARK, ZERO_WIDTH, HYPHEN, SELECTOR, SMUGGLED, FILLER, ESCAPE, ERASING, CONTROL, PRIVATE),
    *(SURROGATE, NONCHARACTER, UNASSIGNED, SEPARATOR, SPACE, COMBINING),
)

# First and last code point. Pinned here, because the Unicode version of the interpreter changes.
_TABLE: tuple[tuple[int, int, CharacterKind], ...] = (
    (0x00, 0x00, ERASING),
    (0x01, 0x07, CONTROL),
    (0x08, 0x08, ERASING),
    (0x0B, 0x0C, CONTROL),
    (0x0E, 0x1A, CONTROL),
    (0x1B, 0x1B, ESCAPE),
    (0x1C, 0x1F, CONTROL),
    (0x7F, 0x9A, CONTROL),
    (0x9B, 0x9B, ESCAPE),
    (0x9C, 0x9F, CONTROL),
    (0xA0, 0xA0, SPACE),
    (0xAD, 0xAD, HYPHEN),
    (0x34F, 0x34F, ZERO_WIDTH),
    (0x600, 0x605, ZERO_WIDTH),
    (0x61C, 0x61C, MARK),
    (0x6DD, 0x6DD, ZERO_WIDTH),
    (0x70F, 0x70F, ZERO_WIDTH),
    (0x890, 0x891, ZERO_WIDTH),
    (0x8E2, 0x8E2, ZERO_WIDTH),
    (0x115F, 0x1160, FILLER),
    (0x1680, 0x1680, SPACE),
    (0x17B4, 0x17B5, FILLER),
    (0x180B, 0x180D, SELECTOR),
    (0x180E, 0x180E, ZERO_WIDTH),
    (0x180F, 0x180F, SELECTOR),
    (0x1AB0, 0x1ADD, COMBINING),
    (0x1AE0, 0x1AEB, COMBINING),
    (0x1DC0, 0x1DFF, COMBINING),
    (0x2000, 0x200A, SPACE),
    (0x200B, 0x200D, ZERO_WIDTH),
    (0x200E, 0x200F, MARK),
    (0x2028, 0x2029, SEPARATOR),
    (0x202A, 0x202E, BIDI),
    (0x202F, 0x202F, SPACE),
    (0x205F, 0x205F, SPACE),
    (0x2060, 0x2065, ZERO_WIDTH),
    (0x2066, 0x2069, BIDI),
    (0x206A, 0x206F, FILLER),
    (0x20D0, 0x20F0, COMBINING),
    (0x2800, 0x2800, FILLER),
    (0x3000, 0x3000, SPACE),
    (0x3164, 0x3164, FILLER),
    (0xD800, 0xDFFF, SURROGATE),
    (0xE000, 0xF8FF, PRIVATE),
    (0xFDD0, 0xFDEF, NONCHARACTER),
    (0xFE00, 0xFE0F, SELECTOR),
    (0xFE20, 0xFE2F, COMBINING),
    (0xFEFF, 0xFEFF, ZERO_WIDTH),
    (0xFFA0, 0xFFA0, FILLER),
    (0xFFF9, 0xFFFC, FILLER),
    (0xFFFE, 0xFFFF, NONCHARACTER),
    (0x110BD, 0x110BD, ZERO_WIDTH),
    (0x110CD, 0x110CD, ZERO_WIDTH),
    (0x13430, 0x1343F, ZERO_WIDTH),
    (0x1BCA0, 0x1BCA3, ZERO_WIDTH),
    (0x1D159, 0x1D159, FILLER),
    (0x1D173, 0x1D17A, ZERO_WIDTH),
    *((plane + 0xFFFE, plane + 0xFFFF, NONCHARACTER) for plane in range(0x10000, 0xF0000, 0x10000)),
    (0xE0000, 0xE007F, TAG),
    (0xE0100, 0xE01EF, SELECTOR),
    *((plane, plane + 0xFFFD, PRIVATE) for plane in (0xF0000, 0x100000)),
    *((plane + 0xFFFE, plane + 0xFFFF, NONCHARACTER) for plane in (0xF0000, 0x100000)),
)


RANGES = sorted(
    (
        *_TABLE,
        *(
            (*span, UNASSIGNED)
            for span in _UNASSIGNED
            if not any(begins <= span[0] and span[1] <= ends for begins, ends, _ in _TABLE)
        ),
    ),
    key=lambda entry: entry[0],
)
_FIRSTS = [first for first, _, _ in RANGES]
_GAPS = list(pairwise([-1, *(point for first, last, _ in RANGES for point in (first, last))]))[::2]
_VISIBLE = "".join(f"\\U{last + 1:08x}-\\U{first - 1:08x}" for last, first in _GAPS if last + 1 < first)
# Negated, because ordinary letters come first in the ranges and end most searches early.
HIDDEN = re.compile(f"[^{_VISIBLE}]+")

SHORT = {
    0x00: "NUL",
    0x08: "BS",
    0x1B: "ESC",
    0x7F: "DEL",
    0x9B: "CSI",
    0xA0: "NBSP",
    0xAD: "SHY",
    0x61C: "ALM",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0xFEFF: "BOM",
}

# Scripts in which a joiner changes how letters look: Arabic to Malayalam, Myanmar, Khmer, Mongolian.
_JOINED = ((0x600, 0xD7F), (0x1000, 0x109F), (0x1780, 0x18AF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC))
_EMOJI = ((0x2190, 0x21FF), (0x2300, 0x27BF), (0x2934, 0x2935), (0x2B00, 0x2BFF), (0x1F000, 0x1FAFF))
# Other characters that a selector turns into an emoji.
_KEYS = frozenset("0123456789#*")
_DRAWN = frozenset("0123456789#*©®™‼⁉\u2139〰〽㊗㊙")


class HiddenCharacters(NamedTuple):
    kind: CharacterKind
    start: int
    end: int


def kind_of(character: str) -> CharacterKind | None:
    point = ord(character)
    first, last, kind = RANGES[bisect_right(_FIRSTS, point) - 1]
    return kind if first <= point <= last else None


def find_hidden(text: str) -> Iterator[HiddenCharacters]:
    """Yield the hidden characters of a text: single characters, and runs of tags or of selectors.

    Joiners and selectors that a script or an emoji needs are left out.
    """
    for run in HIDDEN.finditer(text):
        start = run.start()
        while start < run.end():
            kind = kind_of(text[start])
            end = start + 1
            if kind in (TAG, SELECTOR):
                while end < run.end() and kind_of(text[end]) is kind:
                    end += 1
            if kind is SELECTOR and end - start > 1:
                kind = SMUGGLED
            if kind and not _is_needed(text, start, kind):
                yield HiddenCharacters(kind, start, end)
            start = end


def _is_needed(text: str, index: int, kind: CharacterKind) -> bool:
    if kind not in (ZERO_WIDTH, SELECTOR, COMBINING):
        return False
    point = ord(text[index])
    before = text[index - 1] if index else ""
    if kind is COMBINING:
        return point == 0x20E3 and (before in _KEYS or before == "\ufe0f")  # an enclosing keycap
    if point in (0x200C, 0x200D):
        after = text[index + 1 : index + 2]
        ends_emoji = before == "\ufe0f" or _is_in_ranges(before, _EMOJI)
        is_joined_emoji = point == 0x200D and ends_emoji and _is_in_ranges(after, _EMOJI)
        return _is_in_ranges(before, _JOINED) or is_joined_emoji
    return point in (0xFE0E, 0xFE0F) and (_is_in_ranges(before, _EMOJI) or before in _DRAWN)


def _is_in_ranges(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return bool(character) and any(first <= ord(character) <= last for first, last in ranges)


def decoded_tags(text: str) -> str:
    """Return the text that invisible tag characters spell."""
    return "".join([chr(ord(c) - 0xE0000) for c in text if 0xE0020 <= ord(c) <= 0xE007E])


def name_of(character: str) -> str:
    point = ord(character)
    name = SHORT.get(point) or unicodedata.name(character, "")
    return f"U+{point:04X} {name}".rstrip()


_ESCAPED = re.compile(f"{HIDDEN.pattern}|[\\t\\r\\n]")


def escape_hidden(text: str, keep: str = "") -> str:
    """Return one line of text with Python escapes for hidden characters, tabs and line ends except those
    in `keep`."""
    if (text.isascii() and text.isprintable()) or not _ESCAPED.search(text):
        return text
    positions = {index for match in find_hidden(text) for index in range(match.start, match.end)}
    return "".join(
        ascii(c)[1:-1] if index in positions or (c in "\t\r\n" and c not in keep) else c
        for index, c in enumerate(text)
    )
