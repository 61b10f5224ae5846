"""The form fields of a signature's inputs, and the values that they submit."""

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from catalog.templatetags.display import grouped, shown, shown_within
from catalog.templatetags.signatures import MAX_DOCUMENT, limits
from core import strict_json
from core.outbound.errors import ProtocolViolationError
from core.schema import types
from protocols.signature import Parameter

# A longer list has to be scrolled; typing the value is quicker, and the check follows.
MAX_CHOICES = 200
MAX_INPUT_LENGTH = 256 * 1024
# A vendor's description may fill a page; the tool's own page shows all of it.
MAX_HINT_LENGTH = 600
MAX_LINE_LENGTH = 255  # characters of a one-line input
# Bytes on a page: of the label of an input, of its hint, and of the markup of a field and of a
# choice.
MAX_LABEL_BYTES, MAX_HINT_BYTES = 300, 3_000
FIELD_BYTES, CHOICE_BYTES = 500, 40
OMITTED = object()
FORMAT_HINTS = {
    "date": gettext_noop("A date, such as 2027-03-09."),
    "time": gettext_noop("A time, such as 14:30:00Z."),
    "date-time": gettext_noop("A date and time, such as 2027-03-09T14:30:00Z."),
    "duration": gettext_noop("A duration, such as P3DT4H."),
    "email": gettext_noop("An e-mail address."),
    "uri": gettext_noop("An address, such as https://example.com/."),
    "uuid": gettext_noop("A UUID, such as 123e4567-e89b-42d3-a456-426614174000."),
    "byte": gettext_noop("Bytes in Base64."),
}
_NOTES = frozenset({"title", "description", "default", "examples"})
# The keywords of a list, and of a text in it, that a form can express completely.
_LIST_KEYWORDS = _NOTES | {"type", "items", "minItems", "maxItems", "uniqueItems"}
_TEXT_KEYWORDS = _NOTES | {"type", "minLength", "maxLength", "format"}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,400}")


def make_field(parameter: Parameter, initial_arguments: Mapping[str, Any]) -> forms.Field:
    facts: dict[str, Any] = {
        "label": shown_within(parameter.name, MAX_LABEL_BYTES),
        "help_text": shown_within(_build_hint(parameter), MAX_HINT_BYTES),
        "required": False,
    }
    if parameter.type == "boolean" and parameter.required:
        return forms.BooleanField(**facts)
    if parameter.type == "boolean":
        choices = [("", _("Leave it out")), ("true", _("Yes")), ("false", _("No"))]
        return forms.CharField(widget=forms.Select(choices=choices), **facts)
    if (texts := list_of_texts(parameter)) and texts.options:
        choices = [(value, shown(words)) for value, words in texts.options.items()]
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **facts)
    if 0 < len(parameter.allowed_values) <= MAX_CHOICES:
        rows = [
            (value.name, f"{value.name}: {value.description}"[:120] if value.description else value.name)
            for value in parameter.allowed_values
        ]
        # The value of an earlier call remains a choice even if the vendor no longer lists it; the check
        # rejects it with a reason.
        value_before = initial_arguments.get(parameter.name)
        if isinstance(value_before, str) and value_before not in dict(rows):
            rows.append((value_before, value_before))
        rows.insert(0, ("", _("Choose one") if parameter.required else _("Leave it out")))
        return forms.CharField(widget=forms.Select(choices=rows), **facts)
    return forms.CharField(strip=False, max_length=MAX_INPUT_LENGTH, widget=_build_widget(parameter), **facts)


def count_field_bytes(parameter: Parameter, field: forms.Field) -> int:
    """Return about how many bytes the field of an input takes on a page, with the vendor's default."""
    choices: Any = getattr(field, "choices", None) or getattr(field.widget, "choices", ())
    is_listed = isinstance(field, forms.MultipleChoiceField)
    texts = [*(text for choice in choices for text in choice), str(initial_value(parameter, {}) or "")]
    shape_bytes = MAX_DOCUMENT if parameter.type == "json" and not list_of_texts(parameter) else 0
    return (
        FIELD_BYTES
        + 2 * len(str(field.label).encode())
        + len(str(field.help_text).encode())
        + sum(len(html.escape(str(text)).encode()) for text in texts)
        + CHOICE_BYTES * len(choices) * (4 if is_listed else 1)
        + shape_bytes
    )


