"""The severities of invisible characters, and texts that make them visible. Pure."""

import re

from catalog.rules.inspection.alarms import Severity
from core import invisible_characters as characters
from core.invisible_characters import HIDDEN, decoded_tags, name_of

SEVERITIES: dict[characters.CharacterKind, Severity] = {
    characters.TAG: "high",
    characters.BIDI: "high",
    characters.MARK: "medium",
    characters.ZERO_WIDTH: "high",
    characters.HYPHEN: "low",
    characters.SELECTOR: "medium",
    characters.SMUGGLED: "high",
    characters.COMBINING: "medium",
    characters.FILLER: "high",
    characters.ESCAPE: "high",
    characters.ERASING: "high",
    characters.CONTROL: "medium",
    characters.PRIVATE: "high",
    characters.SURROGATE: "high",
    characters.NONCHARACTER: "medium",
    characters.UNASSIGNED: "medium",
    characters.SEPARATOR: "medium",
    characters.SPACE: "low",
}

MAX_NAMED, AROUND, MAX_HIT_LENGTH = 4, 30, 160
_BLANK = re.compile(r"[ \t\r\n]+")


def spell_out_hidden(text: str) -> str:
    """Return the text with every hidden character written out, so that it is safe in any message."""

    def spell_out(run: re.Match[str]) -> str:
        if smuggled := decoded_tags(run.group()):
            return f"[hidden: {smuggled}]"
        names = "".join([f"[{name_of(character)}]" for character in run.group()[:MAX_NAMED]])
        more_count = len(run.group()) - MAX_NAMED
        return f"{names}[and {more_count} more]" if more_count > 0 else names

    return HIDDEN.sub(spell_out, text)


def excerpt(text: str, start: int, end: int) -> str:
    """Return the match with a few words around it, in quotes."""
    first, last = max(0, start - AROUND), min(len(text), min(end, start + MAX_HIT_LENGTH) + AROUND)
    piece = spell_out_hidden(_BLANK.sub(" ", text[first:last]))
    return f"“{'…' if first else ''}{piece}{'…' if last < len(text) else ''}”"
