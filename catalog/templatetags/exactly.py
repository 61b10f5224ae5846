"""A vendor's text as its bytes are: nothing hidden, no line end and no run of spaces lost."""

import re

from django import template
from django.utils.formats import number_format
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from core.invisible_characters import HIDDEN, decoded_tags, name_of

register = template.Library()

MAX_LENGTH = 20_000
MAX_CHIPS = 12
# Marks repeated and trailing spaces, tabs and line ends. All other characters are shown as they are.
BLANKS = re.compile(r" {2,}| +(?=\r?\n|\Z)|[\t\r\n]")
DRAWN = {"\t": "⇥\t", "\r": "␍", "\n": "↵\n"}
PIECES = re.compile(f"(?P<hidden>{HIDDEN.pattern})|(?P<blank>{BLANKS.pattern})")


@register.filter
def exactly(text: str) -> SafeString:
    """Render a text exactly, for a block that keeps white space."""
    more = len(text) - MAX_LENGTH
    drawn, end = [], 0
    for piece in PIECES.finditer(text := text[:MAX_LENGTH]):
        drawn.append(escape(text[end : piece.start()]))
        end = piece.end()
        if run := piece.group("hidden"):
            chips = format_html_join(
                "", '<span class="hidden-char">{}</span>', ((name_of(c),) for c in run[:MAX_CHIPS])
            )
            hidden_text = decoded_tags(run)
            spells = _("spells “{text}”").format(text=hidden_text)
            spelling = format_html('<span class="hidden-char">{}</span>', spells) if hidden_text else ""
            hidden_count = len(run) - MAX_CHIPS
            others = _("and {count} more").format(count=number_format(hidden_count, force_grouping=True))
            more_chip = format_html('<span class="hidden-char">{}</span>', others) if hidden_count > 0 else ""
            drawn.append(format_html("{}{}{}", chips, more_chip, spelling))
        else:
            blank = piece.group("blank")
            drawn.append(format_html('<span class="blank">{}</span>', DRAWN.get(blank, "·" * len(blank))))
    drawn.append(escape(text[end:]))
    if more > 0:
        drawn.append(
            format_html(
                ' <span class="hidden-char">{}</span>',
                _("and {count} characters more").format(count=number_format(more, force_grouping=True)),
            )
        )
    return mark_safe("".join(drawn))  # noqa: S308 - every piece is escaped above
