"""Two texts side by side: the old one with its removed words, the new one with its added words."""

from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from catalog.rules import word_diff
from catalog.rules.diff import Change, Comparison
from catalog.rules.word_diff import Pieces
from catalog.templatetags.display import plain, shown

register = template.Library()

# Label, colour and explanation of each effect.
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
    word, tone, explanation = UNDECIDED if change.is_undecided else EFFECTS[change.effect]
    return {"word": word, "tone": tone, "meaning": explanation}


@register.inclusion_tag("_status.html")
def verdict(comparison: Comparison) -> dict[str, str]:
    """Summarize all changes, for a user who decides about the new version."""
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
    """Render both sides. None: there is no value on that side."""
    if isinstance(before, str) and isinstance(after, str):
        old, new = word_diff.mark_differences([before, after])
        return {"old": _joined(old, "del"), "new": _joined(new, "ins")}
    return {"old": _unmarked(before), "new": _unmarked(after)}


def _unmarked(value: object) -> SafeString | None:
    return None if value is None else shown(plain(value))


@register.simple_tag
def marked_words(pieces: Pieces) -> SafeString:
    """Render a text with its differing words marked."""
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
    """Return the changes of an audit entry as (path, before, after), one for each member at any depth."""
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