@dataclass(frozen=True, slots=True)
class _Texts:
    """A list of `least` to `most` texts. `options` maps allowed values to their labels; empty if any text is
    allowed.
    """

    options: Mapping[str, str]
    least: int
    max_count: int | None


def list_of_texts(parameter: Parameter) -> _Texts | None:
    # None for other JSON, and for a list with rules that fields cannot show.
    if parameter.type != "json":
        return None
    schema = _schema_of(parameter)
    if isinstance(forms_of := schema.get("anyOf"), list) and not schema.keys() - {"anyOf"} - _NOTES:
        # Some programs write an optional value as one alternative besides null.
        others = [form for form in forms_of if form != {"type": "null"}]
        schema = others[0] if len(others) == 1 and isinstance(others[0], dict) else schema
    items = schema.get("items")
    is_list = {*types.type_words(schema)} - {"null"} == {"array"}
    if not is_list or not isinstance(items, dict) or not schema.keys() <= _LIST_KEYWORDS:
        return None
    options = _options_of(items)
    is_any = options is None and items.get("type") == "string" and items.keys() <= _TEXT_KEYWORDS
    if not is_any and not 0 < len(options or {}) <= MAX_CHOICES:
        return None
    min_items, max_items = schema.get("minItems"), schema.get("maxItems")
    return _Texts(
        options or {},
        min_items if type(min_items) is int else 0,
        max_items if type(max_items) is int else None,
    )


def _options_of(items: Mapping[str, Any]) -> dict[str, str] | None:
    # None if any text is allowed. A list with an option that is not a text has no options.
    for keyword in ("anyOf", "oneOf"):
        if isinstance(values := items.get(keyword), list):
            pairs = [
                (option.get("const"), option.get("title")) for option in values if isinstance(option, dict)
            ]
            titles = {value: title for value, title in pairs if isinstance(value, str)}
            if len(titles) < len(values):
                return {}
            return {value: title if isinstance(title, str) else value for value, title in titles.items()}
    values = items.get("enum")
    if not isinstance(values, list):
        return None
    return {value: value for value in values} if _are_texts(values) else {}


def _build_widget(parameter: Parameter) -> forms.Widget:
    attributes = {"autocomplete": "off"}
    if parameter.default is not msgspec.UNSET:
        attributes["placeholder"] = _to_words(parameter.default)[:MAX_LINE_LENGTH]
    if list_of_texts(parameter):
        return forms.Textarea(attrs=attributes | {"rows": 3})
    match parameter.type:
        case "int":
            return forms.TextInput(attrs=attributes | {"inputmode": "numeric"})
        case "number":
            return forms.TextInput(attrs=attributes | {"inputmode": "decimal"})
        case "json":
            return forms.Textarea(attrs=attributes | {"rows": 3, "class": "mono", "spellcheck": "false"})
    is_line = (
        _schema_of(parameter).keys() & {"format", "pattern"}
        or (parameter.max_length or MAX_LINE_LENGTH + 1) <= MAX_LINE_LENGTH
    )
    return forms.TextInput(attrs=attributes) if is_line else forms.Textarea(attrs=attributes | {"rows": 1})


def _build_hint(parameter: Parameter) -> str:
    """Return the vendor's description, followed by the form of a value."""
    schema, text = _schema_of(parameter), parameter.description.strip()
    pattern = schema.get("pattern")
    parts = [
        text if len(text) <= MAX_HINT_LENGTH else f"{text[:MAX_HINT_LENGTH]}…",
        _(FORMAT_HINTS.get(str(schema.get("format")), "")),
        _("Must match {pattern}").format(pattern=pattern[:200]) if isinstance(pattern, str) else "",
        _describe_type(parameter),
        _("Default: {value}.").format(value=_to_words(parameter.default)[:MAX_LINE_LENGTH])
        if parameter.default is not msgspec.UNSET and not parameter.required
        else "",
    ]
    return "\n".join(part for part in parts if part)


