"""Finds what a target refuses of a tool, by the rules of its contract. Pure."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from core.content_cache import ContentCache
from core.schema import loops, regex_dialects, spelling, subschemas, validation
from designer.exports.contracts import Contract, Rule, Subset

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class BrokenRule(NamedTuple):
    """A rule that a schema breaks. `what` follows the tool's name in a sentence."""

    rule: Rule
    what: str


def broken_rules(schema: Mapping[str, Any], contract: Contract) -> list[BrokenRule]:
    """Return what the target refuses of an input or output schema, each rule once."""
    text = msgspec.json.encode(schema)
    return [
        BrokenRule(rule, what)
        for rule in contract.rules
        if rule.refuses in _FINDERS and (what := _find_breach(schema, text, rule))
    ]


# Formats share most of their rules, and a schema is checked before and after it is rewritten.
_breaches: ContentCache[str] = ContentCache()


def _find_breach(schema: Mapping[str, Any], text: bytes, rule: Rule) -> str:
    """Return how the schema breaks the rule, "" where it does not. `text` is the schema as JSON."""
    marks = _MARKS.get(rule.refuses)
    if marks and not any(mark in text for mark in marks):
        return ""
    key = hashlib.sha256(hashlib.sha256(text).digest() + repr(criteria_of(rule)).encode()).digest()
    return _breaches.get(key, lambda: next(_FINDERS[rule.refuses](schema, rule), ""))


def is_broken(schema: Mapping[str, Any], rule: Rule) -> bool:
    """Return whether a schema breaks a rule."""
    return bool(_find_breach(schema, msgspec.json.encode(schema), rule))


def criteria_of(rule: Rule) -> tuple[object, ...]:
    """Return all that decides whether a schema breaks the rule."""
    return (rule.refuses, sorted(rule.keywords), rule.pattern, rule.dialects)


def broken_name(name: str, contract: Contract) -> Rule | None:
    """Return the rule about names of tools that `name` breaks."""
    rule = contract.rule("tool_name")
    return rule if rule and not re.fullmatch(rule.pattern, name) else None


def unreadable_patterns(schema: Mapping[str, Any], rule: Rule) -> frozenset[str]:
    """Return the regular expressions of a schema that do not compile in each dialect of the rule."""
    patterns = (pattern for level in subschemas.walk(schema) for _, pattern in spelling.patterns_of(level))
    return regex_dialects.unreadable_patterns(patterns, rule.dialects)


def fault_of_schema(schema: Mapping[str, Any]) -> validation.Fault | None:
    """Return the first place where a schema breaks the meta-schema of draft 2020-12."""
    return validation.schema_fault({**schema, "$schema": DIALECT})


def why_too_large(schema: Mapping[str, Any], subset: Subset) -> str:
    """Return which size limit a strict schema exceeds, as the end of a sentence about the tool; "" if
    none."""
    schemas = list(subschemas.walk(schema))
    names = [name for level in schemas for name in spelling.properties_of(level)]
    enums = [[value for value in level["enum"] if value is not None] for level in schemas if "enum" in level]
    texts = [[value for value in enum if isinstance(value, str)] for enum in enums]
    value_limit, character_limit = subset.long_enum_values, subset.long_enum_characters
    if len(names) > subset.properties:
        return f"has {len(names):,} properties in its inputs, of {subset.properties:,} at most"
    if (levels := spelling.count_object_levels(schema)) > subset.levels:
        return f"has inputs that are nested {levels} levels deep, of {subset.levels} at most"
    if (values := sum(map(len, enums))) > subset.enum_values:
        return f"lists {values:,} allowed values, of {subset.enum_values:,} at most"
    if any(len(enum) > value_limit and sum(map(len, enum)) > character_limit for enum in texts):
        return (
            f"lists more than {value_limit} allowed values with over {character_limit:,} characters together"
        )
    if sum(map(len, names)) + sum(len(text) for enum in texts for text in enum) > subset.characters:
        return f"has names and allowed values of over {subset.characters:,} characters together"
    return ""


Finder = Callable[[Mapping[str, Any], Rule], Iterator[str]]


def _build_finder(find: Callable[[Any], Iterable[object]], breach: str) -> Finder:
    """Return a finder that states the breach if `find` returns anything for the schema."""
    return lambda schema, rule: (breach for _ in islice(find(schema), 1))


def _finder_at_any_level(breaks: Callable[[Any], bool], breach: str) -> Finder:
    return _build_finder(lambda schema: filter(breaks, subschemas.walk(schema)), breach)


def _keywords_at_top(schema: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    for keyword in sorted(rule.keywords & schema.keys()):
        yield f"has “{keyword}” at the top of its inputs"


def _undeclared_required(schema: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    for level in subschemas.walk(schema):
        for name in spelling.undeclared_required(level):
            yield f"requires “{name}”, which is not among the properties of its object"


def _regular_expressions(schema: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    unreadable = unreadable_patterns(schema, rule)
    if not unreadable:
        return
    for level in subschemas.walk(schema):
        for _, pattern in spelling.patterns_of(level):
            if pattern in unreadable:
                yield f"has a regular expression that cannot be read (“{pattern[:60]}”)"


def _invalid_schema(schema: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    if fault := fault_of_schema(schema):
        yield f"has a schema that breaks the rules of JSON Schema at “{'.'.join(map(str, fault.path))}”"


def _names_at_top(schema: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    for name in spelling.properties_of(schema):
        if not re.fullmatch(rule.pattern, name):
            yield f"has an input “{name[:60]}”, whose name is not accepted"


# Of each rule, the words without which no schema breaks it, as JSON writes them: most schemas need no walk.
_REFERENCES = tuple(msgspec.json.encode(keyword) for keyword in subschemas.REFERENCES)
_MARKS: dict[str, tuple[bytes, ...]] = {
    "reference": _REFERENCES,
    "reference_to_nothing": _REFERENCES,
    "endless_reference": _REFERENCES,
    "required_recursion": _REFERENCES,
    "keywords_beside_reference": _REFERENCES,
    "array_without_items": (b'"array"',),
    "undeclared_required": (b'"required"',),
    "regular_expression": (b'"pattern"', b'"patternProperties"'),
}
_FINDERS: dict[str, Finder] = {
    "keyword_at_top": _keywords_at_top,
    "reference": _build_finder(subschemas.references, "has references in its schema"),
    "reference_to_nothing": _build_finder(loops.dangling_references, "has a reference that leads to nothing"),
    "endless_reference": _build_finder(
        loops.endless_references, "has a reference that leads back to itself and to nothing else"
    ),
    "required_recursion": _build_finder(
        loops.required_recursions, "has a schema that holds itself without an optional property between"
    ),
    "keywords_beside_reference": _finder_at_any_level(
        spelling.has_keywords_beside_reference, "has keywords beside a reference"
    ),
    "array_without_items": _finder_at_any_level(
        spelling.is_array_without_items, "has an array that does not say what it holds (items)"
    ),
    "undeclared_required": _undeclared_required,
    "regular_expression": _regular_expressions,
    "invalid_schema": _invalid_schema,
    "property_name_at_top": _names_at_top,
}
