"""Spellings of tags: vendors write “E-Mail”, “email” and “e_mail” for one tag. Pure."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

_SEPARATORS = re.compile(r"[\s_\-./]+")


@lru_cache(maxsize=20_000)
def tag_key(tag: str) -> str:
    """Return what all spellings of a tag have in common."""
    folded = unicodedata.normalize("NFKC", tag).casefold()
    return _SEPARATORS.sub("", folded) or folded


def distinct(tags: Iterable[str]) -> list[str]:
    """Return the tags, each in its first spelling only."""
    return list({tag_key(tag): tag for tag in reversed(list(tags))}.values())


def group_spellings(counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the spellings of each tag by its key, the most frequent one first."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for tag in sorted(counts, key=lambda tag: (-counts[tag], tag)):
        groups[tag_key(tag)].append(tag)
    return dict(groups)
