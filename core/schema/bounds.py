"""The size and depth that a schema may have before anything walks it."""

from typing import Any

MAX_DEPTH = 64
# A schema is walked many times: to be compared, drawn as a form and counted.
MAX_PARTS = 20_000
# Members of objects and entries of lists, such as the values of an enum or required names.
MAX_ENTRIES = 60_000


class SchemaBoundsError(ValueError):
    """A schema is too deep or too large. `code` is SCHEMA_TOO_DEEP or SCHEMA_TOO_BIG.

    counted: a plural noun for what `limit` bounds.
    """

    def __init__(self, code: str, limit: int, counted: str) -> None:
        super().__init__(code)
        self.code = code
        self.limit = limit
        self.counted = counted


def count_parts(schema: Any) -> int:
    """Return the number of objects and arrays in a schema."""
    waiting, parts = [schema], 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            parts += 1
            children = value.values() if isinstance(value, dict) else value
            waiting += [child for child in children if isinstance(child, dict | list)]
    return parts


def require_bounds(schema: Any) -> None:
    """Raise SchemaBoundsError. Every object and array counts as a part."""
    level: list[Any] = [schema] if isinstance(schema, dict | list) else []
    parts = entries = depth = 0
    while level:
        parts += len(level)
        entries += sum(map(len, level))
        depth += 1
        if depth > MAX_DEPTH:
            raise SchemaBoundsError("SCHEMA_TOO_DEEP", MAX_DEPTH, "levels")
        if parts > MAX_PARTS:
            raise SchemaBoundsError("SCHEMA_TOO_BIG", MAX_PARTS, "parts")
        if entries > MAX_ENTRIES:
            raise SchemaBoundsError("SCHEMA_TOO_BIG", MAX_ENTRIES, "members and list entries")
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
