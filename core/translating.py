"""Sentences of code without Django, in the language of a page."""

from django.utils.translation import gettext

from core.translatable import Wording


def translated(wording: Wording) -> str:
    values = {
        name: translated(value) if isinstance(value, Wording) else value
        for name, value in wording.values.items()
    }
    return gettext(wording.template).format(**values)
