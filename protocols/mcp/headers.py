"""Arguments that are repeated as HTTP headers, so that proxies can route by them.

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


def find_problem(schema: Mapping[str, Any]) -> str:
    """Return why a tool with this input schema must not be offered; "" if it may."""
    header_names: set[str] = set()
    for path, marked in _marked_schemas(schema):
        name = marked[MARK]
        if not path:
            return f"“{MARK}” stands where no argument can be found by its name alone."
        where = f"“{MARK}” of “{printable('.'.join(path))}” "
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            return f"{where}is {describe_value(name)}, which cannot be part of the name of a header."
        if marked.get("type") not in _TYPES:
            return f"{where}belongs to a value that is no text, whole number or truth value."
        if name.lower() in header_names:
            return f"{where}is {describe_value(name)}, as that of another argument is."
        header_names.add(name.lower())
    return ""


def header_names_of(schema: Mapping[str, Any]) -> list[str]:
    """Return all headers that a call may have."""
    return [f"Mcp-Param-{marked[MARK]}" for _, marked in _marked_schemas(schema)]


def mirrored_headers(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a call with these arguments."""
    headers = {}
    for path, marked in _marked_schemas(schema):
        value: Any = arguments
        for name in path or ():
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, str | int):
            headers[f"Mcp-Param-{marked[MARK]}"] = encode_value(str(value))
    return headers


def encode_value(value: str) -> str:
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="


def decode_value(value: str) -> str | None:
    """Return the value of a header, which may be encoded as `encode_value` does; None if it is invalid."""
    if not _ENCODED.fullmatch(value):
        return value
    try:
        return base64.b64decode(value[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, UnicodeError):
        return None


def _marked_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[Path | None, Mapping[str, Any]]]:
    """Yield every marked schema with the path of names to its value; None if names alone do not identify
    it.
    """
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
