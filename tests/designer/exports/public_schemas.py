"""JSON Schemas that an installed package ships: the resources of many versions of Kubernetes."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core.schema import subschemas

PREFIX = "/api/_definitions.json#/$defs/"
# A schema with more definitions is refused when it is read, as one that is too large.
MAX_DEFINITIONS = 40


def public_schemas(*, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield at most `count` schemas of objects, each with its name, spread evenly over all there are."""
    names = list(_named_schemas())
    for path, name in names[:: max(len(names) // count, 1)][:count]:
        definitions = _definitions(path)
        needed = _needed(definitions, name)
        if len(needed) <= MAX_DEFINITIONS:
            schema = subschemas.mapped(definitions[name], _led_inside)
            inside = {name: subschemas.mapped(definitions[name], _led_inside) for name in needed}
            yield f"{path.parent.name}/{name}", {**schema, "$defs": inside}


def _named_schemas() -> Iterator[tuple[Path, str]]:
    spec = find_spec("kubernetes_validate")
    assert spec
    assert spec.origin
    for path in sorted(Path(spec.origin).parent.glob("kubernetes-json-schema/*/_definitions.json")):
        for name, schema in sorted(_definitions(path).items()):
            if "properties" in schema:
                yield path, name


_schemas_read: dict[Path, dict[str, Any]] = {}


def _definitions(path: Path) -> dict[str, Any]:
    if path not in _schemas_read:
        _schemas_read.clear()
        _schemas_read[path] = json.loads(path.read_text())["$defs"]
    return _schemas_read[path]


def _needed(definitions: dict[str, Any], name: str) -> list[str]:
    needed, waiting = set(), [name]
    while waiting and len(needed) <= MAX_DEFINITIONS:
        for reference in subschemas.references(definitions[waiting.pop()]):
            needed_name = reference.removeprefix(PREFIX).removeprefix("#/$defs/")
            if needed_name in definitions and needed_name not in needed:
                needed.add(needed_name)
                waiting.append(needed_name)
    return sorted(needed)


def _led_inside(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    name = reference.removeprefix(PREFIX).removeprefix("#/$defs/")
    return {**schema, "$ref": f"#/$defs/{name}"}