def _describe_type(parameter: Parameter) -> str:
    if texts := list_of_texts(parameter):
        lines = "" if texts.options else _("One in each line.")
        count = ""
        if texts.max_count is not None and texts.least:
            count = _("{least} to {most} of them.").format(least=texts.least, most=grouped(texts.max_count))
        elif texts.max_count is not None:
            count = _("Up to {most} of them.").format(most=grouped(texts.max_count))
        elif texts.least:
            count = _("At least {least} of them.").format(least=grouped(texts.least))
        return f"{lines} {count}".strip()
    bounds = limits(parameter)
    match parameter.type:
        case "int":
            whole_number = _("A whole number, {bounds}.") if bounds else _("A whole number.")
            return whole_number.format(bounds=bounds)
        case "number":
            number = _("A number, {bounds}.") if bounds else _("A number.")
            return number.format(bounds=bounds)
        case "json":
            return _('JSON, such as {"a": 1}, ["b"] or "text".')
    if len(parameter.allowed_values) > MAX_CHOICES:
        first = ", ".join(value.name for value in parameter.allowed_values[:5])
        return _("One of {count} values, such as {examples}.").format(
            count=grouped(len(parameter.allowed_values)), examples=first[:MAX_LINE_LENGTH]
        )
    return f"{bounds[:1].upper()}{bounds[1:]}." if bounds else ""


def _schema_of(parameter: Parameter) -> Mapping[str, Any]:
    return parameter.schema if isinstance(parameter.schema, dict) else {}


def initial_value(parameter: Parameter, initial_arguments: Mapping[str, Any]) -> Any:
    # A required input starts with the vendor's default.
    value = initial_arguments.get(parameter.name, parameter.default if parameter.required else msgspec.UNSET)
    if value is msgspec.UNSET or value is None:
        return None
    if parameter.type == "boolean" and isinstance(value, bool):
        return value if parameter.required else str(value).lower()
    if (texts := list_of_texts(parameter)) and _are_texts(value):
        return value if texts.options else "\n".join(value)
    return json.dumps(value, ensure_ascii=False) if parameter.type == "json" else _to_text(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _to_words(value: Any) -> str:
    return ", ".join(value) if _are_texts(value) and value else _to_text(value)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def submitted_value(parameter: Parameter, entered_value: Any) -> Any:
    # Converts what was entered to the input's type. A value that cannot be converted stays a text, and the
    # check rejects it.
    if isinstance(entered_value, bool):
        return entered_value
    if isinstance(entered_value, list):
        return entered_value or OMITTED
    if not entered_value.strip():
        return OMITTED
    if list_of_texts(parameter):
        return [line for line in entered_value.replace("\r\n", "\n").split("\n") if line.strip()]
    match parameter.type:
        case "boolean":
            return {"true": True, "false": False}.get(entered_value, entered_value)
        case "int" | "number":
            entered_text = entered_value.strip()
            if _WHOLE_NUMBER.fullmatch(entered_text):
                return int(entered_text)
            try:
                value = strict_json.loads(entered_text.encode())
            except ProtocolViolationError:
                return entered_text
            return value if isinstance(value, int | float) and not isinstance(value, bool) else entered_text
        case "json":
            return strict_json.loads(entered_value.encode(errors="surrogatepass"))
    return entered_value.replace("\r\n", "\n")


def simulate_submission(field: forms.Field, initial: Any) -> Any:
    """Return the value as a browser would submit it."""
    if initial is None or isinstance(initial, bool):
        return "" if initial is None else initial
    if isinstance(field, forms.MultipleChoiceField):
        choices: Any = field.choices
        return [value for value, _ in choices if isinstance(initial, list) and value in initial]
    # A one-line field drops line breaks, and a text area submits them as CR LF.
    lines = re.split(r"\r\n|\r|\n", str(initial))
    if isinstance(field.widget, forms.TextInput):
        return "".join(lines)
    text = "\r\n".join(lines)
    return text.strip() if isinstance(field.widget, forms.Select) else text
