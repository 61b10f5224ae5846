"""Rules beside the properties of an input schema, for targets that refuse them at the top.

What says the same without them is written so: an `allOf` of plain objects is one object, and so is an object
with a reference beside it. Where one is left, `inputs.write` puts the whole schema below one property, where
any rule may stand.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from core.schema import pointers, subschemas
from designer.signatures import model_names

# Of references that lead to each other.
MAX_STEPS = 16
_WORDS = ("title", "description", "$comment", "examples", "deprecated", "default")
# Rules about the members of an object that mean the same one level up, beside other properties.
_MOVABLE = {
    *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
    *("dependentRequired", "dependentSchemas", "dependencies", "additionalProperties"),
}
_PLAIN = {"type", "properties", "required", "$comment"}
_OF_A_TARGET = {*_PLAIN, *_MOVABLE, *_WORDS, *subschemas.DEFINITIONS}


def with_target_at_top(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an equal schema in which the members that the top refers to stand at the top; where they cannot,
    the reference is one part of an `allOf`."""
    if not isinstance(schema.get("$ref"), str):
        return schema
    part = {"$ref": schema["$ref"]}
    beside = {name: value for name, value in schema.items() if name != "$ref"}
    merged = _merged(beside, _resolved(part, schema, 0), _OF_A_TARGET)
    parts = beside.get("allOf", [])
    if merged is not None or not isinstance(parts, list):
        return schema if merged is None else merged
    return {**beside, "allOf": [part, *parts]}


def flattened(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an equal schema with fewer rules at the top; the rules that cannot go stay."""
    flat = dict(schema)
    if "if" not in flat or not flat.keys() & {"then", "else"}:
        for keyword in ("if", "then", "else"):
            flat.pop(keyword, None)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = _that_all_hold(keyword, flat.get(keyword))
        together = {name: value for name, value in flat.items() if name != keyword}
        for part in parts or ():
            merged = _merged(together, _target(part, schema), _PLAIN)
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


def _target(part: Any, document: Mapping[str, Any]) -> Any:
    # What a bare reference within the schema leads to.
    seen: set[str] = set()
    while isinstance(part, dict) and part.keys() == {"$ref"} and str(part["$ref"]) not in seen:
        seen.add(str(part["$ref"]))
        try:
            part = pointers.resolve_reference(document, str(part["$ref"]))
        except LookupError:
            break
    return part


def _resolved(part: Any, document: Mapping[str, Any], steps: int) -> Any:
    """Return the object that a part stands for: its references followed and its own parts merged."""
    part = _target(part, document)
    if not isinstance(part, dict) or not part.keys() & {"$ref", "allOf"} or steps > MAX_STEPS:
        return part
    together = {name: value for name, value in part.items() if name not in ("$ref", "allOf")}
    parts = part.get("allOf", [])
    inside = [
        *([{"$ref": part["$ref"]}] if "$ref" in part else []),
        *(parts if isinstance(parts, list) else []),
    ]
    for each in inside:
        merged = _merged(together, _resolved(each, document, steps + 1), _OF_A_TARGET)
        if merged is None:
            return part
        together = merged
    return together


def _merged(schema: dict[str, Any], part: Any, taken: Collection[str]) -> dict[str, Any] | None:
    """Return both in one schema, None where that would not say the same or the part has other keywords than
    those that are taken."""
    if part is True or part == {}:
        return schema
    if not isinstance(part, dict) or part.keys() - set(taken) or part.get("type", "object") != "object":
        return None
    mine, theirs = schema.get("properties", {}), part.get("properties", {})
    required = [schema.get("required", []), part.get("required", [])]
    if not all(isinstance(each, dict) for each in (mine, theirs)):
        return None
    if not all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in required):
        return None
    # A closed object would not know the names that come in; and a model may be shown legal ones alone.
    closes = schema.get("additionalProperties", True) not in (True, {})
    if not theirs.keys() <= mine.keys() and (
        closes or not all(model_names.is_property(name) for name in theirs)
    ):
        return None
    rules = {keyword: part[keyword] for keyword in part.keys() & _MOVABLE}
    # What a part says of all other names, it says of the properties that stand outside it as well.
    if "additionalProperties" in rules and (
        not mine.keys() <= theirs.keys() or "patternProperties" in schema
    ):
        return None
    if any(schema.get(keyword, value) != value for keyword, value in rules.items()):
        return None
    if closes and rules.keys() - {"additionalProperties"}:
        return None
    words = {word: part[word] for word in _WORDS if word in part and word not in schema}
    merged = {**schema, "type": "object", "properties": mine | dict(_joined(mine, theirs)), **rules, **words}
    wanted = list(dict.fromkeys([*required[0], *required[1]]))
    return merged | ({"required": wanted} if wanted else {})


def _joined(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, schema in theirs.items():
        # Not every client takes true and false for schemas.
        each = {} if schema is True else {"not": {}} if schema is False else schema
        own = mine.get(name, each)
        yield name, own if each in (own, {}) else {"allOf": [own, each]}
