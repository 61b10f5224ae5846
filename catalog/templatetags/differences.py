"""Tags for changes: labels of effects, and two texts side by side with the differing words marked."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast
from urllib.parse import urlencode

from django import template
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.models import ToolVersion
from catalog.rules import word_diff
from catalog.rules.diff import EFFECTS as EFFECT_ORDER
from catalog.rules.diff import Change, SignatureDifference
from catalog.rules.readable_diff import read_change
from catalog.rules.word_diff import Pieces
from catalog.templatetags.display import breakable, effect_word, shown, signed, status, text_within, tone
from core.numbered_pages import NumberedPage, page_of
from core.page_addresses import address_of
from core.readable_changes import ReadableChange, outline
from core.translating import translate
from protocols.signature import Effect as CallEffect

register = template.Library()

MAX_RAW = 4_000  # characters of a page; the API returns the whole value

# Label, state and explanation of each effect.
EFFECTS = {
    "breaks_callers": (
        gettext_lazy("breaking"),
        "breaking",
        gettext_lazy("A call that worked before may now be refused."),
    ),
    "breaks_readers": (
        gettext_lazy("outputs may be missing"),
        "breaking",
        gettext_lazy("Outputs that an agent used may be missing or different."),
    ),
    "widens_risk": (
        gettext_lazy("more risk"),
        "warning",
        gettext_lazy("A call may do more, or ask for more, than before."),
    ),
    "compatible": (
        gettext_lazy("compatible"),
        "compatible",
        gettext_lazy("Everything that worked before still works."),
    ),
    "text": (gettext_lazy("wording"), "info", gettext_lazy("A text that people and models read.")),
    "cosmetic": (
        gettext_lazy("no effect"),
        "idle",
        gettext_lazy("A different notation with the same meaning."),
    ),
}
UNDECIDED = (
    gettext_lazy("compare"),
    "warning",
    gettext_lazy("It is unclear what still works. Compare both versions."),
)


MARKS = {
    "added": gettext_lazy("added"),
    "removed": gettext_lazy("removed"),
    "changed": gettext_lazy("changed"),
}


@register.simple_tag
def effect(name: str) -> SafeString:
    """Return a label for the effect of a change."""
    word, state, explanation = UNDECIDED if name == "undecided" else EFFECTS[name]
    return format_html('<span class="label is-{}" title="{}">{}</span>', tone(str(state)), explanation, word)


@register.simple_tag
def change_head(change: ReadableChange, hides_effects: object = False) -> SafeString:
    """Render the line of a change without its details. In one piece, because a page has 40 of them."""
    parts = []
    if change.mark:
        parts.append(f'<span class="label is-{tone(change.mark)}">{MARKS[change.mark]}</span> ')
    if change.effect and not hides_effects:
        parts.append(f"{effect(change.effect)} ")
    if change.subject:
        is_name = change.kind not in ("procedure", "sub-agent")
        subject: str = breakable(shown(change.subject)) if is_name else shown(change.subject)
        subject = f"<del>{subject}</del>" if change.mark == "removed" else subject
        font = " mono" if is_name else ""
        parts.append(f'<span class="strong{font}">{subject}</span> ')
        if change.kind != "tool":
            parts.append(f'<span class="muted">{shown(_(change.kind)) if change.kind else ""}</span> ')
    for number, name in enumerate(change.call_effects, 1):
        unknown = "unknown" if len(change.call_effects) > 1 else ""
        arrow = ' <span class="faint">→</span>' if number == len(change.call_effects) - 1 else ""
        parts.append(f"{effect_word(cast(CallEffect, name), unknown)}{arrow} ")
    if change.sentence:
        tone_of_sentence = ' class="muted"' if change.subject else ""
        parts.append(f"<span{tone_of_sentence}>{shown(change.sentence)}</span>")
    if change.tokens is not None:
        words = ngettext("%(tokens)s token", "%(tokens)s tokens", change.tokens)
        parts.append(f' <span class="faint small nowrap">{words % {"tokens": signed(change.tokens)}}</span>')
    return mark_safe("".join(parts))  # noqa: S308 - texts of a change are escaped by `shown`


@register.filter
def readable(changes: Sequence[Change] | NumberedPage[Change]) -> NumberedPage[ReadableChange]:
    """Return a page of the changes of a vendor's tool for `_changes.html`; by default the first."""
    page = changes if isinstance(changes, NumberedPage) else page_of(changes)
    return page.with_rows([read_change(change) for change in page])


