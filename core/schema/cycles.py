"""The search for references that lead back to a schema that is still being followed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from core.schema.dialects import Schema

# Returns the schemas that a schema contains or refers to, each with whether it is the target of a reference.
Paths = Callable[[Schema], Iterator[tuple[bool, Any]]]


@dataclass(slots=True)
class _OpenSchema:
    """A schema on the path of the search.

    holder: the schema whose reference led to it; None where it is inside the one before.
    """

    schema: Schema
    paths: Iterator[tuple[bool, Any]]
    holder: Schema | None


def closing_references(starts: Iterable[Schema], paths_of: Paths) -> Iterator[Schema]:
    """Yield the schemas whose reference closes a cycle, each once. Without these references there is none.

    The search is depth first and without recursion. A caller may remove a reference that was yielded.
    """
    finished: set[int] = set()
    closing: set[int] = set()
    for start in starts:
        if id(start) in finished:
            continue
        open_schemas = {id(start): _OpenSchema(start, paths_of(start), None)}
        while open_schemas:
            current = next(reversed(open_schemas.values()))
            is_reference, child = next(current.paths, (False, None))
            if child is None:
                finished.add(id(open_schemas.popitem()[1].schema))
            elif (
                not isinstance(child, dict)
                or id(child) in finished
                or (is_reference and id(current.schema) in closing)
            ):
                continue
            elif id(child) not in open_schemas:
                holder = current.schema if is_reference else None
                open_schemas[id(child)] = _OpenSchema(child, paths_of(child), holder)
            else:
                holder = current.schema if is_reference else None
                # Close schemas up to the target of the last reference: it closes the cycle.
                while holder is None:
                    holder = open_schemas.popitem()[1].holder
                closing.add(id(holder))
                yield holder
