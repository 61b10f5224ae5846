"""The rule for names that users choose. Pure, and the same for everything that has a name."""

import re

from core.invisible_characters import SPACE, find_hidden

JOINERS = "\u200c\u200d"
_LINE_END = re.compile(r"[\t\r\n]")


def name_problem(name: str, max_length: int) -> str:
    """Return a sentence for the form field, or "" if the name is valid and will be shown as typed."""
    if not name.strip(f" {JOINERS}") or len(name) > max_length:
        return f"Enter a name of up to {max_length} characters."
    # Unusual spaces are visible as spaces, and some keyboards write them.
    forbidden = "".join(name[match.start] for match in find_hidden(name) if match.kind is not SPACE)
    forbidden += "".join(_LINE_END.findall(name))
    if forbidden:
        code_point = f"U+{ord(forbidden[0]):04X}"
        return f"Remove the character {code_point}: it is invisible, or it changes how other characters look."
    return ""
