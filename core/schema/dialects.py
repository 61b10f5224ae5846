"""The dialects that schemas are written in, and one level of each in the internal form (2020-12).

`normalize_level` is the only place that knows old spellings. A keyword whose value has no meaning in any
dialect is dropped and returned by name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from core.schema import types

Schema = dict[str, Any]
AnySchema = Schema | bool


class Dialect(StrEnum):
    DRAFT_4 = "draft-04"
    DRAFT_6 = "draft-06"
    DRAFT_7 = "draft-07"
    DRAFT_2019 = "2019-09"
    DRAFT_2020 = "2020-12"
    OPENAPI_3_0 = "openapi-3.0"
    # OpenAPI 3.1 and 3.2 have the dialect of 2020-12.
    UNDECLARED = ""


# Here keywords beside a `$ref` have no effect (draft-07 core, 8.3; OpenAPI 3.0.4, Reference Object).
REFERENCE_STANDS_ALONE = frozenset((Dialect.DRAFT_4, Dialect.DRAFT_6, Dialect.DRAFT_7, Dialect.OPENAPI_3_0))
ANNOTATIONS = frozenset(
    (
        "title",
        "description",
        "examples",
        "example",
        "default",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
    )
)
DEFINITIONS = ("$defs", "definitions")
_DIALECT_URI = re.compile(r"https?://json-schema\.org/(?:draft/)?([0-9a-z-]+)/schema#?")
_OPENAPI = re.compile(r"3\.0(?:\.|$)")


def dialect_of(schema: object) -> Dialect:
    """Return the dialect that `$schema` names; UNDECLARED where it names none that is known."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    match = _DIALECT_URI.fullmatch(uri) if isinstance(uri, str) else None
    return Dialect(match[1]) if match and match[1] in list(Dialect) else Dialect.UNDECLARED


def dialect_of_openapi(version: str) -> Dialect:
    """Return the dialect of schemas in an OpenAPI document with this value of `openapi`."""
    return Dialect.OPENAPI_3_0 if _OPENAPI.match(version) else Dialect.DRAFT_2020


def normalize_level(schema: Mapping[str, Any], dialect: Dialect) -> tuple[Schema, list[str]]:
    """Return one level in the internal form, and the keywords that were dropped.

    Schemas below and references stay unchanged. The result shares values with `schema`.
    """
    level = dict(schema)
    if dialect in REFERENCE_STANDS_ALONE and isinstance(level.get("$ref"), str):
        remaining = ANNOTATIONS | {"$ref", *DEFINITIONS}
        level = {keyword: value for keyword, value in level.items() if keyword in remaining}
    modernize_bounds(level)
    modernize_items(level)
    _rewrite_dependencies(level)
    if isinstance(level.get("required"), bool):
        del level["required"]  # the object around it lists the name: `requires_itself`
    dropped = []
    for keyword in list(level):
        reader = _READERS.get(keyword)
        if reader is None:
            continue
        value = reader(level[keyword])
        if value is None:
            del level[keyword]
            dropped.append(keyword)
        else:
            level[keyword] = value
    if level.pop("nullable", False) is True and "type" in level:
        words = types.type_words(level)
        level["type"] = words if "null" in words else [*words, "null"]
    return level, dropped


def requires_itself(schema: object) -> bool:
    """Return whether a property states `required: true`, as in draft 3 and many hand-written schemas."""
    return isinstance(schema, dict) and schema.get("required") is True


def modernize_bounds(level: Schema) -> None:
    """Write `exclusiveMinimum: true` and its counterpart as bounds of their own."""
    # Up to draft 4 and in OpenAPI 3.0, true means that the bound itself does not fit.
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(level.get(exclusive), bool) and level.pop(exclusive) and bound in level:
            level[exclusive] = level.pop(bound)


def modernize_items(level: Schema) -> None:
    """Write a list under `items` as `prefixItems`."""
    # Up to 2019-09, a list under `items` has a schema for each place; `additionalItems` is for the others.
    others = level.pop("additionalItems", None)
    if isinstance(level.get("items"), list):
        level["prefixItems"] = level.pop("items")
        if others is not None:
            level["items"] = others


def _rewrite_dependencies(level: Schema) -> None:
    dependencies = level.pop("dependencies", None)
    if not isinstance(dependencies, dict):
        return
    names = dict(_object(level.get("dependentRequired")))
    schemas = dict(_object(level.get("dependentSchemas")))
    for name, dependency in dependencies.items():
        if isinstance(dependency, str | list):
            also = [dependency] if isinstance(dependency, str) else dependency
            other_names = names.get(name)
            names[name] = [*(other_names if isinstance(other_names, list) else ()), *also]
        elif name in schemas:
            schemas[name] = {"allOf": [schemas[name], dependency]}
        else:
            schemas[name] = dependency
    level |= {"dependentRequired": names} if names else {}
    level |= {"dependentSchemas": schemas} if schemas else {}


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _schema(value: Any) -> Any:
    return value if isinstance(value, dict | bool) else None


def _schemas(value: Any) -> Any:
    is_sound = isinstance(value, list) and value and all(isinstance(entry, dict | bool) for entry in value)
    return value if is_sound else None


def _named_schemas(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    if all(isinstance(member, dict | bool) for member in value.values()):
        return value
    return {name: member for name, member in value.items() if isinstance(member, dict | bool)}


def _names(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _named_names(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return {name: names for name, entry in value.items() if (names := _names(entry)) is not None}


def _types(value: Any) -> Any:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(word in types.WORDS for word in words):
        return None
    return value if isinstance(value, str) else list(dict.fromkeys(words))


def _number(value: Any) -> Any:
    return value if types.is_number(value) else None


def _step(value: Any) -> Any:
    return value if types.is_number(value) and value > 0 else None


def _count(value: Any) -> Any:
    is_whole = types.is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())
    return int(value) if is_whole else None


def _list(value: Any) -> Any:
    return value if isinstance(value, list) else None


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _keywords() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for reader, keywords in (
        (_types, "type"),
        (
            _schema,
            "additionalProperties propertyNames items contains not if then else contentSchema"
            " unevaluatedItems unevaluatedProperties",
        ),
        (_schemas, "allOf anyOf oneOf prefixItems"),
        (_named_schemas, "properties patternProperties dependentSchemas $defs definitions"),
        (_names, "required"),
        (_named_names, "dependentRequired"),
        (_number, "minimum maximum exclusiveMinimum exclusiveMaximum"),
        (_step, "multipleOf"),
        (_count, "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains"),
        (_list, "enum examples"),
        (_text, "title description pattern format contentEncoding contentMediaType $comment"),
        (_flag, "uniqueItems deprecated readOnly writeOnly nullable"),
    ):
        yield from ((keyword, reader) for keyword in keywords.split())


_READERS = dict(_keywords())
