"""A JSON Schema in the strict subset of OpenAI's structured outputs, and what it loses on the way.

Every object is closed and requires each of its properties; one that may be left out takes null in place.
What may hold anything has no strict form: it is left out where that may be, else the whole has none either.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.schema import subschemas

Path = tuple[str, ...]

_NUMBERS = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_KEPT = {
    "string": ("pattern", "format"),
    "number": _NUMBERS,
    "integer": _NUMBERS,
    "array": ("minItems", "maxItems"),
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_LOOKAROUND = re.compile(r"\(\?(?:[=!]|<[=!])")
# What says something of values; the rest are words about a schema.
_RULES = frozenset(
    (
        *("minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems"),
        *("additionalItems", "unevaluatedItems", "patternProperties", "propertyNames", "minProperties"),
        *("maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "not", "if", "anyOf"),
        *("oneOf", "pattern", "format", "minItems", "maxItems", *_NUMBERS),
    )
)
_WORDS = ("title", "description", "default", "examples", "deprecated", "$comment")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How large a schema may be. An enum of more values than the first of `long_enum` may have as many
    characters as the second says."""

    properties: int
    levels: int
    characters: int
    enum_values: int
    long_enum: tuple[int, int]


class Form(NamedTuple):
    """`rules` and `left_out` are lost. Without a `schema`, `stuck` leads to what has no strict form."""

    schema: dict[str, Any] | None
    rules: frozenset[str]
    left_out: tuple[Path, ...]
    is_widened: bool
    stuck: Path


def form(schema: dict[str, Any]) -> Form:
    """Of an object that holds no reference."""
    writer = _Writer()
    written = writer.write(schema, ())
    return Form(written, frozenset(writer.rules), tuple(writer.left_out), writer.is_widened, writer.stuck)


class _Writer:
    def __init__(self) -> None:
        self.rules: set[str] = set()
        self.left_out: list[Path] = []
        self.is_widened = False
        self.stuck: Path = ()

    def write(self, schema: Any, path: Path) -> dict[str, Any] | None:
        if not isinstance(schema, dict):
            return None
        schema = self._without_all_of(schema)
        words = {word: schema[word] for word in ("title", "description") if isinstance(schema.get(word), str)}
        if "const" in schema or "enum" in schema:
            listed = _listed(schema)
            return None if listed is None else listed | words
        if (choices := _choices(schema)) is not None:
            return self._one_of(choices, words, path)
        kept: dict[str, Any] = {}
        types, said = _types(schema), _types(schema)
        if "object" in types:
            inside = self._object(schema, path)
            kept, types = (inside, types) if inside else ({}, [each for each in types if each != "object"])
        if "array" in types:
            items = self.write(schema.get("items"), (*path, "[]"))
            kept |= {"items": items} if items else {}
            types = types if items else [each for each in types if each != "array"]
        types = list(dict.fromkeys(types))  # vendors write a type twice
        if not types or (types == ["null"] and said != types):
            return None
        self.rules |= {"type"} if types != said else set()
        for each in types:
            kept |= {word: schema[word] for word in _KEPT.get(each, ()) if _is_known(word, schema.get(word))}
        self.rules |= {word for word in schema if word in _RULES and word not in kept}
        # An input's own default is not lost: null says that it is not given, and then the default counts.
        if len(path) > 1 and "default" in schema:
            self.rules.add("default")
        return {"type": types[0] if len(types) == 1 else types, **words, **kept}

    def _one_of(self, choices: list[Any], words: dict[str, Any], path: Path) -> dict[str, Any] | None:
        forms = [each for choice in choices if (each := self.write(choice, path)) is not None]
        if len(forms) < len(choices):
            self.rules.add("anyOf")
        if not any(each != {"type": "null"} for each in forms):
            return None
        return {"anyOf": forms, **words}

    def _object(self, schema: dict[str, Any], path: Path) -> dict[str, Any] | None:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            return None
        closing = [
            schema[word] for word in ("additionalProperties", "unevaluatedProperties") if word in schema
        ]
        # Any object at all, but for a tool's own: that one takes nothing.
        # The strict form would close it, and then nothing at all would fit.
        if path and not properties and False not in closing:
            return None
        self.rules |= {"additionalProperties"} if any(each is not False for each in closing) else set()
        written: dict[str, Any] = {}
        for name in dict.fromkeys([*properties, *(each for each in required if isinstance(each, str))]):
            inside = self.write(properties.get(name), (*path, name))
            # A model that cannot give it could make no call that the vendor takes.
            if inside is None and name in required:
                if self.stuck[: len(path) + 1] != (*path, name):
                    self.stuck = (*path, name)
                return None
            if inside is None:
                self.left_out.append((*path, name))
                continue
            self.is_widened = self.is_widened or name not in required
            written[name] = inside if name in required else _or_null(inside)
        return {"properties": written, "required": list(written), "additionalProperties": False}

    def _without_all_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        parts = schema.get("allOf")
        # The target refuses the keyword, so what all parts say is put into one.
        joined = {word: value for word, value in schema.items() if word != "allOf"}
        for part in parts if isinstance(parts, list) else ():
            both = _joined(joined, self._without_all_of(part)) if isinstance(part, dict) else None
            if both is None and part is not True:
                self.rules.add("allOf")
            joined = both or joined
        return joined


