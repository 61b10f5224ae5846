"""The parts of a value that its schema names, for pickers. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
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
    return [pointer for _, pointer in members_of_all((parameter,), root)]


def members_of_all(
    all_parameters: Sequence[Parameter], root: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter with each of its `members`. Their schema is read once."""
    try:
        document = read_document(parameters.write_schema(all_parameters, root))
    except SchemaBoundsError:
        return
    container = read_object(document, document.root)
    for parameter in all_parameters:
        member = container.members.get(parameter.name) if container else None
        if parameter.is_whole or member:
            schema = document.root if parameter.is_whole or member is None else member.schema
            pointers_below = _members_below(document, schema, "", MAX_DEPTH)
            yield from ((parameter.name, pointer) for pointer in islice(pointers_below, MAX_MEMBERS))


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
