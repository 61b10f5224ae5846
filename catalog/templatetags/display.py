"""Display of values on pages. Vendors' texts go through `shown`, never through `safe`."""

import hashlib
import html
import re
import unicodedata
from collections.abc import Set
from datetime import datetime, timedelta
from functools import cache, lru_cache

from django import template
from django.db.models import Choices
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format, get_format
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from catalog.credentials import kinds
from catalog.models import Translation
from catalog.models.tools import ItemKind
from catalog.models.vendors import EndpointStatus
from catalog.rules.markdown import strip_markdown
from catalog.search.fit import Reasons
from catalog.search.job_words import ENGLISH, stem
from catalog.search.progress import Progress
from catalog.search.words import PART, fold, parts
from catalog.token_estimate import estimate_tokens
from catalog.translations.languages import language_name
from catalog.translations.tool_texts import digest_of
from core.invisible_characters import HIDDEN, decoded_tags, find_hidden
from core.stored_sentences import translate_sentence
from core.translating import translate as translated_wording
from protocols.signature import Effect

register = template.Library()

CHIP_LIMIT = 3
_REST_OF_MONTH = re.compile(r"(?<= [A-Z][a-z]{2})[a-z]+")
_JOINT = re.compile(r"(?<=[_.])(?=[^\W_])|(?<=[a-z])(?=[A-Z])")
BRIEF = 180
# Of a long text, a list reads no more.
MAX_READ = 1_200
HUES = 12  # of tiles, in static/css/components.css
# Seconds, and a span of that unit in the past and in the future.
UNITS = (
    (86_400 * 365, gettext_lazy("{count} y ago"), gettext_lazy("in {count} y")),
    (86_400 * 30, gettext_lazy("{count} mo ago"), gettext_lazy("in {count} mo")),
    (86_400, gettext_lazy("{count} d ago"), gettext_lazy("in {count} d")),
    (3600, gettext_lazy("{count} h ago"), gettext_lazy("in {count} h")),
    (60, gettext_lazy("{count} min ago"), gettext_lazy("in {count} min")),
)
# The one place that decides the colour of a state. Green: something was checked, or has just succeeded.
# A state that is normal, or that nothing has exercised yet, has no colour, like every state not listed here.
TONES = {
    word: name
    for name, words in {
        "ok": ("success", "passed", "proven", "better", "compatible", "safe"),
        "info": ("queued", "running", "info", "needs_input", "latent"),
        "warn": (
            "needs_sign_in",
            "needs_scope",
            "withdrawn",
            "open",
            "warning",
            "notice",
            "medium",
            "expired",
            "expiring",
            "unsure",
            "invalid_arguments",
            "needs_authorization",
            "cancelled",
            "unknown",
        ),
        "held": ("held", "was_held"),
        "bad": (
            "failing",
            "failed",
            "blocked",
            "error",
            "breaking",
            "high",
            "revoked",
            "refused",
            "other",
            "tool_error",
            "unavailable",
        ),
    }.items()
    for word in words
}
EFFECTS = {
    "reads": gettext_lazy("Only reads"),
    "changes": gettext_lazy("Changes"),
    "destroys": gettext_lazy("May destroy"),
}
EFFECT_ICONS: dict[Effect, str] = {"reads": "eye", "changes": "edit", "destroys": "trash"}
ITEM_KINDS = dict(ItemKind.choices)
# The deeds of a person on a tool, by the action of the audit trail.
DEEDS = {
    "pin": gettext_lazy("pinned it"),
    "unpin": gettext_lazy("unpinned it"),
    "move": gettext_lazy("moved it"),
    "rename": gettext_lazy("renamed it"),
    "tune": gettext_lazy("tuned it"),
    "mark sensitive": gettext_lazy("marked sensitive values of it"),
    "show sensitive": gettext_lazy("read sensitive values of it"),
    "revert": gettext_lazy("reverted it"),
    "restore": gettext_lazy("restored it"),
    "settle": gettext_lazy("resolved an outdated text of it"),
    "edit": gettext_lazy("edited it"),
    "define": gettext_lazy("defined it"),
    "change definition": gettext_lazy("changed it"),
    "withdraw": gettext_lazy("withdrew it"),
    "offer again": gettext_lazy("offered it again"),
}


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons.svg"), name
    )


