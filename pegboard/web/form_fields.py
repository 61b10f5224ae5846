"""Render forms' fields like Django, with lists of choices in one piece."""

from collections.abc import Mapping
from typing import Any

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.html import conditional_escape as escape
from django.utils.safestring import mark_safe

SELECT = "django/forms/widgets/select.html"


class FieldRenderer(DjangoTemplates):
    """Django renders two templates for each choice of a list, and an agent's tools are 40 choices of several
    lists of a page.
    """

    def render(self, template_name: str, context: Any, request: HttpRequest | None = None) -> str:
        if template_name != SELECT:
            return super().render(template_name, context, request)
        widget = context["widget"]
        lines = [f'<select name="{escape(widget["name"])}"{_attributes(widget["attrs"])}>']
        for group, choices, _number in widget["optgroups"]:
            lines += [f'  <optgroup label="{escape(group)}">'] if group else []
            lines += [
                f'  <option value="{escape(choice["value"])}"{_attributes(choice["attrs"])}>'
                f"{escape(choice['label'])}</option>"
                for choice in choices
            ]
            lines += ["  </optgroup>"] if group else []
        return mark_safe("\n".join([*lines, "</select>"]))  # noqa: S308 - every value is escaped above


def _attributes(attributes: Mapping[str, Any]) -> str:
    return "".join(
        f" {name}" if value is True else f' {name}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not False
    )
