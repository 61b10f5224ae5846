"""Schemas that a vendor may send to cost time or memory. Each is within the bounds that listing accepts."""

from typing import Any

TEXT = {"type": "string"}


def _chain(count: int, write: Any, end: Any = TEXT, **members: Any) -> dict[str, Any]:
    """Return an object with one input that refers to the first of `count` definitions. `write` receives a
    reference to the next one."""
    definitions = {f"d{n}": write({"$ref": f"#/$defs/d{n + 1}"}) for n in range(count)}
    return {
        "type": "object",
        "$defs": definitions | {f"d{count}": end},
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "required": ["x"],
        **members,
    }


def _input(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def _shared(schema: Any) -> dict[str, Any]:
    """Return an object with 900 inputs that are one definition."""
    return {
        "type": "object",
        "$defs": {"Shared": schema},
        "properties": {f"p{n}": {"$ref": "#/$defs/Shared"} for n in range(900)},
        "required": [f"p{n}" for n in range(900)],
    }


def _tree(depth: int, write: Any) -> Any:
    return TEXT if depth == 0 else write(_tree(depth - 1, write), _tree(depth - 1, write))


def _objects(count: int, prefix: str) -> list[dict[str, Any]]:
    return [
        {"properties": {f"{prefix}{n}": {"const": n}}, "required": [f"{prefix}{n}"]} for n in range(count)
    ]


def _patterns(count: int, pattern: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"p{n}": TEXT | {"pattern": pattern % n} for n in range(count)},
        "required": [f"p{n}" for n in range(count)],
    }


