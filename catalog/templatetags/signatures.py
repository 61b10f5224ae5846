"""Parts of a signature in words."""

import json
from typing import Any

import msgspec
from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from catalog.templatetags.display import shown
from core.readable_changes import is_structure, outline
from protocols.signature import Annotations, Parameter

register = template.Library()

CLAIMS = {
    "destructive": ("Danger", "May destroy", "Does not destroy"),
    "idempotent": ("Calling twice", "Harmless", "Acts twice"),
    "open_world": ("Reach", "Outside systems", "The vendor's own"),
}


@register.filter
def default_value(parameter: Parameter) -> SafeString | str:
    value = parameter.default
    if value is msgspec.UNSET:
        return ""
    return shown(outline(value) if is_structure(value) else _as_json(value))


@register.filter
def limits(parameter: Parameter) -> str:
    """Describe limits as in "1 to 100" or "at most 40 characters", "" without any."""
    if parameter.max_length is not None:
        return f"at most {parameter.max_length:,} characters"
    low, high = parameter.min, parameter.max
    if low is not None and high is not None:
        return f"{low:,} to {high:,}"
    if high is not None and not parameter.max_defaulted:
        return f"at most {high:,}"
    return f"{low:,} or more" if low is not None else ""


@register.filter
def claims(annotations: Annotations) -> list[tuple[str, str]]:
    """Return the declared annotations besides the effect. Undeclared ones are left out, because unset is
    not false."""
    declared = msgspec.to_builtins(annotations)
    return [
        (word, yes if declared[name] else no) for name, (word, yes, no) in CLAIMS.items() if name in declared
    ]


@register.filter
def worded(value: str | bool | None) -> SafeString:
    """A text as it is, or a statement about an effect in words."""
    if isinstance(value, str) and value:
        return shown(value)
    return format_html(
        '<span class="faint">{}</span>', "Yes" if value else "No" if value is False else "Nothing"
    )


@register.filter
def pretty_json(value: Any) -> SafeString:
    """A document, or its text, with line breaks and every hidden character shown."""
    return shown(
        msgspec.json.format(value, indent=2) if isinstance(value, str) else _as_json(value, indent=2)
    )


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
