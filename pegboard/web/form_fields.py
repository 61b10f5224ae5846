"""Render forms' fields like Django, without a template for each part of a field."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.forms import BoundField
from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.html import conditional_escape as escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from catalog.templatetags.display import icon

register = template.Library()

WIDGETS = "django/forms/widgets/"
SELECT, TEXT_AREA = f"{WIDGETS}select.html", f"{WIDGETS}textarea.html"
INPUTS = {f"{WIDGETS}{kind}.html" for kind in ("text", "number", "hidden", "checkbox", "url", "input")}


class FieldRenderer(DjangoTemplates):
    """Django renders two templates for each choice of a list and three for an input. An agent's tools are 40
    choices of several lists of a page, and a tool has four inputs for each of its own.
    """

    def render(self, template_name: str, context: Any, request: HttpRequest | None = None) -> str:
        if template_name not in (*INPUTS, TEXT_AREA, SELECT):
            return super().render(template_name, context, request)
        widget = context["widget"]
        start = f'name="{escape(widget["name"])}"'
        attributes, value = _write_attributes(widget["attrs"]), widget["value"]
        if template_name in INPUTS:
            shown = "" if value is None else f' value="{escape(value)}"'
            html = f'<input type="{escape(widget["type"])}" {start}{shown}{attributes}>'
        elif template_name == TEXT_AREA:
            html = f"<textarea {start}{attributes}>\n{escape(value or '')}</textarea>"
        else:
            lines = [f"<select {start}{attributes}>"]
            for group, choices, _number in widget["optgroups"]:
                lines += [f'  <optgroup label="{escape(group)}">'] if group else []
                lines += [
                    f'  <option value="{escape(choice["value"])}"{_write_attributes(choice["attrs"])}>'
                    f"{escape(choice['label'])}</option>"
                    for choice in choices
                ]
                lines += ["  </optgroup>"] if group else []
            html = "\n".join([*lines, "</select>"])
        return mark_safe(html)  # noqa: S308 - every value is escaped above


def _write_attributes(attributes: Mapping[str, Any]) -> str:
    return "".join(
        f" {name}" if value is True else f' {name}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not False
    )


@register.simple_tag(takes_context=True)
def labelled_field(context: template.Context, field: BoundField) -> SafeString:
    """Render a field with its label, hint and errors: what `_field.html` describes."""
    if field.is_hidden:
        return SafeString(field)
    is_checkbox = field.widget_type == "checkbox"
    tag = "fieldset" if field.use_fieldset else "div"
    control = str(field)
    name, identifier = escape(field.label), escape(field.id_for_label)
    if is_checkbox:
        head = f'{control}<label for="{identifier}">{name}</label>'
    elif field.use_fieldset:
        head = f"<legend>{name}</legend>"
    else:
        hidden = ' class="visually-hidden"' if context.get("hide_label") else ""
        is_needed = field.field.required or field.widget_type == "select" or context.get("is_asked")
        mark = "" if is_needed else f' <span class="optional">{escape(_("optional"))}</span>'
        head = f'<label for="{identifier}"{hidden}>{name}{mark}</label>'
    hint = f'<p class="hint" id="{field.auto_id}_helptext">{escape(field.help_text)}</p>'
    errors = "".join(
        f'<p class="field-error" id="{field.auto_id}_error">{icon("bad")}{escape(str(error))}</p>'
        for error in field.errors
    )
    parts = (head, hint if field.help_text else "", "" if is_checkbox else control, errors)
    html = f'<{tag} class="field{" is-check" if is_checkbox else ""}">{"".join(parts)}</{tag}>'
    return mark_safe(html)  # noqa: S308 - every value is escaped above
