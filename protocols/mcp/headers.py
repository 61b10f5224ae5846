"""Arguments that a tool wants repeated as HTTP headers, so that proxies can route by them.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports (`x-mcp-header`)
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.outbound.errors import printable
from core.schema import subschemas
from core.value_descriptions import describe_value

MARK = "x-mcp-header"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_PLAIN = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TYPES = ("string", "integer", "boolean")

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
    """Yield every marked schema, with the names that lead to its value; None where names alone do not."""
    waiting: list[tuple[Path | None, Any]] = [((), schema)]
    while waiting:
        path, subschema = waiting.pop()
        if isinstance(subschema, Mapping) and MARK in subschema:
            yield path, subschema
        for keyword, name, child in subschemas.children(subschema):
            below = None
            if keyword == "properties" and path is not None and name is not None:
                below = (*path, name)
            waiting.append((below, child))
