"""A JSON Schema without what a target refuses. Pure.

A keyword with an equivalent is replaced, and nothing is lost. Any other is left out, so that the schema
accepts more than the vendor's; its name is returned.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from core.schema import loops, subschemas
from designer.exports import inlining, judge
from designer.exports.contracts import Contract, Refusal, Rule

# Keywords that a rule may be about, as JSON writes them.
_MARKS = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"', b'"pattern', b'"exclusive', b'"items":[')
# The meta-schema names one fault at a time.
MAX_FAULTS = 50


class Rewritten(NamedTuple):
    """keywords: those that were left out. is_cut: a reference was replaced by a schema of anything."""

    schema: dict[str, Any]
    keywords: frozenset[str] = frozenset()
    is_cut: bool = False


def rewrite(schema: dict[str, Any], contract: Contract) -> Rewritten:
    """Return `schema` itself if the target refuses nothing, else a copy with as few changes as possible."""
    broken = {
        breach.rule.refuses
        for breach in judge.broken_rules(schema, contract)
        if breach.rule.effect in ("rewritten", "left_out")
    }
    if not broken & _REWRITERS.keys():
        return Rewritten(schema)
    editor = _Editor(copy.deepcopy(schema))
    for refuses, rewriter in _REWRITERS.items():
        # One repair may uncover the next fault: a copied target has references of its own.
        rule = contract.rule(refuses)
        if rule is not None and rule.effect in ("rewritten", "left_out"):
            rewriter(editor, rule)
    return Rewritten(editor.schema, frozenset(editor.keywords), editor.is_cut)


def may_be_rewritten(schema: object) -> bool:
    """Return whether some target may refuse a part of `schema`. This is a quick test."""
    if not isinstance(schema, dict):
        return False
    text = msgspec.json.encode(schema)
    return any(mark in text for mark in _MARKS) or judge.fault_of_schema(schema) is not None


class _Editor:
    """A private copy that is changed in place, and what it has lost."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.keywords: set[str] = set()
        self.is_cut = False

    def cut(self, schema: dict[str, Any]) -> None:
        for keyword in subschemas.REFERENCES:
            schema.pop(keyword, None)
        self.is_cut = True

    def leave_out(self, schema: dict[str, Any], keyword: str) -> None:
        schema.pop(keyword, None)
        self.keywords.add(keyword)


def _cut_dangling_references(editor: _Editor, rule: Rule) -> None:
    for schema in loops.dangling_references(editor.schema):
        editor.cut(schema)


def _cut_endless_references(editor: _Editor, rule: Rule) -> None:
    for schema in loops.endless_references(editor.schema):
        editor.cut(schema)


def _cut_required_recursions(editor: _Editor, rule: Rule) -> None:
    for schema in loops.required_recursions(editor.schema):
        editor.cut(schema)


def _replace_references_with_keywords(editor: _Editor, rule: Rule) -> None:
    """Replace a reference that has keywords beside it by its target.

    A target that contains itself keeps its reference, and texts beside it are lost; rules beside it move into
    an `allOf` with the reference.
    """
    for schema in list(subschemas.walk(editor.schema)):
        # The top has other keywords than texts, and definitions; what remains there is a reference to a tree.
        if not judge.has_keywords_beside_reference(schema):
            continue
        siblings = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        inlined = inlining.inlined_once(editor.schema, schema)
        if inlined is not None:
            schema.clear()
            schema.update(inlined)
            continue
        words = {keyword for keyword in siblings if keyword in inlining.WORDS}
        reference = schema["$ref"]
        for keyword in words:
            editor.leave_out(schema, keyword)
        if judge.has_keywords_beside_reference(schema):
            del schema["$ref"]
            schema["allOf"] = [*schema.get("allOf", []), {"$ref": reference}]


