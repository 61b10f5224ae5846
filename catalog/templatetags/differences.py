"""Two texts side by side: old at the left with what went, new at the right with what came."""

from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from catalog.rules import word_diff
from catalog.rules.diff import Change, Comparison
from catalog.rules.word_diff import Pieces
from catalog.templatetags.display import plain, shown

register = template.Library()

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
    if isinstance(before, str) and isinstance(after, str):
        old, new = word_diff.mark_differences([before, after])
        return {"old": _joined(old, "del"), "new": _joined(new, "ins")}
    return {"old": _whole(before), "new": _whole(after)}


def _whole(value: object) -> SafeString | None:
    return None if value is None else shown(plain(value))


@register.simple_tag
def marked_words(pieces: Pieces) -> SafeString:
    """A text beside others, with the words that differ."""
    return _joined(pieces, "mark")


def _joined(pieces: Pieces, mark: str) -> SafeString:
    return format_html_join(
        "",
        "{}",
        (
            (format_html(f"<{mark}>{{}}</{mark}>", shown(text)) if is_marked else shown(text),)
            for text, is_marked in pieces
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