@register.simple_tag(takes_context=True)
def translated(context: template.Context, text: str) -> Translation | None:
    """Return the translation of a vendor's text in `translations` of the page, if there is one."""
    translations: dict[str, Translation] = context.get("translations") or {}
    return translations.get(digest_of(text)) if translations else None


register.filter("language_name", language_name)


@register.simple_tag
def foreign_text(code: str | None) -> SafeString:
    """Render a note for texts in another language than English; nothing where the language is not known."""
    if not code or code == "en":
        return SafeString("")
    return format_html(' <span class="label">{} text</span>', language_name(code))


@register.simple_tag
def tool_tile(name: str, vendor: str, picture: str | None, kind: str = "") -> SafeString:
    """Return the picture of a tool, or the initials of its vendor in the vendor's colour.

    vendor: its slug; "" for a definition, which has its own initials.
    picture: the digest of a stored picture. kind: "is-large", "is-small" or "".
    """
    if picture:
        return format_html(
            '<img class="tile {}" src="{}" alt="" width="24" height="24" loading="lazy" decoding="async">',
            kind,
            reverse("picture", args=[picture]),
        )
    return _monogram("" if vendor else name, vendor, kind)


@lru_cache(maxsize=1_000)
def _monogram(name: str, vendor: str, kind: str) -> SafeString:
    # One letter of each of the first two words: "bramble-pharmacy" as "BP".
    words = [word for word in re.split(r"[\W_]+", vendor or name) if word]
    initials = "".join(word[0] for word in words[:2]).upper() or "·"
    # Drawn by the style, so that the letters are no text of the page.
    hue = hashlib.sha256(vendor.encode()).digest()[0] % HUES
    return format_html('<span class="tile {} hue-{}" data-letter="{}"></span>', kind, hue, initials)


@register.filter
def credential_kind(name: str) -> str:
    return kinds.label_of(name)


@register.filter
def item_kind(kind: str) -> str:
    return str(ITEM_KINDS[kind])


@register.filter
def in_page_language(text: str) -> str:
    """Translate a text of Pegboard for an attribute, which has no space for the chips of `shown`."""
    return translate_sentence(text if isinstance(text, str) else str(text or ""))


@register.filter
def sentence(text: str) -> SafeString:
    """Translate a text of Pegboard, such as a stored error. The values in it may be a vendor's."""
    return shown(in_page_language(text))


@register.filter
def shown(text: object) -> SafeString:
    """Return the text with every invisible character drawn as a chip, so that nothing hides from a reader.

    A wording is translated.
    """
    # A version without a label is identified by its number.
    text = translated_wording(text) if isinstance(text, str) else str(text)
    if not HIDDEN.search(text):
        return _escape(text)
    # The hidden characters that the inspection finds, with adjacent ones in one chip.
    runs: list[tuple[int, int]] = []
    for _name, start, stop in find_hidden(text):
        runs.append((runs.pop()[0] if runs and runs[-1][1] == start else start, stop))
    pieces, end = [], 0
    for start, stop in runs:
        run = text[start:stop]
        if smuggled := decoded_tags(run):
            chip = format_html('<span class="hidden-char">{} {}</span>', _("hidden text:"), smuggled)
        else:
            names = " ".join(f"U+{ord(character):04X}" for character in run[:CHIP_LIMIT])
            if (more := len(run) - CHIP_LIMIT) > 0:
                names = _("{names} and {count} more").format(names=names, count=more)
            title = unicodedata.name(run[0], "invisible character").lower()
            chip = format_html('<span class="hidden-char" title="{}">{}</span>', title, names)
        pieces += [_escape(text[end:start]), chip]
        end = stop
    return mark_safe("".join([*pieces, _escape(text[end:])]))  # noqa: S308 - every piece is escaped above


