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

# Label, state and explanation of each effect.
EFFECTS = {
    "breaks_callers": ("breaking", "breaking", "A call that worked before may now be refused."),
    "breaks_readers": (
        "outputs may be missing",
        "breaking",
        "Outputs that an agent used may be missing or different.",
    ),
    "widens_risk": ("more risk", "warning", "A call may do more, or ask for more, than before."),
    "compatible": ("compatible", "compatible", "Everything that worked before still works."),
    "text": ("wording", "info", "A text that people and models read."),
    "cosmetic": ("no effect", "idle", "A different notation with the same meaning."),
}
UNDECIDED = (
    "compare",
    "warning",
    "It is unclear what still works. Compare both versions.",
)


@register.inclusion_tag("_effect.html")
def effect(change: Change) -> dict[str, str]:
    """A label for what a change does, in words."""
    word, state, explanation = UNDECIDED if change.is_undecided else EFFECTS[change.effect]
    return {"word": word, "state": state, "meaning": explanation}


@register.inclusion_tag("_status.html")
def verdict(comparison: Comparison) -> dict[str, str]:
    """Summarize all changes, for a user who decides about the new version."""
    effects, class_ = comparison.effects, comparison.class_
    if {"breaks_callers", "breaks_readers"} <= effects:
        return {"state": "breaking", "word": "Breaking for agents"}
    for name, word in (
        ("breaks_callers", "Breaking for agents"),
        ("breaks_readers", "Outputs may be missing"),
    ):
        if name in effects:
            return {"state": "breaking", "word": word}
    if class_ == "breaking":
        return {"state": "breaking", "word": "Needs more rights"}
    if "widens_risk" in effects:
        is_undecided = all(c.is_undecided for c in comparison.changes if c.effect == "widens_risk")
        return {"state": "warning", "word": "Compare first" if is_undecided else "More risk"}
    if not effects - {"cosmetic"}:
        return {"state": "none", "word": "No effect" if effects else "No changes"}
    if class_ == "notice":
        return {"state": "warning", "word": "Read first"}
    return {"state": "safe", "word": "Safe"}


@register.inclusion_tag("_diff_sides.html")
def diff_sides(before: object, after: object) -> dict[str, SafeString | bool | None]:
    """Render both sides. None: there is no value on that side. JSON is shown to users who open it."""
    if isinstance(before, str) and isinstance(after, str):
        old, new = word_diff.mark_differences([before, after])
        return {"old": _joined(old, "del"), "new": _joined(new, "ins"), "is_raw": False}
    is_raw = any(map(_is_structure, (before, after)))
    return {"old": _unmarked(before), "new": _unmarked(after), "is_raw": is_raw}


def _is_structure(value: object) -> bool:
    """Return whether a value reads as JSON: an object, or a list of objects or lists."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, dict | list | tuple) for item in value)
    return isinstance(value, dict)


def _unmarked(value: object) -> SafeString | None:
    match value:
        case None:
            return None
        case bool():
            return shown("yes" if value else "no")
        case [*items] if not _is_structure(items):
            return shown(", ".join(map(plain, items)) or "none")
        case _:
            return shown(plain(value))


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
