"""An object schema as rows that a person fills in, and back. What no row can show stays as it was.

A row begins as a member of the object, and writes back only what was changed in it. So whatever a schema
holds comes back to the letter where its row was left alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from core.canonical_json import canonical

Kind = Literal["text", "choice", "whole", "number", "flag", "date", "texts", "other"]
KINDS: dict[Kind, str] = {
    "text": "Text",
    "choice": "One of a list",
    "whole": "Whole number",
    "number": "Number",
    "flag": "Yes or no",
    "date": "Date",
    "texts": "List of texts",
    "other": "Other: see its JSON",
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
    """`default` is as a person writes it; "" for none."""

    name: str
    kind: Kind
    description: str = ""
    is_required: bool = False
    values: tuple[str, ...] = ()
    default: str = ""


class RowError(ValueError):
    """What was typed as a default is none: a sentence."""


def is_in_rows(schema: Any) -> bool:
    """Whether rows can stand for it: an object, in which each member is a schema."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    members, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(members, dict)
        and all(isinstance(each, dict | bool) for each in members.values())
        and isinstance(required, list)
        and all(isinstance(each, str) for each in required)
    )


def rows_of(schema: Mapping[str, Any]) -> list[Row]:
    required = schema.get("required") or ()
    members = (schema.get("properties") or {}).items()
    return [row_of(name, each, is_required=name in required) for name, each in members]


def row_of(name: str, schema: Any, *, is_required: bool = False) -> Row:
    kind = kind_of(schema)
    if not isinstance(schema, dict):
        return Row(name, kind, is_required=is_required)
    said = schema.get("description")
    return Row(
        name,
        kind,
        description=_lines(said) if isinstance(said, str) else "",
        is_required=is_required,
        values=tuple(schema["enum"]) if kind == "choice" else (),
        default=_shown(kind, schema["default"]) if "default" in schema else "",
    )


def kind_of(schema: Any) -> Kind:
    if not isinstance(schema, dict) or any(keyword in schema for keyword in _APART):
        return "other"
    said = schema.get("type")
    if said == "array" and schema.get("items") == {"type": "string"} and "enum" not in schema:
        return "texts"
    kind = _BY_TYPE.get(said, "other") if isinstance(said, str) else "other"
    if "enum" in schema:
        listed = schema["enum"]
        is_plain = isinstance(listed, list) and listed and all(_is_line(each) for each in listed)
        return "choice" if kind == "text" and is_plain else "other"
    return "date" if kind == "text" and schema.get("format") == "date" else kind


def beside(schema: Any) -> dict[str, Any]:
    """What a member says that its row does not show."""
    if not isinstance(schema, dict):
        return {}
    own = {"description", "default", *_MADE[kind_of(schema)], "enum"}
    return {keyword: value for keyword, value in schema.items() if keyword not in own}


def schema_of(row: Row, kept: Any = None) -> Any:
    """The member again: `kept`, with what was changed in its row. Raises RowError."""
    before = row_of(row.name, kept) if kept is not None else None
    if before is None or before.kind != row.kind:
        made, before = dict(_MADE[row.kind]), Row(row.name, row.kind)
    elif isinstance(kept, dict):
        made = dict(kept)
    elif not row.description and not row.default:
        return kept
    else:
        made = {}
    if row.description != before.description:
        _put(made, "description", row.description)
    if row.kind == "choice" and row.values != before.values:
        made["enum"] = list(row.values)
    if row.default != before.default:
        _put(made, "default", read_default(row) if row.default else "")
    return made


def rewritten(schema: Mapping[str, Any], rows: Sequence[tuple[Row, str | None]]) -> dict[str, Any]:
    """The schema with these members, each with the name of the one that it was before. Raises RowError."""
    members = schema.get("properties") or {}
    made = {row.name: schema_of(row, None if was is None else members.get(was)) for row, was in rows}
    listed = schema.get("required") or []
    # Names that no member has are kept: they say something that no row shows.
    wanted = [row.name for row, _ in rows if row.is_required]
    wanted += [name for name in listed if name not in members and name not in made]
    required = listed if set(wanted) == set(listed) else wanted
    written = {**schema, "properties": made, "required": required}
    return {
        keyword: value
        for keyword, value in written.items()
        if keyword in schema or value or keyword not in ("properties", "required")
    }


def read_default(row: Row) -> Any:
    """The value that was typed as a default. Raises RowError with a sentence."""
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
            return _json(text)
    raise RowError(
        {
            "whole": "Give a whole number, such as 10.",
            "number": "Give a number, such as 2.5.",
            "flag": "Write yes or no.",
            "choice": "Give one of the values of the list.",
            "date": "Give a date such as 2027-03-09.",
        }[row.kind]
    )


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise RowError("Give the value as JSON.") from None


def _shown(kind: Kind, value: Any) -> str:
    # "" for what a box could not give back.
    match kind, value:
        case "flag", bool():
            return "yes" if value else "no"
        case (("text" | "choice" | "date"), str()):
            return _lines(value) if _lines(value) == value else ""
        case "texts", list() if value and all(_is_line(each) for each in value):
            return "\n".join(value)
        case (("whole" | "number"), int() | float()) if not isinstance(value, bool):
            return canonical(value).decode()
        case "other", _:
            return canonical(value).decode()
    return ""


def _is_line(value: object) -> bool:
    return isinstance(value, str) and value == value.strip() != "" and len(value.splitlines()) == 1


def _lines(text: str) -> str:
    # As a box gives a text back.
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _put(made: dict[str, Any], keyword: str, value: Any) -> None:
    if value == "":
        made.pop(keyword, None)
    else:
        made[keyword] = value
