"""What a person may call something: a pure rule, the same for everything that has a name."""

import unicodedata

# Controls, invisible and bidirectional formatting, half characters, ends of lines and paragraphs.
UNREADABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Invisible as well, but some scripts are misspelt without them, and families of emoji fall apart.
JOINERS = "\u200c\u200d"


def why_not(name: str, longest: int) -> str:
    """A sentence for the field; empty when everybody sees the name as it was typed."""
    if not name.strip(f" {JOINERS}") or len(name) > longest:
        return f"Give a name of up to {longest} characters."
    strange = next((c for c in name if unicodedata.category(c) in UNREADABLE and c not in JOINERS), "")
    if strange:
        return (
            f"Leave out the character U+{ord(strange):04X}: it is invisible, or changes how the rest looks."
        )
    return ""
