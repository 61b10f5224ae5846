"""Which names a user may give: a pure rule, the same for everything that has a name."""

import re

from core.invisible_characters import SPACE, hidden

JOINERS = "\u200c\u200d"
_LINE_END = re.compile(r"[\t\r\n]")


def why_not(name: str, longest: int) -> str:
    """A sentence for the field; empty when the name is shown as it was typed."""
    if not name.strip(f" {JOINERS}") or len(name) > longest:
        return f"Give a name of up to {longest} characters."
    # A space that is not the usual one is seen as a space, and keyboards write it.
    strange = "".join(name[found.start] for found in hidden(name) if found.kind is not SPACE)
    strange += "".join(_LINE_END.findall(name))
    if strange:
        code_point = f"U+{ord(strange[0]):04X}"
        return f"Leave out the character {code_point}: it is invisible, or changes how the rest looks."
    return ""
