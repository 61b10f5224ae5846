"""Arguments that a tool wants repeated as HTTP headers, so that proxies can route by them.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports (`x-mcp-header`)
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.outbound.errors import printable
from core.value_descriptions import describe_value

MARK = "x-mcp-header"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_PLAIN = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TYPES = ("string", "integer", "boolean")

# Where a schema holds other schemas. Anything else in it is data, and may look like a schema by chance.
_ONE = {
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames",
    "then", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
_MANY = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_NAMED = {"$defs", "definitions", "dependentSchemas", "patternProperties"}

Path = tuple[str, ...]


def problem(schema: Mapping[str, Any]) -> str:
    """Why a tool with this input schema must not be offered, or nothing."""
    seen: set[str] = set()
    for path, marked in _marked(schema):
        name = marked[MARK]
        if not path:
            return f"“{MARK}” stands where no argument can be found by its name alone."
        where = f"“{MARK}” of “{printable('.'.join(path))}” "
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            return f"{where}is {describe_value(name)}, which cannot be part of the name of a header."
        if marked.get("type") not in _TYPES:
            return f"{where}belongs to a value that is no text, whole number or truth value."
        if name.lower() in seen:
            return f"{where}is {describe_value(name)}, as that of another argument is."
        seen.add(name.lower())
    return ""


def names(schema: Mapping[str, Any]) -> list[str]:
    """All headers that may go with a call."""
    return [f"Mcp-Param-{marked[MARK]}" for _, marked in _marked(schema)]


def mirrored(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that go with a call."""
    found = {}
    for path, marked in _marked(schema):
        value: Any = arguments
        for name in path or ():
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, str | int):
            found[f"Mcp-Param-{marked[MARK]}"] = safe(str(value))
    return found


def safe(value: str) -> str:
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="


def plain(value: str) -> str | None:
    """What a header says, which may be written as `safe` writes it; None for what cannot be read."""
    if not _ENCODED.fullmatch(value):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, UnicodeError):
        return None


def _marked(schema: Mapping[str, Any]) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    # Every marked schema, with the names that lead to its value; None where names alone do not.
    left: list[tuple[Path | None, object]] = [((), schema)]
    while left:
        path, each = left.pop()
        if isinstance(each, Mapping):
            if MARK in each:
                yield path, each
            for keyword, value in each.items():
                left.extend(_inside(path, keyword, value))


def _inside(path: Path | None, keyword: str, value: object) -> Iterator[tuple[Path | None, object]]:
    if keyword == "properties" and isinstance(value, Mapping):
        yield from ((None if path is None else (*path, name), each) for name, each in value.items())
    elif keyword in _NAMED and isinstance(value, Mapping):
        yield from ((None, each) for each in value.values())
    elif keyword in _MANY and isinstance(value, list):
        yield from ((None, each) for each in value)
    elif keyword in _ONE:
        yield None, value