@register.filter
def shown_within(text: str, max_bytes: int) -> SafeString:
    """Return as much of a text as takes at most `max_bytes` of a page, as `shown` does."""
    beginning = text_within(text, max_bytes)
    return mark_safe(f"{shown(beginning)}{'' if beginning == text else '…'}")  # noqa: S308 - `shown` escapes it


def text_within(text: str, max_bytes: int) -> str:
    """Return as much of a text as takes at most `max_bytes` of a page."""
    beginning = text[:max_bytes]
    if len(shown(beginning).encode()) <= max_bytes:
        return beginning
    # Escapes and chips take several times as much as their characters.
    low, high = 0, len(beginning)
    while high - low > 1:
        middle = (low + high) // 2
        if len(shown(text[:middle]).encode()) > max_bytes:
            high = middle
        else:
            low = middle
    return text[:low]


_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=10_000)
def _stems_of(word: str) -> frozenset[str]:
    return frozenset(stem(ENGLISH, part) for part in parts(fold(word)))


@register.filter
def version_text(name: str, label: str) -> SafeString:
    """Return the name of a version for a page. Without a label, its name is a time."""
    return shown(name) if label or not name else shown(_("from {moment}").format(moment=name))


@register.filter
def version_cell(name: str, label: str) -> SafeString:
    """Return the name of a version for a narrow column: of a time, the month is cut."""
    return shown(name if label else _REST_OF_MONTH.sub("", name))


@register.filter
def shown_matched(text: str, matched_terms: Set[str]) -> SafeString:
    """Return the text as `shown` does, and mark the words that have one of these stems."""
    if not matched_terms:
        return shown(text)
    # Most texts hide nothing, and a list has 300 pieces of them.
    escape = shown if HIDDEN.search(text) else html.escape
    pieces, end = [], 0
    for word in _WORD.finditer(text):
        if _stems_of(word.group()).isdisjoint(matched_terms):
            continue
        # Of `ListOrders` the part that has the stem.
        matched_parts = [
            (word.start() + part.start(), word.start() + part.end())
            for part in PART.finditer(word.group())
            if not _stems_of(part.group()).isdisjoint(matched_terms)
        ]
        for start, stop in matched_parts or [word.span()]:
            pieces += [escape(text[end:start]), f"<mark>{escape(text[start:stop])}</mark>"]
            end = stop
    return mark_safe("".join([*pieces, escape(text[end:])]))  # noqa: S308 - every piece is escaped above


@register.filter
def breakable(text: str) -> SafeString:
    """Render a tool name that can break after an underscore or a dot, and in `listOrders`."""
    return mark_safe(_JOINT.sub("<wbr>", conditional_escape(text)))  # noqa: S308 - it is escaped by then


def _escape(text: str) -> SafeString:
    # Like Django's escape without lazy texts, because lists call it a hundred times.
    return mark_safe(html.escape(text))  # noqa: S308 - it has just been escaped


@register.simple_tag
def brief(text: str, matched_terms: Set[str] = frozenset()) -> SafeString:
    """Render a vendor's text in a list without markdown, with `BRIEF` characters as a tooltip."""
    # The style cuts it and app.js repeats it on hover: fifty rows would send the same words twice.
    words = cut_short(strip_markdown(text[:MAX_READ]), BRIEF)
    return format_html('<div class="brief">{}</div>', shown_matched(words, matched_terms))


@register.simple_tag
def reasons_found(reasons: Reasons | None) -> SafeString:
    """Render why a tool was found, in one piece, because a list has 50 of them."""
    if reasons is None:
        return SafeString("")
    parts = [
        pattern % {name: ", ".join(words)}
        for name, pattern, words in (
            ("name", _("In its name: %(name)s"), reasons.name),
            ("words", _("In its text: %(words)s"), reasons.words),
            ("job_words", _("Same task: %(job_words)s"), reasons.job_words),
        )
        if words
    ]
    if not parts and reasons.meaning:
        parts = [_("Similar meaning")]
    spans = "".join(f"<span>{_escape(part)}</span>" for part in parts)
    return mark_safe(f'<p class="small muted why">{spans}</p>' if parts else "")  # noqa: S308 - escaped above


