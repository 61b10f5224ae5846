"""Two texts side by side: old at the left with what went, new at the right with what came."""

import re
from difflib import SequenceMatcher
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from catalog.rules.diff import Change, Comparison
from catalog.templatetags.display import plain, shown

register = template.Library()

WORDS = re.compile(r"\s+|\w+|[^\w\s]")
ALIKE = 0.4  # less than this in common, and marks on single words only distract
MAX_COMPARED_LENGTH = 4_000  # beyond this a word-by-word comparison costs more than it helps

# What a change does, its colour, and what that means.
EFFECTS = {
    "breaks_callers": ("breaks callers", "bad", "A call that worked before may now be refused."),
    "breaks_readers": (
        "breaks readers",
        "bad",
        "What was read from answers may be gone or different.",
    ),
    "widens_risk": ("more risk", "warn", "A call may do more, or ask for more, than before."),
    "compatible": ("compatible", "ok", "Whatever worked before still works."),
    "text": ("wording", "info", "Words that people and models read."),
    "cosmetic": ("no effect", "idle", "It is written differently and means the same."),
}
UNDECIDED = (
    "compare",
    "warn",
    "The rule alone does not tell what still fits. Please compare the two.",
)


@register.inclusion_tag("_effect.html")
def effect(change: Change) -> dict[str, str]:
    """A label for what a change does, in words."""
    word, tone, meaning = UNDECIDED if change.is_undecided else EFFECTS[change.effect]
    return {"word": word, "tone": tone, "meaning": meaning}


@register.inclusion_tag("_status.html")
def verdict(comparison: Comparison) -> dict[str, str]:
    """All changes together, for a user who decides whether to take the new version."""
    effects, class_ = comparison.effects, comparison.class_
    if {"breaks_callers", "breaks_readers"} <= effects:
        return {"tone": "bad", "word": "Breaks callers and readers"}
    for name, word in (("breaks_callers", "Breaks callers"), ("breaks_readers", "Breaks readers")):
        if name in effects:
            return {"tone": "bad", "word": word}
    if class_ == "breaking":
        return {"tone": "bad", "word": "Needs more than before"}
    if "widens_risk" in effects:
        is_undecided = all(c.is_undecided for c in comparison.changes if c.effect == "widens_risk")
        return {"tone": "warn", "word": "Compare before you move" if is_undecided else "Widens the risk"}
    if not effects - {"cosmetic"}:
        return {"tone": "ok", "word": "No effect" if effects else "No difference"}
    if class_ == "notice":
        return {"tone": "warn", "word": "Read before you move"}
    return {"tone": "ok", "word": "Safe to move"}


@register.inclusion_tag("_diff_sides.html")
def diff_sides(before: object, after: object) -> dict[str, SafeString | None]:
    """None on a side means that there was nothing."""
    if isinstance(before, str) and isinstance(after, str) and len(before) + len(after) <= MAX_COMPARED_LENGTH:
        sides = _marked(before, after)
        return {"old": sides[0], "new": sides[1]}
    return {"old": _whole(before), "new": _whole(after)}


def _whole(value: object) -> SafeString | None:
    return None if value is None else shown(plain(value))


def _marked(before: str, after: str) -> tuple[SafeString, SafeString]:
    old, new = WORDS.findall(before), WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < ALIKE:
        return shown(before), shown(after)
    steps = matcher.get_opcodes()
    left = [(kind != "equal", "".join(old[a:b])) for kind, a, b, _, _ in steps]
    right = [(kind != "equal", "".join(new[c:d])) for kind, _, _, c, d in steps]
    return _joined(left, "del"), _joined(right, "ins")


def _joined(pieces: list[tuple[bool, str]], mark: str) -> SafeString:
    return format_html_join(
        "",
        "{}",
        (
            (format_html(f"<{mark}>{{}}</{mark}>", shown(text)) if is_marked else shown(text),)
            for is_marked, text in pieces
            if text
        ),
    )


@register.filter
def members(entry: Any) -> list[tuple[str, Any, Any]]:
    """What an audit entry changed, one line for each member, however deep: (path, before, after)."""
    before, after = (_flat("", facts) for facts in entry.facts)
    paths = dict.fromkeys([*before, *after])
    return [(p, before.get(p), after.get(p)) for p in paths if before.get(p) != after.get(p)]


def _flat(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {} if value is None else {path: value}
    flat: dict[str, Any] = {}
    for name, member in value.items():
        flat |= _flat(f"{path} / {name}" if path else name, member)
    return flat
