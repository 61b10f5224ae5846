"""Convert an object schema to rows of a form, and back. Rules that no row can show stay unchanged.

A row shows a member of the object, and only its changed fields are written back. So an unchanged row gives
exactly the same schema.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from core.canonical_json import canonical
from core.translatable import mark as _

Kind = Literal["text", "choice", "whole", "number", "flag", "date", "texts", "other"]
KINDS: dict[Kind, str] = {
    "text": _("Text"),
    "choice": _("One of a list"),
    "whole": _("Whole number"),
    "number": _("Number"),
    "flag": _("Yes or no"),
    "date": _("Date"),
    "texts": _("List of texts"),
    "other": _("Other: see its JSON"),
}
_MADE: dict[Kind, dict[str, Any]] = {
    "text": {"type": "string"},
    "choice": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "other": {},
}
_BY_TYPE: dict[Any, Kind] = {"string": "text", "integer": "whole", "number": "number", "boolean": "flag"}
# A schema with one of these is more than one kind of value.
_APART = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "const")
_FLAGS = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the form. default: as a person writes it, "" for none."""

    name: str
    kind: Kind
    description: str = ""
    is_required: bool = False
    values: tuple[str, ...] = ()
    default: str = ""


class RowError(ValueError):
    """The entered default is invalid. The message is a sentence."""


def is_in_rows(schema: Any) -> bool:
    """Return whether rows can show the schema: an object in which each member is a schema."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    members, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(members, dict)
        and all(isinstance(entry, dict | bool) for entry in members.values())
        and isinstance(required, list)
        and all(isinstance(entry, str) for entry in required)
    )


def rows_of(schema: Mapping[str, Any]) -> list[Row]:
    required = schema.get("required") or ()
    members = (schema.get("properties") or {}).items()
    return [row_of(name, member, is_required=name in required) for name, member in members]


def row_of(name: str, schema: Any, *, is_required: bool = False) -> Row:
    kind = kind_of(schema)
    if not isinstance(schema, dict):
        return Row(name, kind, is_required=is_required)
    text = schema.get("description")
    return Row(
        name,
        kind,
        description=_normalize_lines(text) if isinstance(text, str) else "",
        is_required=is_required,
        values=tuple(schema["enum"]) if kind == "choice" else (),
        default=_shown_default(kind, schema["default"]) if "default" in schema else "",
    )


def kind_of(schema: Any) -> Kind:
    if not isinstance(schema, dict) or any(keyword in schema for keyword in _APART):
        return "other"
    type_word = schema.get("type")
    if type_word == "array" and schema.get("items") == {"type": "string"} and "enum" not in schema:
        return "texts"
    kind = _BY_TYPE.get(type_word, "other") if isinstance(type_word, str) else "other"
    if "enum" in schema:
        values = schema["enum"]
        is_plain = isinstance(values, list) and values and all(_is_line(value) for value in values)
        return "choice" if kind == "text" and is_plain else "other"
    return "date" if kind == "text" and schema.get("format") == "date" else kind


def beside(schema: Any) -> dict[str, Any]:
    """Return the keywords of a member that its row does not show."""
    if not isinstance(schema, dict):
        return {}
    shown_keywords = {"description", "default", *_MADE[kind_of(schema)], "enum"}
    return {keyword: value for keyword, value in schema.items() if keyword not in shown_keywords}


def schema_of(row: Row, kept: Any = None) -> Any:
    """Return the schema of a member: `kept`, with the changes of its row. Raises RowError."""
    before = row_of(row.name, kept) if kept is not None else None
    if before is None or before.kind != row.kind:
        new_schema, before = dict(_MADE[row.kind]), Row(row.name, row.kind)
    elif isinstance(kept, dict):
        new_schema = dict(kept)
    elif not row.description and not row.default:
        return kept
    else:
        new_schema = {}
    if row.description != before.description:
        _set_keyword(new_schema, "description", row.description)
    if row.kind == "choice" and row.values != before.values:
        new_schema["enum"] = list(row.values)
    if row.default != before.default:
        _set_keyword(new_schema, "default", read_default(row) if row.default else "")
    return new_schema


def rewritten(schema: Mapping[str, Any], rows: Sequence[tuple[Row, str | None]]) -> dict[str, Any]:
    """Return the schema with these members, each with its former name. Raises RowError."""
    members = schema.get("properties") or {}
    new_members = {row.name: schema_of(row, None if was is None else members.get(was)) for row, was in rows}
    old_required = schema.get("required") or []
    # Required names without a member stay, because no row shows them.
    new_required = [row.name for row, _ in rows if row.is_required]
    new_required += [name for name in old_required if name not in members and name not in new_members]
    required = old_required if set(new_required) == set(old_required) else new_required
    new_schema = {**schema, "properties": new_members, "required": required}
    return {
        keyword: value
        for keyword, value in new_schema.items()
        if keyword in schema or value or keyword not in ("properties", "required")
    }


def read_default(row: Row) -> Any:
    """Return the value of the entered default. Raises RowError."""
    text = row.default.strip()
    match row.kind:
        case "whole" if re.fullmatch(r"-?\d{1,15}", text):
            return int(text)
        case "number" if re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", text):
            return float(text) if "." in text else int(text)
        case "flag" if text.lower() in _FLAGS:
            return _FLAGS[text.lower()]
        case "choice" if text in row.values:
            return text
        case "date" if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return text
        case "text":
            return row.default
        case "texts":
            return text.splitlines()
        case "other":
            try:
                return msgspec.json.decode(text)
            except msgspec.DecodeError:
                raise RowError("Enter the value as JSON.") from None
    raise RowError(
        {
            "whole": "Enter a whole number, such as 10.",
            "number": "Enter a number, such as 2.5.",
            "flag": "Write yes or no.",
            "choice": "Choose one of the values of the list.",
            "date": "Enter a date such as 2027-03-09.",
        }[row.kind]
    )


def _shown_default(kind: Kind, value: Any) -> str:
    # "" for a value that a text box cannot return.
    match kind, value:
        case "flag", bool():
            return "yes" if value else "no"
        case (("text" | "choice" | "date"), str()):
            return _normalize_lines(value) if _normalize_lines(value) == value else ""
        case "texts", list() if value and all(_is_line(line) for line in value):
            return "\n".join(value)
        case (("whole" | "number"), int() | float()) if not isinstance(value, bool):
            return canonical(value).decode()
        case "other", _:
            return canonical(value).decode()
    return ""


def _is_line(value: object) -> bool:
    return isinstance(value, str) and value == value.strip() != "" and len(value.splitlines()) == 1


def _normalize_lines(text: str) -> str:
    # As a browser sends the text of a box.
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _set_keyword(schema: dict[str, Any], keyword: str, value: Any) -> None:
    if value == "":
        schema.pop(keyword, None)
    else:
        schema[keyword] = value