def _spell_as_now(editor: _Editor, rule: Rule) -> None:
    """Write keywords of older drafts as draft 2020-12 does, and leave out what is not valid JSON Schema."""
    if judge.fault_of_schema(editor.schema) is None:
        return
    is_old = False
    for schema in subschemas.walk(editor.schema):
        is_old = _modernize(schema) or is_old
    for _ in range(MAX_FAULTS):
        if (fault := judge.fault_of_schema(editor.schema)) is None:
            break
        _remove(editor, fault.path)
    if is_old and "$schema" in editor.schema:
        editor.schema["$schema"] = judge.DIALECT


def _modernize(schema: dict[str, Any]) -> bool:
    """Replace keywords that draft 2020-12 spells differently. Return whether there were any."""
    is_old = False
    if isinstance(schema.get("items"), list):
        schema["prefixItems"], is_old = schema.pop("items"), True
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
    for strict, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(strict), bool):
            is_strict, is_old = schema.pop(strict), True
            if is_strict and limit in schema:
                schema[strict] = schema.pop(limit)
    for keyword in ("required", "type"):
        names = schema.get(keyword)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            # Draft 2020-12 refuses a name that is listed twice.
            schema[keyword] = list(dict.fromkeys(names))
    return is_old


def _remove(editor: _Editor, path: tuple[str | int, ...]) -> None:
    """Leave out the keyword at which the schema breaks the meta-schema. An invalid subschema becomes one
    that accepts anything."""
    schema, steps = editor.schema, list(path)
    while steps:
        keyword = str(steps.pop(0))
        holder: Any = schema
        key: Any = keyword
        is_within = (keyword in subschemas.MAPS and isinstance(schema.get(keyword), dict)) or (
            keyword in subschemas.LISTS and isinstance(schema.get(keyword), list)
        )
        if steps and is_within:
            holder, key = schema[keyword], steps.pop(0)
            # The validator states a name of digits as a number.
            key = str(key) if isinstance(holder, dict) else key
        elif keyword not in subschemas.ONES:
            editor.leave_out(schema, keyword)
            return
        if isinstance(holder, dict) and key not in holder:
            editor.leave_out(schema, keyword)
            return
        if not (steps and isinstance(holder[key], dict)):
            holder[key] = {}
            editor.keywords.add(keyword)
            return
        schema = holder[key]


def _add_items(editor: _Editor, rule: Rule) -> None:
    for schema in subschemas.walk(editor.schema):
        if judge.is_array_without_items(schema):
            schema["items"] = {}


def _declare_required(editor: _Editor, rule: Rule) -> None:
    for schema in list(subschemas.walk(editor.schema)):
        names = judge.undeclared_required(schema)
        others = schema.get("additionalProperties", True)
        # A closed object refuses such a member, so no declaration makes a call possible.
        if not names or others is False:
            continue
        properties = schema.setdefault("properties", {})
        for name in names:
            # `patternProperties` still applies to it; the schema of all other members does not.
            properties[name] = copy.deepcopy(others) if isinstance(others, dict) else {}


def _leave_out_patterns(editor: _Editor, rule: Rule) -> None:
    for schema in subschemas.walk(editor.schema):
        for keyword, pattern in list(judge.patterns_of(schema)):
            if judge.compiles_everywhere(pattern, rule):
                continue
            if keyword == "pattern":
                editor.leave_out(schema, keyword)
                continue
            del schema[keyword][pattern]
            editor.keywords.add(keyword)
            # Members that matched the pattern would be refused as unknown.
            for closing in ("additionalProperties", "unevaluatedProperties"):
                if closing in schema:
                    editor.leave_out(schema, closing)


_REWRITERS: dict[Refusal, Callable[[_Editor, Rule], None]] = {
    "invalid_schema": _spell_as_now,
    "reference_to_nothing": _cut_dangling_references,
    "endless_reference": _cut_endless_references,
    "required_recursion": _cut_required_recursions,
    "keywords_beside_reference": _replace_references_with_keywords,
    "array_without_items": _add_items,
    "undeclared_required": _declare_required,
    "regular_expression": _leave_out_patterns,
}
