"""Parts of a signature in words."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from django import template
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.templatetags.display import shown, shown_within
from core.readable_changes import is_structure, outline
from protocols.signature import Annotations, Parameter

register = template.Library()

# Bytes of all schemas on one page, and of one among many. Another page has the vendor's whole document.
MAX_SOURCES, MIN_SOURCE = 8_000, 300
# Bytes of a default value in a row, and of the schema at a field.
MAX_DEFAULT, MAX_DOCUMENT = 300, 1_500

CLAIMS = {
    "destructive": (gettext_lazy("Danger"), gettext_lazy("May destroy"), gettext_lazy("Does not destroy")),
    "idempotent": (gettext_lazy("Calling twice"), gettext_lazy("Harmless"), gettext_lazy("Runs again")),
    "open_world": (gettext_lazy("Reach"), gettext_lazy("Outside systems"), gettext_lazy("The vendor's own")),
}


@register.filter
def stated_columns(parameters: Iterable[Any]) -> set[str]:
    """Return which of the columns `default`, `values` and `description` have text for any of these inputs."""
    columns: dict[str, Callable[[Parameter], object]] = {
        "default": default_value,
        "values": lambda parameter: parameter.allowed_values or limits(parameter),
        "description": lambda parameter: parameter.description or parameter.schema,
    }
    rows = [(row, row.parameter) for row in parameters]
    stated = {name for name, text in columns.items() if any(text(parameter) for _, parameter in rows)}
    # The column of descriptions also shows the vendor's text, where a tuned text replaces it.
    return stated | {"description" for row, _ in rows if getattr(row, "vendors", None) is not None}


@register.filter
def default_value(parameter: Parameter) -> SafeString | str:
    value = parameter.default
    if value is msgspec.UNSET:
        return ""
    return shown_within(outline(value) if is_structure(value) else _as_json(value), MAX_DEFAULT)


@register.filter
def limits(parameter: Parameter) -> str:
    """Describe limits as in "1 to 100" or "at most 40 characters", "" without any."""
    if parameter.max_length is not None:
        return _("at most {maximum} characters").format(
            maximum=number_format(parameter.max_length, force_grouping=True)
        )
    low, high = parameter.min, parameter.max
    if low is not None and high is not None:
        return _("{minimum} to {maximum}").format(
            minimum=number_format(low, force_grouping=True), maximum=number_format(high, force_grouping=True)
        )
    if high is not None and not parameter.max_defaulted:
        return _("at most {maximum}").format(maximum=number_format(high, force_grouping=True))
    return (
        _("{minimum} or more").format(minimum=number_format(low, force_grouping=True))
        if low is not None
        else ""
    )


@register.filter
def claims(annotations: Annotations) -> list[tuple[str, str]]:
    """Return the declared annotations besides the effect. Undeclared ones are left out, because unset is
    not false."""
    declared = msgspec.to_builtins(annotations)
    return [
        (str(word), str(yes if declared[name] else no))
        for name, (word, yes, no) in CLAIMS.items()
        if name in declared
    ]


@register.filter
def worded(value: str | bool | None) -> SafeString:
    """Return a text unchanged, or a statement about an effect in words."""
    if isinstance(value, str) and value:
        return shown(value)
    return format_html(
        '<span class="faint">{}</span>', _("Yes") if value else _("No") if value is False else _("Nothing")
    )


@register.filter
def pretty_json(value: Any) -> SafeString:
    """Return a document, or its text, with line breaks and every hidden character shown."""
    return shown(
        msgspec.json.format(value, indent=2) if isinstance(value, str) else _as_json(value, indent=2)
    )


@register.filter
def schema_source(schema: Any, parameters: Sequence[Any]) -> SafeString:
    """Return the schema of one of the parameters of a page, truncated if all schemas would be too long."""
    return shown_within(_as_json(schema, indent=2), max(MIN_SOURCE, MAX_SOURCES // len(parameters)))


@register.filter
def schema_document(schema: Any) -> SafeString:
    """Return the beginning of the schema of a field."""
    return shown_within(_as_json(schema, indent=2), MAX_DOCUMENT)


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
