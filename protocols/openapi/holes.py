"""Holes in the document of an operation: the values that the signature fills in."""

from collections.abc import Mapping, Sequence
from typing import Any

from protocols import parameters as json_schema
from protocols.openapi.cut import Path, cut_of
from protocols.openapi.schema import as_openapi
from protocols.signature import Signature

Source = tuple[str, ...]
OPERATION = ""  # at the start of a path to a hole: the operation itself


def write_document(signature: Signature) -> dict[str, Any]:
    signature_rest = signature.rest or {}
    document: dict[str, Any] = signature_rest["document"]
    start = start_of(document)
    fillings = Fillings(signature, is_dialect=cut_of(document).is_dialect)
    for path, source in signature_rest["holes"]:
        document = fill_hole(document, absolute_path(start, path), fillings.value(tuple(source)))
    return document


class Fillings:
    """The values of a signature that fill holes."""

    def __init__(self, signature: Signature, *, is_dialect: bool) -> None:
        self.signature = signature
        self.is_dialect = is_dialect
        input_schema = json_schema.write_schema(signature.inputs, signature.schema_rest)
        has_outputs = bool(signature.outputs) or signature.outputs_rest is not None
        self.output_schema = (
            json_schema.write_schema(signature.outputs, signature.outputs_rest) if has_outputs else None
        )
        self.inputs: dict[str, Any] = (
            input_schema.get("properties", {}) if isinstance(input_schema, dict) else {}
        )
        self.definitions = {**_definitions(self.output_schema), **_definitions(input_schema)}

    def value(self, source: Source) -> Any:
        """Return the value for a hole. Raises KeyError if the signature has none."""
        match source:
            case ("title",):
                return self.signature.title
            case ("description",):
                return self.signature.description
            case ("tags",):
                return list(self.signature.tags)
            case ("said", name):
                return self.inputs[name]["description"]
            case ("input", name):
                return self._as_openapi(self.inputs[name])
            case ("bare input", name):
                input_schema = self.inputs[name]
                return self._as_openapi(
                    {m: v for m, v in input_schema.items() if m not in ("description", "deprecated")}
                )
            case ("outputs",):
                output_schema = self.output_schema
                return self._as_openapi(
                    {m: v for m, v in output_schema.items() if m != "$defs"}
                    if isinstance(output_schema, dict)
                    else output_schema
                )
            case ("definition", name):
                return self._as_openapi(self.definitions[name])
        raise KeyError(source)

    def _as_openapi(self, schema: Any) -> Any:
        return as_openapi(schema, is_dialect=self.is_dialect)


def _definitions(schema: Any) -> dict[str, Any]:
    definitions = schema.get("$defs") if isinstance(schema, dict) else None
    return definitions if isinstance(definitions, dict) else {}


def start_of(document: Mapping[str, Any]) -> Path:
    ((path, item),) = document["paths"].items()
    return ("paths", path, *item)


def absolute_path(start: Path, path: Sequence[str | int]) -> Path:
    return (*start, *path[1:]) if path[0] == OPERATION else tuple(path)


def empty_hole(value: Any, path: Path) -> Any:
    # A copy without the member at `path`, which shares all other parts with the original.
    step, *below = path
    if not below:
        return {member: inner for member, inner in value.items() if member != step}
    return _replace_step(value, step, empty_hole(value[step], tuple(below)))


def fill_hole(value: Any, path: Path, filling: Any) -> Any:
    step, *below = path
    if not below:
        return {**value, step: filling}
    return _replace_step(value, step, fill_hole(value[step], tuple(below), filling))


def _replace_step(value: Any, step: Any, inner: Any) -> Any:
    if isinstance(value, list):
        return [*value[:step], inner, *value[step + 1 :]]
    return {**value, step: inner}