CASES: dict[str, dict[str, Any]] = {
    "many parts": {
        "type": "object",
        "allOf": [{"properties": {f"p{n}": TEXT}} for n in range(3000)],
    },
    "a wide allOf": {
        "type": "object",
        "allOf": [{"properties": {f"p{n}": TEXT}} for n in range(6000)],
    },
    "many bounds of one text": _input({"allOf": [TEXT | {"minLength": n} for n in range(3000)]}),
    "parts of different types": _input(
        {"allOf": [{"type": "string" if n % 2 else "integer"} for n in range(3000)]}
    ),
    "two references in members": _chain(
        30,
        lambda next_one: {
            "type": "object", "properties": {"a": next_one, "b": next_one}, "required": ["a", "b"]
        },
    ),
    "two references in allOf": _chain(25, lambda next_one: {"allOf": [next_one, next_one]}),
    "two references in anyOf": _chain(
        25, lambda next_one: {"anyOf": [next_one, next_one]}, end=TEXT | {"pattern": "^z{9}$"}
    ),
    "two references in oneOf": _chain(25, lambda next_one: {"oneOf": [next_one, next_one]}),
    "two references in a condition": _chain(
        25, lambda next_one: {"if": next_one, "then": next_one, "else": next_one}
    ),
    "two references in dependentSchemas": _chain(
        25,
        lambda next_one: {"type": "object", "dependentSchemas": {"a": next_one, "b": next_one}},
        end={"type": "object", "required": ["a", "b"]},
    ),
    "two references in items": _chain(
        25, lambda next_one: {"type": "array", "minItems": 2, "prefixItems": [next_one, next_one]}
    ),
    "two references with texts": _chain(
        25, lambda next_one: {"allOf": [next_one | {"title": "x"}, next_one | {"description": "y"}]}
    ),
    "a long chain of references": _chain(3000, lambda next_one: next_one),
    "a long chain of allOf": _chain(3000, lambda next_one: {"allOf": [next_one], "minLength": 1}),
    "a chain of dependentSchemas": {
        "type": "object",
        "properties": {f"p{n}": TEXT for n in range(900)},
        "required": ["p0"],
        "dependentSchemas": {
            f"p{n}": {"required": [f"p{n + 1}"], "properties": {f"q{n}": TEXT}} for n in range(900)
        },
    },
    "a tree of conditions": _input(
        _tree(11, lambda one, other: {"if": {"minLength": 3}, "then": one, "else": other})
    ),
    "a tree of alternatives": _input(_tree(12, lambda one, other: {"anyOf": [one, other]})),
    "a tree of objects": _input(
        _tree(
            11,
            lambda one, other: {
                "type": "object", "properties": {"l": one, "r": other}, "required": ["l", "r"]
            },
        )
    ),
    "products of alternatives": {
        "type": "object",
        "allOf": [{"oneOf": _objects(30, f"k{n}_")} for n in range(60)],
    },
    "products of alternatives in a member": _input(
        {"type": "object", "allOf": [{"anyOf": _objects(10, f"k{n}_")} for n in range(200)]}
    ),
    "many alternatives": _input({"anyOf": _objects(3000, "k")}),
    "many exclusive alternatives": _input({"oneOf": [*_objects(3000, "k"), TEXT]}),
    "many alternatives at the top": {"type": "object", "oneOf": _objects(3000, "k")},
    "patterns that explode": _patterns(200, r"^(a+)+$(?=b){%d}"),
    "large patterns": _patterns(200, "^([a-z]{1,500}){1,1%02d}x$"),
    "large Unicode patterns": _patterns(200, r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]{0,25%d}$"),
    "middle-sized Unicode patterns": _patterns(900, r"^\p{L}{1,8}%d$"),
    "patterns of names": _input(
        {
            "type": "object",
            "patternProperties": {f"^(a|b|ab)*{n}$": {"type": "integer"} for n in range(2000)},
            "minProperties": 3,
            "additionalProperties": False,
        }
    ),
    "large patterns of names": {
        "type": "object",
        "allOf": [
            {"patternProperties": {rf"^[\p{{L}}\p{{N}}]{{1,20}}{n}$": {"minLength": n}}} for n in range(300)
        ],
        "properties": {f"p{n}": TEXT for n in range(300)},
        "additionalProperties": False,
    },
    "names and patterns": {
        "type": "object",
        "allOf": [
            {"properties": {f"p{n}": TEXT for n in range(500)}, "additionalProperties": False},
            {"patternProperties": {f"^p[0-9]*{n}$": {"minLength": 1} for n in range(500)}},
        ],
    },
    "names that match nothing": {
        "type": "object",
        "propertyNames": {"allOf": [{"pattern": f"^[a-z]{{{n},}}x$"} for n in range(1, 500)]},
        "minProperties": 50,
    },
    "many exclusions": _input({"not": {"anyOf": [TEXT | {"pattern": f"a{n}"} for n in range(2000)]}}),
    "different entries": _input(
        {
            "type": "array",
            "minItems": 10000,
            "uniqueItems": True,
            "items": {"type": "object", "properties": {"k": {"type": "integer"}}},
        }
    ),
    "entries that contain": _input(
        {
            "type": "array",
            "minItems": 2000,
            "minContains": 2000,
            "contains": {"allOf": [{"required": [f"m{n}"]} for n in range(300)]},
        }
    ),
    "long texts": {
        "type": "object",
        "properties": {f"a{n}": TEXT | {"minLength": 19000} for n in range(300)},
        "required": [f"a{n}" for n in range(300)],
    },
    "long descriptions": {
        "type": "object",
        "properties": {f"a{n}": {"description": "word " * 200} for n in range(900)},
        "anyOf": [{"required": [f"a{n}"]} for n in range(900)],
    },
    "many values": _input({"enum": [f"v{n}" for n in range(50000)]}),
    "many values in two lists": _input(
        {"allOf": [{"enum": [f"v{n}" for n in numbers]} for numbers in (range(20000), range(9000, 30000))]}
    ),
    "many values and a pattern": _input({"enum": [f"v{n}" for n in range(50000)], "pattern": "^w"}),
    "a shared list of values": _shared({"type": "string", "enum": [f"value {n}" for n in range(9000)]}),
    "a shared list of values in entries": _shared(
        {"type": "array", "items": {"enum": [f"value {n}" for n in range(40000)]}}
    ),
    "shared texts": _shared(
        {
            "type": "object",
            "description": "long " * 5000,
            "properties": {f"m{n}": TEXT | {"description": "word " * 400} for n in range(100)},
        }
    ),
    "shared members": _shared(
        {
            "type": "object",
            "properties": {f"m{n}": TEXT for n in range(900)},
            "required": [f"m{n}" for n in range(900)],
        }
    ),
    "large values": _input({"enum": [{"a": [n] * 3} for n in range(6000)], "not": {"required": ["a"]}}),
    "large examples": _input({"type": "object", "examples": [{"a": [n] * 3} for n in range(6000)]}),
    "huge numbers": {
        "type": "object",
        "properties": {
            keyword: {"type": kind, keyword: sign * 10**400}
            for kind, keyword, sign in (
                ("integer", "minimum", -1),
                ("integer", "maximum", 1),
                ("number", "exclusiveMaximum", 1),
                ("string", "minLength", 1),
                ("array", "minItems", 1),
                ("integer", "multipleOf", 1),
                ("integer", "default", 1),
            )
        },
    },
    "dynamic references": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {f"p{n}": {"$dynamicRef": "#node"} for n in range(900)},
        "anyOf": [{"$dynamicRef": "#node"}, {"required": ["p1"]}],
    },
    "anchors": {
        "type": "object",
        "$defs": {f"d{n}": {"$anchor": f"a{n}", "allOf": [{"$ref": f"#a{n + 1}"}] * 2} for n in range(900)}
        | {"end": {"$anchor": "a900", "type": "string"}},
        "properties": {"x": {"$ref": "#a0"}, "y": {"$ref": "#a450"}},
        "required": ["x"],
    },
    "identifiers": {
        "type": "object",
        "$defs": {
            f"d{n}": {"$id": f"https://example.com/{n}", "items": {"$ref": f"{(n + 1) % 2000}"}}
            for n in range(2000)
        },
        "properties": {"x": {"$ref": "https://example.com/0"}},
    },
    "a cycle through all": _chain(
        1500, lambda next_one: {"allOf": [next_one, {"$ref": "#/$defs/d0"}]}, end={"$ref": "#/$defs/d0"}
    ),
    "trees of themselves": {
        "type": "object",
        "$defs": {
            f"d{n}": {"type": "object", "properties": {f"p{m}": {"$ref": f"#/$defs/d{m}"} for m in range(25)}}
            for n in range(25)
        },
        "properties": {"x": {"$ref": "#/$defs/d0"}},
    },
    "unevaluated members": {
        "type": "object",
        "allOf": [
            {"properties": {f"p{n}": TEXT}, "unevaluatedProperties": False, "anyOf": _objects(3, "z")}
            for n in range(800)
        ],
    },
    "old keywords": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            f"p{n}": {"type": "array", "items": [TEXT, {"minimum": 1, "exclusiveMinimum": True}]}
            for n in range(900)
        },
        "dependencies": {f"p{n}": {"required": [f"p{n + 1}"]} for n in range(900)},
    },
    "faults everywhere": {
        "type": "object",
        "properties": {f"p{n}": {"type": "strnig", "minLength": -1, "required": 3} for n in range(900)},
        "anyOf": [{"required": [f"p{n}"], "minProperties": "x"} for n in range(900)],
    },
}  # fmt: skip