def _listed(schema: dict[str, Any]) -> dict[str, Any] | None:
    # A constant is a list of one value, which the target takes.
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(values, list) or not values or any(type(each) not in _TYPES for each in values):
        return None
    types = list(dict.fromkeys(_TYPES[type(each)] for each in values))
    return {"type": types[0] if len(types) == 1 else types, "enum": values}


def _choices(schema: dict[str, Any]) -> list[Any] | None:
    # None where what stands beside the choices says enough without them.
    choices = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(choices, list) or not choices or schema.keys() & {"properties", "items"}:
        return None
    beside = {"type": schema["type"]} if "type" in schema else {}
    return [beside | each if isinstance(each, dict) else each for each in choices]


def _types(schema: dict[str, Any]) -> list[str]:
    said = schema.get("type")
    if isinstance(said, str | list):
        listed = [said] if isinstance(said, str) else said
        known = {*_TYPES.values(), "object", "array"}
        return [each for each in listed if isinstance(each, str) and each in known]
    return ["object"] if "properties" in schema else ["array"] if "items" in schema else []


def _is_known(keyword: str, value: Any) -> bool:
    match keyword:
        case "format":
            return isinstance(value, str) and value in _FORMATS
        case "pattern":
            return isinstance(value, str) and not _LOOKAROUND.search(value)
    # In draft 4 an exclusive bound is true or false.
    return isinstance(value, int | float) and not isinstance(value, bool)


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    # None where no one schema says what both do.
    joined = {**other, **one}
    for word in one.keys() & other.keys():
        mine, theirs = one[word], other[word]
        if word == "required" and isinstance(mine, list) and isinstance(theirs, list):
            joined[word] = [*mine, *(each for each in theirs if each not in mine)]
        elif word == "properties" and isinstance(mine, dict) and isinstance(theirs, dict):
            if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
                return None
            joined[word] = mine | theirs
        elif word not in _WORDS and mine != theirs:
            return None
    return joined


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    # Null is one more choice: there is no type beside choices to add it to.
    if "anyOf" in schema:
        null = {"type": "null"}
        return schema if null in schema["anyOf"] else schema | {"anyOf": [*schema["anyOf"], null]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    widened = schema if "null" in types else schema | {"type": [*types, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        widened = widened | {"enum": [*schema["enum"], None]}
    return widened


def why_too_large(schema: dict[str, Any], sizes: Sizes) -> str:
    """Which of the sizes a strict schema exceeds: what follows its tool's name in a sentence."""
    each = subschemas.every(schema)
    names = [name for one in each for name in one.get("properties", {})]
    enums = [[value for value in one["enum"] if value is not None] for one in each if "enum" in one]
    texts = [[value for value in enum if isinstance(value, str)] for enum in enums]
    many, longest = sizes.long_enum
    if len(names) > sizes.properties:
        return f"has {len(names):,} properties in its inputs, of {sizes.properties:,} at most"
    if (levels := _levels(schema)) > sizes.levels:
        return f"has inputs that are nested {levels} levels deep, of {sizes.levels} at most"
    if (values := sum(map(len, enums))) > sizes.enum_values:
        return f"lists {values:,} allowed values, of {sizes.enum_values:,} at most"
    if any(len(enum) > many and sum(map(len, enum)) > longest for enum in texts):
        return f"lists more than {many} allowed values with over {longest:,} characters together"
    if sum(map(len, names)) + sum(len(text) for enum in texts for text in enum) > sizes.characters:
        return f"has names and allowed values of over {sizes.characters:,} characters together"
    return ""


def _levels(schema: Mapping[str, Any]) -> int:
    items = [schema["items"]] if "items" in schema else []
    inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *items]
    return max(map(_levels, inside), default=0) + ("properties" in schema)
