"""The dialects that schemas are written in, and one level of each in the internal form (2020-12).

`normalize_level` is the only place that knows old spellings. A keyword whose value has no meaning in any
dialect is dropped and returned by name.
"""

import re
from collections.abc import Mapping
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
        if keyword not in _KIND_OF:
            continue
        value = _read_value(_KIND_OF[keyword], level[keyword])
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
    names, schemas = (
        dict(value) if isinstance(value := level.get(keyword), dict) else {}
        for keyword in ("dependentRequired", "dependentSchemas")
    )
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


def _read_value(kind: str | tuple[type, ...], value: Any) -> Any:
    """Return the value of a keyword in the internal form; None where it has no meaning."""
    if isinstance(kind, tuple):
        return value if isinstance(value, kind) else None
    match kind, value:
        case "type", str():
            return value if value in types.WORDS else None
        case "type", [*words] if words and all(word in types.WORDS for word in words):
            return list(dict.fromkeys(words))
        case "schemas", [*schemas] if schemas and all(isinstance(schema, _SCHEMA) for schema in schemas):
            return value
        case "named schemas", dict():
            return {name: schema for name, schema in value.items() if isinstance(schema, _SCHEMA)}
        case "names", list():
            return list(dict.fromkeys(name for name in value if isinstance(name, str)))
        case "named names", dict():
            return {
                name: _read_value("names", names) for name, names in value.items() if isinstance(names, list)
            }
        case "count", _ if types.is_number(value) and value >= 0:
            return int(value) if isinstance(value, int) or value.is_integer() else None
        case "number" | "step", _ if types.is_number(value):
            return value if kind == "number" or value > 0 else None
    return None


_SCHEMA = (dict, bool)
_KIND_OF: dict[str, str | tuple[type, ...]] = {
    keyword: kind
    for kind, keywords in (
        ("type", "type"),
        (
            _SCHEMA,
            "additionalProperties propertyNames items contains not if then else contentSchema"
            " unevaluatedItems unevaluatedProperties",
        ),
        ("schemas", "allOf anyOf oneOf prefixItems"),
        ("named schemas", "properties patternProperties dependentSchemas $defs definitions"),
        ("names", "required"),
        ("named names", "dependentRequired"),
        ("number", "minimum maximum exclusiveMinimum exclusiveMaximum"),
        ("step", "multipleOf"),
        (
            "count",
            "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains",
        ),
        ((list,), "enum examples"),
        ((str,), "title description pattern format contentEncoding contentMediaType $comment"),
        ((bool,), "uniqueItems deprecated readOnly writeOnly nullable"),
    )
    for keyword in keywords.split()
}
