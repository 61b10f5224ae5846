"""The parts of a value that its schema names, for pickers. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from core.schema import AnySchema, SchemaBoundsError, SchemaDocument, pointers, read_document, read_object
from protocols import parameters
from protocols.signature import Parameter

# Deeper or further parts are typed by hand, so that the list stays one to choose from.
MAX_DEPTH = 4
MAX_MEMBERS = 30


def members(parameter: Parameter, root: Mapping[str, Any] | None = None) -> list[str]:
    """Return JSON Pointers to the parts that the schema names; index 0 addresses any item of a list.

    root: keywords of the whole object's schema beside its properties, such as `$defs`.
    """
    try:
        document = read_document(parameters.write_schema((parameter,), root))
    except SchemaBoundsError:
        return []
    schema = document.root
    if not parameter.is_whole:
        container = read_object(document, schema)
        if container is None or parameter.name not in container.members:
            return []
        schema = container.members[parameter.name].schema
    pointers_below = _members_below(document, schema, "", MAX_DEPTH)
    return [pointer for pointer, _ in zip(pointers_below, range(MAX_MEMBERS), strict=False)]


def _members_below(document: SchemaDocument, schema: AnySchema, pointer: str, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    described = read_object(document, schema)
    inside = [
        (pointer + pointers.join([name]), member.schema)
        for name, member in (described.members if described else {}).items()
    ]
    items = document.level(schema).schema.get("items")
    if isinstance(items, dict):
        inside.append((f"{pointer}/0", items))
    yield from (below for below, _ in inside)
    for below, child in inside:
        yield from _members_below(document, child, below, depth - 1)
