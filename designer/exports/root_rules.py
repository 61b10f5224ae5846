"""Rules beside the properties of an input schema, for targets that refuse them at the top.

What says the same without them is written so: an `allOf` of plain objects is one object. Where one is left,
`dialects.inputs` puts the whole schema below one property, where any rule may stand.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from core.schema import subschemas
from designer.signatures import model_names

# Of OpenAI's and Anthropic's refusals, and what they have in common: no union, no condition, no bare value.
REFUSED = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const"})
_PLAIN = {"type", "properties", "required", "$comment"}


def flattened(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An equal schema with fewer rules at the top; the rules that cannot go stay."""
    flat = dict(schema)
    if "if" not in flat or not flat.keys() & {"then", "else"}:
        for keyword in ("if", "then", "else"):
            flat.pop(keyword, None)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = _that_all_hold(keyword, flat.get(keyword))
        together = {name: value for name, value in flat.items() if name != keyword}
        for part in parts or ():
            merged = _merged(together, _led(part, schema))
            if merged is None:
                break
            together = merged
        else:
            flat = together if parts is not None else flat
    return flat


def _that_all_hold(keyword: str, parts: object) -> list[Any] | None:
    # The parts if every one of them must hold; None if there is a choice.
    if not isinstance(parts, list) or not parts:
        return None
    if keyword == "allOf" or len(parts) == 1:
        return parts
    return [] if keyword == "anyOf" and any(part is True or part == {} for part in parts) else None


def _led(part: Any, schema: Mapping[str, Any]) -> Any:
    # What a bare reference within the schema leads to.
    seen: set[str] = set()
    while isinstance(part, dict) and part.keys() == {"$ref"} and part["$ref"] not in seen:
        seen.add(str(part["$ref"]))
        try:
            part = subschemas.pointed(schema, str(part["$ref"]))
        except LookupError:
            break
    return part


def _merged(schema: dict[str, Any], part: Any) -> dict[str, Any] | None:
    # Both in one; None where that would not say the same.
    if part is True or part == {}:
        return schema
    if not isinstance(part, dict) or part.keys() - _PLAIN or part.get("type", "object") != "object":
        return None
    mine, theirs = schema.get("properties", {}), part.get("properties", {})
    required = [schema.get("required", []), part.get("required", [])]
    if not all(isinstance(each, dict) for each in (mine, theirs)):
        return None
    if not all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in required):
        return None
    # A closed object would not know the names that come in; and a model may be shown legal ones alone.
    if not theirs.keys() <= mine.keys() and (
        schema.get("additionalProperties", True) not in (True, {})
        or not all(model_names.is_property(name) for name in theirs)
    ):
        return None
    merged = {**schema, "type": "object", "properties": mine | dict(_joined(mine, theirs))}
    wanted = list(dict.fromkeys([*required[0], *required[1]]))
    return merged | ({"required": wanted} if wanted else {})


def _joined(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, schema in theirs.items():
        # Not every client takes true and false for schemas.
        each = {} if schema is True else {"not": {}} if schema is False else schema
        yield name, each if mine.get(name, each) == each else {"allOf": [mine[name], each]}