@register.filter
def without_markdown(text: str) -> str:
    return strip_markdown(text)


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """Render a time as in "3 min ago", with the exact time as a tooltip."""
    if moment is None:
        return _("never")
    words = _format_distance(timezone.now() - moment)
    exact = moment.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        exact.isoformat("T", "seconds"),
        f"{date_format(exact, 'DATETIME_FORMAT')} {exact:%Z}",
        words,
    )


@register.filter
def distance(moment: datetime) -> str:
    """Render a time like `ago` without the tooltip, for long lists."""
    return _format_distance(timezone.now() - moment)


@register.filter
def cut_short(text: str, length: int) -> str:
    """Truncate a text to one line at the end of a word."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[:length].rsplit(' ', 1)[0]}…"


def _format_distance(span: timedelta) -> str:
    seconds = abs(int(span.total_seconds()))
    is_past = span >= timedelta()
    if seconds < 45:
        return _("just now") if is_past else _("in a moment")
    size, past, future = next((row for row in UNITS if seconds >= row[0]), UNITS[-1])
    return str(past if is_past else future).format(count=max(1, round(seconds / size)))


@register.filter
def compact(number: int) -> str:
    """Format 1234 as "1.2k", for columns in which the order of magnitude matters."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return _format_decimal(number / 1000) + "k"
    return _format_decimal(number / 1_000_000) + "M"


def _format_decimal(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0").replace(".", get_format("DECIMAL_SEPARATOR"))


@register.filter
def grouped(number: int) -> str:
    return f"{number:,}".replace(",", get_format("THOUSAND_SEPARATOR"))


@register.filter
def signed(number: int) -> str:
    """Return a change of a number with its typographic sign: plus, minus, or plus-minus for none."""
    sign = "+" if number > 0 else "\N{MINUS SIGN}" if number < 0 else "±"
    return sign + grouped(abs(number))


@register.filter
def milliseconds(number: int) -> str:
    """Format a duration: 80 ms, 1.2 s."""
    return f"{number} ms" if number < 1000 else f"{_format_decimal(number / 1000)} s"


@register.filter
def tone(word: str) -> str:
    """Return the colour of a state, a class of change, a severity, an outcome or a message level."""
    return TONES.get(str(word), "idle")


@register.simple_tag
def status_word(choice: Choices, progress: Progress | None = None) -> SafeString:
    """Return the state of a run or an endpoint: its word, and a dot in its colour.

    progress: of the endpoint's tools. A synced endpoint is not shown as done while its tools are indexed.
    """
    state, word = choice.value, str(choice.label)
    if progress and not progress.is_complete and choice == EndpointStatus.OK:
        state, word = "running", progress.label
    return format_html('<span class="status is-{}">{}</span>', tone(state), word)


@register.simple_tag
def status(state: str, word: str) -> SafeString:
    """Render a word beside the dot of its state, as `_status.html` does."""
    return mark_safe(f'<span class="status is-{tone(state)}">{conditional_escape(word)}</span>')  # noqa: S308


@register.simple_tag
def effect_word(effect: Effect, unknown: str = "") -> SafeString:
    """Describe the effect of a call (`Annotations.effect`). An unknown one is shown only beside another."""
    return _effect_word(effect, unknown, get_language())


@cache
def _effect_word(effect: Effect, unknown: str, language: str) -> SafeString:
    if effect == "unknown":
        return format_html("{}", unknown)
    return format_html(
        '<span class="effect is-{}">{}{}</span>', effect, icon(EFFECT_ICONS[effect]), EFFECTS[effect]
    )


@register.filter
def did(action: str) -> str:
    """Return the verb of an audit row in the past tense: "pinned it" for "pin"."""
    return str(DEEDS.get(action, action))


@register.filter
def tally(text: str | None) -> str:
    """Describe the length of a text, with the words that app.js uses while a user types."""
    length = len(text or "")
    tokens = estimate_tokens(text or "")
    return _("{length} characters · ~{tokens} tokens").format(length=length, tokens=tokens)
