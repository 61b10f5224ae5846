"""JSON Schemas as Hypothesis draws them, and the published meta-schemas of every draft."""

from typing import Any

from hypothesis import strategies as st
from jsonschema_specifications import REGISTRY

characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
texts = st.text(characters, max_size=12)
names = st.sampled_from(["", " ", "$", "a", "b", "$ref", "type", "x/y", "ü", "due date", "0"]) | texts
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=4,
)
words = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])
kinds = words | st.lists(words, max_size=3) | st.none() | st.just("file")
references = st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#/$defs/none", ""])

plain: dict[str, st.SearchStrategy[Any]] = {
    "type": kinds,
    "title": texts | st.none(),
    "description": texts | st.integers(),
    "default": values,
    "examples": st.lists(values, max_size=2),
    "const": values,
    "enum": st.lists(texts, max_size=4) | st.lists(values, max_size=4),
    "minimum": numbers,
    "maximum": numbers | st.booleans(),
    # A number in 2020-12 and draft-07, a flag in OpenAPI 3.0.
    "exclusiveMinimum": numbers | st.booleans(),
    "multipleOf": st.integers(1, 9),
    "minLength": st.integers(0, 9),
    "maxLength": st.integers(-1, 9) | st.floats(0, 9),
    "pattern": st.sampled_from(["^a+$", "(?=x)", "("]),
    "format": st.sampled_from(["date", "email", "int64", "nonsense"]),
    "$ref": references,
    "$dynamicRef": st.just("#node"),
    "$comment": texts,
    "$id": st.just("https://vendor.example/tool"),
    "$schema": st.sampled_from(
        [
            "https://json-schema.org/draft/2020-12/schema",
            "http://json-schema.org/draft-07/schema#",
            "https://vendor.example/dialect",
        ]
    ),
    "nullable": st.booleans(),
    "discriminator": st.just({"propertyName": "kind"}),
    "xml": st.just({"wrapped": True}),
    "example": values,
    "x-order": st.integers(),
    "deprecated": st.booleans(),
    "readOnly": st.booleans(),
    "minProperties": st.integers(0, 3),
    "uniqueItems": st.booleans(),
}


def _keywords(strategies: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A few keywords at a time."""
    return st.lists(
        st.one_of([st.tuples(st.just(name), strategy) for name, strategy in strategies.items()]), max_size=5
    ).map(dict)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    by_name = st.dictionaries(names, inner, max_size=3)
    several = st.lists(inner, max_size=3)
    nested = {
        "properties": by_name | st.none(),
        "required": st.lists(names, max_size=3) | st.none() | st.booleans() | st.lists(values, max_size=2),
        "items": inner | several,
        "prefixItems": several,
        "additionalProperties": inner,
        "patternProperties": by_name,
        "$defs": by_name,
        "definitions": by_name,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2), max_size=2),
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
    }
    return _keywords(plain | nested)


schemas = st.recursive(st.booleans() | _keywords(plain), _nested, max_leaves=8)
nested = _nested(schemas)
_properties = st.dictionaries(names, schemas, max_size=4)


@st.composite
def objects(draw: Any) -> dict[str, Any]:
    """Object schemas whose required names are its own for the most part, in any order."""
    properties = draw(_properties)
    required = sorted(name for name in properties if draw(st.booleans()))
    if draw(st.booleans()):
        required.reverse()
    own_keywords = {"type": "object", "properties": properties, "required": required}
    return draw(nested) | {name: value for name, value in own_keywords.items() if draw(st.booleans())}


# Without those that are put together from vocabularies in other documents, which are never fetched.
META_SCHEMAS: dict[str, Any] = {
    uri: REGISTRY.contents(uri) for uri in sorted(REGISTRY) if "allOf" not in REGISTRY.contents(uri)
}
