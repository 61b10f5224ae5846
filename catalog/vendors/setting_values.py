"""Validation of the settings of an endpoint by the declarations of its protocol. Pure."""

from collections.abc import Mapping
from typing import Any

from core.errors import invalid
from protocols.base import Setting

KINDS_OF_SETTING: dict[str, tuple[Any, str]] = {
    "text": (str, "text"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "yes or no"),
    "lines": (list, "a list of texts"),
    "document": (str, "the text of a document"),
    "choice": (str, "one of its choices"),
}
MAX_DOCUMENT_BYTES = 10 * 1024 * 1024
MAX_LINES = 500
MAX_LINE_LENGTH = 500


def checked(known: tuple[Setting, ...], given: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated settings. A document is represented by its size and digest, which mean the
    `kept` one."""
    if unknown := given.keys() - {setting.name for setting in known}:
        raise invalid(settings=f"There is no setting “{sorted(unknown)[0][:60]}” here.")
    stated = {name: value for name, value in given.items() if value not in (None, "", [])}
    if missing := [setting for setting in known if setting.required and setting.name not in stated]:
        raise invalid(settings=f"“{missing[0].label}” is needed.")
    return {
        s.name: stated[s.name]
        if s.kind == "document" and s.name in kept and stated[s.name] == kept[s.name]
        else _checked(s, stated[s.name])
        for s in known
        if s.name in stated
    }


def _checked(setting: Setting, value: Any) -> Any:
    expected, words = KINDS_OF_SETTING[setting.kind]
    if type(value) is not expected:
        raise invalid(settings=f"“{setting.label}” takes {words}.")
    if setting.minimum is not None and value < setting.minimum:
        raise invalid(settings=f"“{setting.label}” takes a number from {setting.minimum} up.")
    if setting.maximum is not None and value > setting.maximum:
        raise invalid(settings=f"“{setting.label}” takes a number up to {setting.maximum}.")
    match setting.kind:
        case "choice":
            if value not in [choice for choice, _ in setting.choices]:
                choices = ", ".join(choice for choice, _ in setting.choices if choice)
                raise invalid(settings=f"“{setting.label}” takes one of: {choices}.")
        case "lines":
            value = [line.strip() if isinstance(line, str) else "" for line in value]
            if len(value) > MAX_LINES or not all(0 < len(line) <= MAX_LINE_LENGTH for line in value):
                limits = f"up to {MAX_LINES} texts of up to {MAX_LINE_LENGTH} characters, none of them empty"
                raise invalid(settings=f"“{setting.label}” takes {limits}.")
        case "document":
            if "\0" in value or len(value.encode(errors="replace")) > MAX_DOCUMENT_BYTES:
                limit = MAX_DOCUMENT_BYTES // 1024**2
                raise invalid(settings=f"“{setting.label}” takes a text file of up to {limit} MB.")
    return value