@register.simple_tag
def comparison_url(before: ToolVersion, after: ToolVersion) -> str:
    """Return the address of the page that compares two versions of a tool in full."""
    return f"{address_of('tool-versions', after.tool_id)}?from={before.ordinal}&to={after.ordinal}"


@register.filter
def folded(changes: Sequence[Change], key: object) -> NumberedPage[ReadableChange]:
    """Return the gravest change, which stands for all until they are loaded."""
    if not changes:
        return page_of([])
    more = ""
    if count := len(changes) - 1:
        template = ngettext("{count} more change.", "{count} more changes.", count)
        more = f" {template.format(count=number_format(count, force_grouping=True))}"
    first = read_change(min(changes, key=lambda change: EFFECT_ORDER.index(change.effect)))
    sentence = f"{translate(first.sentence)}{more}"
    return page_of([ReadableChange(sentence=sentence, effect=first.effect, key=str(key))])


@register.simple_tag
def verdict(comparison: SignatureDifference) -> SafeString:
    """Summarize all changes, for a user who decides about the new version."""
    effects, class_ = comparison.effects, comparison.class_
    if "breaks_callers" in effects:
        return status("breaking", _("Breaking for agents"))
    if "breaks_readers" in effects:
        return status("breaking", _("Outputs may be missing"))
    if class_ == "breaking":
        return status("breaking", _("Needs more rights"))
    if "widens_risk" in effects:
        is_undecided = all(c.is_undecided for c in comparison.changes if c.effect == "widens_risk")
        return status("warning", _("Compare first") if is_undecided else _("More risk"))
    if not effects - {"cosmetic"}:
        return status("none", _("No effect") if effects else _("No changes"))
    if class_ == "notice":
        return status("warning", _("Read the changes"))
    return status("safe", _("Safe"))


@register.simple_tag(takes_context=True)
def change_address(context: template.Context, change: ReadableChange) -> str:
    """Return the query of this page with the change open."""
    pairs = [
        (name, value)
        for name, values in context["request"].GET.lists()
        if name not in ("change", "parts")
        for value in values
    ]
    return f"?{urlencode([*pairs, ('change', change.key)])}"


@register.simple_tag
def changed_words(before: str | None, after: str | None) -> SafeString:
    """Render two texts side by side with the words that differ marked; None: there is no such text."""
    sides = (("old", _("Before"), before), ("new", _("After"), after))
    present = [(name, word, text) for name, word, text in sides if text is not None]
    marked = word_diff.mark_differences([text for _name, _word, text in present])
    rendered = [
        (
            format_html(
                '<div class="diff-side diff-text is-{}"><span class="visually-hidden">{}: </span>{}</div>',
                name,
                word,
                _join_pieces(pieces, "del" if name == "old" else "ins"),
            )
        )
        for (name, word, _text), pieces in zip(present, marked, strict=True)
    ]
    return format_html('<div class="split">{}{}</div>', *rendered) if len(rendered) > 1 else rendered[0]


@register.filter
def as_changes(sentences: Iterable[str]) -> list[ReadableChange]:
    return [ReadableChange(sentence=sentence) for sentence in sentences]


@register.filter
def outlined(value: Any) -> str:
    """Return a value as text, in place of JSON."""
    return outline(value)


@register.filter
def raw_text(value: Any) -> SafeString:
    """Return a value as JSON, for those who open “Raw”."""
    text = json.dumps(value, ensure_ascii=False)
    return shown(text if len(text) <= MAX_RAW else f"{text[:MAX_RAW]}…")


@register.simple_tag
def marked_words(pieces: Pieces, max_bytes: int = 4_000) -> SafeString:
    """Render the beginning of a text with its differing words marked."""
    fitting, free_bytes = [], max_bytes
    for text, is_marked in pieces:
        beginning = text_within(text, free_bytes)
        fitting.append((beginning if beginning == text else f"{beginning}…", is_marked))
        if beginning != text:
            break
        free_bytes -= len(shown(text).encode()) + (len("<mark></mark>") if is_marked else 0)
        free_bytes = max(free_bytes, 0)
    return _join_pieces(fitting, "mark")


def _join_pieces(pieces: Pieces, mark: str) -> SafeString:
    return format_html_join(
        "",
        "{}",
        (
            (format_html(f"<{mark}>{{}}</{mark}>", shown(text)) if is_marked else shown(text),)
            for text, is_marked in pieces
            if text
        ),
    )
