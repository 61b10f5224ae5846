"""Render forms' fields like Django, without a template for each part of a field."""

from collections.abc import Mapping
from typing import Any

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.html import conditional_escape as escape
from django.utils.safestring import mark_safe

WIDGETS = "django/forms/widgets/"
SELECT, TEXT_AREA = f"{WIDGETS}select.html", f"{WIDGETS}textarea.html"
INPUTS = {f"{WIDGETS}{kind}.html" for kind in ("text", "number", "hidden", "checkbox", "url", "input")}


class FieldRenderer(DjangoTemplates):
    """Django renders two templates for each choice of a list and three for an input. An agent's tools are 40
    choices of several lists of a page, and a tool has four inputs for each of its own.
    """

    def render(self, template_name: str, context: Any, request: HttpRequest | None = None) -> str:
        html = _write(template_name, context.get("widget", {}))
        if html is None:
            return super().render(template_name, context, request)
        return mark_safe(html)  # noqa: S308 - every value is escaped below


def _write(template_name: str, widget: Mapping[str, Any]) -> str | None:
    """Return what the template of a widget writes, None for other templates."""
    if template_name not in (*INPUTS, TEXT_AREA, SELECT):
        return None
    start = f'name="{escape(widget["name"])}"'
    attributes, value = _attributes(widget["attrs"]), widget["value"]
    if template_name in INPUTS:
        shown = "" if value is None else f' value="{escape(value)}"'
        return f'<input type="{escape(widget["type"])}" {start}{shown}{attributes}>'
    if template_name == TEXT_AREA:
        return f"<textarea {start}{attributes}>\n{escape(value or '')}</textarea>"
    lines = [f"<select {start}{attributes}>"]
    for group, choices, _number in widget["optgroups"]:
        lines += [f'  <optgroup label="{escape(group)}">'] if group else []
        lines += [
            f'  <option value="{escape(choice["value"])}"{_attributes(choice["attrs"])}>'
            f"{escape(choice['label'])}</option>"
            for choice in choices
        ]
        lines += ["  </optgroup>"] if group else []
    return "\n".join([*lines, "</select>"])


def _attributes(attributes: Mapping[str, Any]) -> str:
    return "".join(
        f" {name}" if value is True else f' {name}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not False
    )
