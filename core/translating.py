"""Translate the sentences of code without Django into the language of the page."""

from django.utils.formats import number_format
from django.utils.translation import get_language, gettext

from core.translatable import Count, Wording


def translate(text: str) -> str:
    """Return a wording in the language of the page, and any other text unchanged."""
    if not isinstance(text, Wording):
        return text
    if get_language() == "en":
        return str(text)
    values = {
        name: number_format(int(value), force_grouping=True) if isinstance(value, Count) else translate(value)
        for name, value in text.values.items()
    }
    return gettext(text.template).format(**values)
