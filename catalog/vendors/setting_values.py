"""Validation of the settings of an endpoint by the declarations of its protocol."""

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from core.errors import invalid
from protocols.base import Setting

KINDS_OF_SETTING: dict[str, tuple[Any, str | Promise]] = {
    "text": (str, gettext_lazy("text")),
    "integer": (int, gettext_lazy("a whole number")),
    "boolean": (bool, gettext_lazy("yes or no")),
    "lines": (list, gettext_lazy("a list of texts")),
    "document": (str, gettext_lazy("the text of a document")),
    "choice": (str, gettext_lazy("one of its choices")),
}
MAX_DOCUMENT_BYTES = 10 * 1024 * 1024
MAX_LINES = 500
MAX_LINE_LENGTH = 500


def validated_settings(
    settings: tuple[Setting, ...], values: Mapping[str, Any], stored_values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the validated settings.

    A document is represented by its size and digest: with these, the document in `stored_values` stays.
    """
    if unknown := values.keys() - {setting.name for setting in settings}:
        raise invalid(
            settings=_("There is no setting “{setting}” here.").format(setting=sorted(unknown)[0][:60])
        )
    stated = {name: value for name, value in values.items() if value not in (None, "", [])}
    if missing := [setting for setting in settings if setting.required and setting.name not in stated]:
        raise invalid(settings=_("“{setting}” is required.").format(setting=missing[0].label))
    return {
        s.name: stated[s.name]
        if s.kind == "document" and s.name in stored_values and stated[s.name] == stored_values[s.name]
        else _validated_value(s, stated[s.name])
        for s in settings
        if s.name in stated
    }


def _validated_value(setting: Setting, value: Any) -> Any:
    expected, words = KINDS_OF_SETTING[setting.kind]
    if type(value) is not expected:
        raise invalid(
            settings=_("“{setting}” must be {expected}.").format(setting=setting.label, expected=words)
        )
    if setting.minimum is not None and value < setting.minimum:
        raise invalid(
            settings=_("“{setting}” must be at least {minimum}.").format(
                setting=setting.label, minimum=setting.minimum
            )
        )
    if setting.maximum is not None and value > setting.maximum:
        raise invalid(
            settings=_("“{setting}” must be at most {maximum}.").format(
                setting=setting.label, maximum=setting.maximum
            )
        )
    match setting.kind:
        case "choice":
            if value not in [choice for choice, _unused in setting.choices]:
                choices = ", ".join(choice for choice, _unused in setting.choices if choice)
                raise invalid(
                    settings=_("“{setting}” must be one of: {choices}.").format(
                        setting=setting.label, choices=choices
                    )
                )
        case "lines":
            value = [line.strip() if isinstance(line, str) else "" for line in value]
            if len(value) > MAX_LINES or not all(0 < len(line) <= MAX_LINE_LENGTH for line in value):
                words = _("up to {count} texts of up to {length} characters, none of them empty").format(
                    count=MAX_LINES, length=MAX_LINE_LENGTH
                )
                raise invalid(
                    settings=_("“{setting}” must be {expected}.").format(
                        setting=setting.label, expected=words
                    )
                )
        case "document":
            if "\0" in value or len(value.encode(errors="replace")) > MAX_DOCUMENT_BYTES:
                limit = MAX_DOCUMENT_BYTES // 1024**2
                raise invalid(
                    settings=_("“{setting}” must be a text file of up to {maximum} MB.").format(
                        setting=setting.label, maximum=limit
                    )
                )
    return value
