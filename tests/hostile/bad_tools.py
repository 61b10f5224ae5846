"""Forty and more ways in which one tool of a list is bad, for each protocol, with the code of each."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.hostile.dialects import Dialect, Document, altered


class Bad(NamedTuple):
    name: str
    code: str
    spoil: Callable[[Dialect, Document], Document]


Path = tuple[str | int, ...]
LONG = "x" * 32_769
NO_TEXT = (7, 1.5, True, [], {"a": 1})
NO_NAMES = ("", "  ", "n" * 1_025, "n" * 6_000, 7, 1.5, True, None, [], {"a": 1})
NO_VERSIONS = (-1, 1.5, True, [1], {"a": 1}, "x" * 10_000)
NO_SCHEMAS = (7, 1.5, "", "object", [], [1])
ELSEWHERE = ("http://127.0.0.66/a.json", "file:///etc/passwd", "//127.0.0.66/a", "other.json#/a")


def _deep(levels: int) -> Document:
    schema: Document = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _with(**keywords: Any) -> Document:
    return {"type": "object", "properties": {"city": keywords}}


SCHEMAS: tuple[tuple[str, Any], ...] = (
    *(("REMOTE_REF", _with(**{"$ref": where})) for where in ELSEWHERE),
    ("REMOTE_REF", _with(**{"$dynamicRef": ELSEWHERE[0]})),
    ("REMOTE_REF", _with(**{"$ref": "a"}) | {"$id": ELSEWHERE[0]}),
    ("SCHEMA_TOO_BIG", {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2_000)}}),
    ("SCHEMA_TOO_DEEP", _deep(70)),
    ("TEXT_TOO_LONG", _with(description=LONG)),
    ("TEXT_TOO_LONG", _with(title=LONG)),
)
# By protocol and code: a path in a tool, and the value that replaces the one there.
PLACES: dict[str, dict[str, dict[Path, tuple[Any, ...]]]] = {
    "a2t": {
        "BAD_NAME": {("name",): NO_NAMES},
        "BAD_VERSION": {("version",): NO_VERSIONS},
        "TEXT_TOO_LONG": {("description",): (LONG,), ("img",): (LONG,)},
        "SHAPE": {
            ("description",): NO_TEXT,
            ("img",): (7, []),
            ("tags",): (True, {"a": 1}),
            ("tags", 0): (None, 7),
            ("input_parameters",): (7, "", {"a": 1}),
            ("input_parameters", 0): (None, 7, ""),
            ("input_parameters", 0, "id"): (True, 1.5),
            ("input_parameters", 0, "name"): (None, 7, ""),
            ("input_parameters", 0, "type"): (True, 7, ""),
            ("input_parameters", 0, "required"): (7, ""),
            ("output_parameters",): (7, ""),
        },
    },
    "oxp": {
        "BAD_NAME": {("name",): NO_NAMES},
        "BAD_VERSION": {("version",): NO_VERSIONS},
        "TEXT_TOO_LONG": {("description",): (LONG,)},
        "SHAPE": {("description",): NO_TEXT},
        "BAD_SCHEMA": {("input_schema",): NO_SCHEMAS, ("output_schema",): NO_SCHEMAS},
    },
    "mcp": {
        "TEXT_TOO_LONG": {("description",): (LONG,), ("title",): (LONG,)},
        "SHAPE": {("description",): NO_TEXT, ("title",): NO_TEXT},
        "BAD_SCHEMA": {
            ("inputSchema",): (*NO_SCHEMAS, None, True, {"type": "array"}, {"type": "string"}),
            ("inputSchema", "type"): (7, "what", None, []),
            ("outputSchema",): (7, 1.5, "object", [1]),
        },
    },
    "acp": {
        "BAD_NAME": {("metadata", "ref", "name"): NO_NAMES},
        "BAD_VERSION": {("metadata", "ref", "version"): NO_VERSIONS},
        "TEXT_TOO_LONG": {("metadata", "description"): (LONG,)},
        "SHAPE": {("metadata", "description"): NO_TEXT},
        "BAD_SCHEMA": {("specs", "input"): NO_SCHEMAS, ("specs", "output"): NO_SCHEMAS},
    },
    "openapi": {
        "TEXT_TOO_LONG": {("description",): (LONG,), ("summary",): (LONG,)},
        "REMOTE_REF": {
            ("parameters",): ([{"$ref": ELSEWHERE[0]}], [{"$ref": ELSEWHERE[1]}]),
            ("requestBody",): tuple({"$ref": where} for where in ELSEWHERE),
        },
        "SHAPE": {
            ("description",): NO_TEXT,
            ("summary",): NO_TEXT,
            ("tags",): (7, "a", [7], ["x" * 40_000]),
            ("parameters",): (
                *(7, "a", {"a": 1}, [7], [{}], [{"name": 7, "in": "query"}], [{"name": "a"}]),
                [{"name": "a", "in": "moon"}],
            ),
        },
    },
}


def _placed(path: Path, value: Any) -> Callable[[Dialect, Document], Document]:
    def spoil(dialect: Dialect, tool: Document) -> Document:
        holder = tool = altered(tool)
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = altered(value)
        return tool

    return spoil


def bad_ones(dialect: Dialect) -> Iterator[Bad]:
    for code, places in PLACES[dialect.name].items():
        for path, values in places.items():
            for value in values:
                where = ".".join(map(str, path))
                yield Bad(f"{where} is {str(value)[:40]!r}", code, _placed(path, value))
    if dialect.name != "a2t":  # which has no schemas
        for code, schema in SCHEMAS:
            yield Bad(str(schema)[:60], code, lambda dialect, tool, it=schema: dialect.taking(tool, it))
