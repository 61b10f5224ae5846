"""Schemas of each draft as Hypothesis draws them, valid in that draft, and small values to judge."""

from typing import Any

import jsonschema_rs
from hypothesis import strategies as st

NAMES = ["a", "b", "ab"]
VALIDATORS = {
    "draft-04": jsonschema_rs.Draft4Validator,
    "draft-06": jsonschema_rs.Draft6Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "2020-12": jsonschema_rs.Draft202012Validator,
}
DRAFTS = list(VALIDATORS)
URIS = {
    draft: f"http://json-schema.org/{draft}/schema#"
    if draft.startswith("draft")
    else f"https://json-schema.org/draft/{draft}/schema"
    for draft in DRAFTS
}

# In draft 4, 1.0 is no integer; here it is one in every draft, so such numbers are not drawn.
numbers = st.integers(-3, 6) | st.sampled_from([0.5, 2.5])
scalars = st.none() | st.booleans() | numbers | st.sampled_from(["", "a", "ab", "bb"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)
small = st.integers(0, 3)
words = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])
patterns = st.sampled_from(["a", "^b", "^a.*$"])


def _choose(rules: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(st.sampled_from(sorted(rules)), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: rules[name] for name in chosen})
    )


def schemas(draft: str, references: list[str] | None = None, leaves: int = 8) -> st.SearchStrategy[Any]:
    """Schemas of the draft without a root, identifiers or definitions."""
    age = DRAFTS.index(draft)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "type": words | st.lists(words, min_size=1, max_size=3, unique=True),
        "enum": st.lists(scalars, min_size=1, max_size=4, unique_by=repr),
        "minimum": numbers,
        "maximum": numbers,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
        "minLength": small,
        "maxLength": small,
        "pattern": patterns,
        "minItems": small,
        "maxItems": small,
        "uniqueItems": st.booleans(),
        "minProperties": small,
        "maxProperties": small,
        "title": st.just("T"),
    }
    if age:
        plain |= {"const": scalars, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers}
        plain["required"] = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
    else:
        plain["required"] = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
    if references:
        plain["$ref"] = st.sampled_from(references)

    def nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(inner, min_size=1, max_size=3)
        named_members = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
        names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
        rules = plain | {
            "properties": named_members,
            "patternProperties": st.dictionaries(patterns, inner, max_size=2),
            "additionalProperties": inner | st.just(False),
            "items": inner,
            "allOf": lists,
            "anyOf": lists,
            "oneOf": lists,
            "not": inner,
        }
        if age:
            rules |= {"contains": inner, "propertyNames": inner}
        if age >= DRAFTS.index("draft-07"):
            rules |= {"if": inner, "then": inner, "else": inner}
        if draft == "2020-12":
            rules |= {"prefixItems": lists}
        else:
            rules |= {"items": inner | lists, "additionalItems": inner | st.just(False)}
            rules |= {"dependencies": st.dictionaries(st.sampled_from(NAMES), inner | names, max_size=2)}
        if age >= DRAFTS.index("2019-09"):
            rules |= {
                "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
                "dependentSchemas": named_members,
                "unevaluatedProperties": inner | st.just(False),
                "unevaluatedItems": inner | st.just(False),
                "minContains": small,
                "maxContains": small,
            }
        bounded = _choose(rules)
        if not age:
            flags = st.fixed_dictionaries({"minimum": numbers, "exclusiveMinimum": st.booleans()})
            return bounded | flags
        return bounded | st.booleans()

    return st.recursive(_choose(plain), nest, max_leaves=leaves)
