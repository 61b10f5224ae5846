"""The export formats, and checks of a document against the rules of their targets (tests/fixtures/exports).

`x-tools` of such a file points to the tools in a document and, within a tool, to its name, its inputs and its
outputs, as JSON Pointers. Inputs and outputs are JSON Schemas, or arrays of parameters with names; a tool may
be without inputs. `beside` are properties of a tool's inputs that are none.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec

from designer import exports
from designer.exports.base import Format

RULES = Path(__file__).parents[2] / "fixtures/exports"
FORMATS = {format_.name: format_ for format_ in exports.FORMATS}
OF_TOOLS = [format_ for format_ in exports.FORMATS if format_.limits.of == "tools"]
TARGETS = {
    name: json.loads(path.read_text()) for name in FORMATS if (path := RULES / f"{name}.schema.json").exists()
}
PROVED = list(TARGETS)
VALIDATORS = {
    name: jsonschema_rs.validator_for(rules, validate_formats=True) for name, rules in TARGETS.items()
}
# These take the whole of JSON Schema; the others have tests of their own.
SCHEMA_FORMATS = [
    name
    for name in PROVED
    if "schemas" in (limits := FORMATS[name].limits).carries and not limits.contract.refuses_references
]
REFUSING = [name for name in SCHEMA_FORMATS if FORMATS[name].limits.contract.keywords_at_top()]
NO_INPUTS = {"type": "object", "properties": {}}


class Listed(NamedTuple):
    """A tool as a document lists it."""

    name: str
    inputs: Any
    outputs: Any


def tools_in_format(format_: str, document: Any) -> Iterator[Listed]:
    places = TARGETS[format_]["x-tools"]
    for tool in pointed(document, places["at"]):
        outputs = pointed(tool, places["outputs"]) if "outputs" in places else None
        inputs = pointed(tool, places["inputs"]) or NO_INPUTS
        if member_names := set(places.get("beside", ())):
            own_properties = {
                name: property_schema
                for name, property_schema in inputs["properties"].items()
                if name not in member_names
            }
            inputs = inputs | {"properties": own_properties}
        yield Listed(pointed(tool, places["name"]), inputs, outputs)


def raw_tools(body: bytes, format_: Format) -> list[bytes]:
    """Return the tools of an export as its bytes contain them, found without the code that shows them."""
    assert format_.places is not None
    for step in format_.places.tools:
        body = bytes(msgspec.json.decode(body, type=dict[str, msgspec.Raw])[step])
    return [bytes(tool) for tool in msgspec.json.decode(body, type=list[msgspec.Raw])]


def pointed(document: Any, pointer: str) -> Any:
    """None for a member that is not there."""
    for member in pointer.split("/")[1:]:
        document = document.get(member) if document else None
    return document


def names(parameters: Any) -> list[str]:
    """Return the names of a schema's properties, or of parameters.

    Two parameters of one name take one value.
    """
    if isinstance(parameters, list):
        return list(dict.fromkeys(parameter["name"] for parameter in parameters))
    return list((parameters or {}).get("properties", {}))
