"""Statements of the readiness judgement. An agent has several for each of its tools."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from catalog.templatetags.display import icon, sentence
from core.page_addresses import address_of
from designer.readiness.judgement import State

register = template.Library()

# Icon and word of each severity.
SEVERITY_MARKS = {
    "proven": ("ok", gettext_noop("Passed:")),
    "warning": ("warn", gettext_noop("Warning:")),
    "error": ("bad", gettext_noop("Cannot run:")),
}
NOT_TESTED = ("info", gettext_noop("Not tested yet:"))


@register.simple_tag
def severity_icon(severity: str) -> SafeString:
    """Render a severity as an icon, with its word for screen readers."""
    name, word = SEVERITY_MARKS.get(severity, NOT_TESTED)
    return format_html('{}<span class="visually-hidden">{} </span>', icon(name), _(word))


@register.simple_tag(takes_context=True)
def statement(context: template.Context, state: State) -> SafeString:
    """Render a statement with what to do: a link for those who may, else a sentence."""
    message = sentence(state.message)
    if state.page and context["user"].can_administer:
        address = address_of(state.page.url_name, str(state.page.key))
        return format_html('{} <a href="{}">{}</a>', message, address, state.page.label)
    if state.to_do:
        return format_html('{} <span class="muted">{}</span>', message, sentence(state.to_do))
    return message
