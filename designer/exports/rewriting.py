"""A JSON Schema without what a target refuses. Pure.

A keyword with an equivalent is replaced, and nothing is lost. Any other is left out, so that the schema
accepts more than the vendor's; its name is returned.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from core.content_cache import SchemaCache, digest
from core.schema import inlining, loops, spelling, subschemas
from designer.exports import judge
from designer.exports.contracts import Contract, Refusal, Rule

# Keywords that a rule may be about, as JSON writes them.
_MARKS = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"', b'"pattern', b'"exclusive', b'"items":[')
# The meta-schema names one fault at a time.
MAX_FAULTS = 50


class Rewritten(NamedTuple):
    """A schema that was rewritten for a target. keywords: those that were left out. is_cut: a reference was
    replaced by a schema of anything.
    """

    schema: dict[str, Any]
    keywords: frozenset[str] = frozenset()
    is_cut: bool = False


# Many targets have equal rules about schemas.
_rewritten: SchemaCache[Rewritten] = SchemaCache(size=20)


def rewrite(schema: dict[str, Any], contract: Contract) -> Rewritten:
    """Return the schema, or a copy with as few changes as possible, so that the target refuses nothing that
    can be rewritten or left out."""

    def rewrite_once() -> tuple[dict[str, Any], Rewritten]:
        editor = _Editor(copy.deepcopy(schema))
        for refuses, rewriter in _REWRITERS.items():
            # One repair may uncover the next fault: a copied target has references of its own.
            rule = contract.rule(refuses)
            if rule and rule.effect in ("rewritten", "left_out") and judge.is_broken(editor.schema, rule):
                rewriter(editor, rule)
        return editor.schema, Rewritten({}, frozenset(editor.keywords), editor.is_cut)

    broken = {
        breach.rule.refuses
        for breach in judge.broken_rules(schema, contract)
        if breach.rule.effect in ("rewritten", "left_out")
    }
    if not broken & _REWRITERS.keys():
        return Rewritten(schema)
    rules = [judge.criteria_of(rule) for rule in contract.rules if rule.effect in ("rewritten", "left_out")]
    rewritten_schema, rewritten = _rewritten.get((digest(schema), repr(rules)), rewrite_once)
    return rewritten._replace(schema=rewritten_schema)


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

    def cut(self, schemas: Iterable[dict[str, Any]]) -> None:
        for schema in schemas:
            for keyword in subschemas.REFERENCES:
                schema.pop(keyword, None)
            self.is_cut = True

    def leave_out(self, schema: dict[str, Any], keyword: str) -> None:
        schema.pop(keyword, None)
        self.keywords.add(keyword)

    def replace_references_with_keywords(self, rule: Rule) -> None:
        """Replace a reference that has keywords beside it by its target.

        A target that contains itself keeps its reference, and texts beside it are lost; rules beside it move
        into an `allOf` with the reference.
        """
        inliner = inlining.Inliner(self.schema)
        for schema in list(subschemas.walk(self.schema)):
            # The top has other keywords than texts, and definitions; a reference to a tree remains there.
            if not spelling.has_keywords_beside_reference(schema):
                continue
            siblings = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
            inlined = inliner.inline_once(schema)
            if inlined is not None:
                schema.clear()
                schema.update(inlined)
                continue
            words = {keyword for keyword in siblings if keyword in spelling.WORDS}
            for keyword in words:
                self.leave_out(schema, keyword)
            if spelling.has_keywords_beside_reference(schema):
                spelling.move_reference_into_all_of(schema)

    def spell_as_now(self, rule: Rule) -> None:
        """Write keywords of older drafts as draft 2020-12 does, and leave out invalid JSON Schema."""
        if judge.fault_of_schema(self.schema) is None:
            return
        is_old = False
        for schema in subschemas.walk(self.schema):
            is_old = spelling.modernize(schema) or is_old
        for _ in range(MAX_FAULTS):
            if (fault := judge.fault_of_schema(self.schema)) is None:
                break
            self.keywords |= {spelling.remove_at(self.schema, fault.path)} - {""}
        if is_old and "$schema" in self.schema:
            self.schema["$schema"] = judge.DIALECT

    def add_items(self, rule: Rule) -> None:
        for schema in subschemas.walk(self.schema):
            if spelling.is_array_without_items(schema):
                schema["items"] = {}

    def declare_required(self, rule: Rule) -> None:
        for schema in list(subschemas.walk(self.schema)):
            spelling.declare_required(schema)

    def leave_out_patterns(self, rule: Rule) -> None:
        unreadable = judge.unreadable_patterns(self.schema, rule)
        for schema in subschemas.walk(self.schema):
            for keyword, pattern in list(spelling.patterns_of(schema)):
                if pattern not in unreadable:
                    continue
                if keyword == "pattern":
                    self.leave_out(schema, keyword)
                    continue
                del schema[keyword][pattern]
                self.keywords.add(keyword)
                # Members that matched the pattern would be refused as unknown.
                for closing in ("additionalProperties", "unevaluatedProperties"):
                    if closing in schema:
                        self.leave_out(schema, closing)


_REWRITERS: dict[Refusal, Callable[[_Editor, Rule], None]] = {
    "invalid_schema": _Editor.spell_as_now,
    "reference_to_nothing": lambda editor, _: editor.cut(loops.dangling_references(editor.schema)),
    "endless_reference": lambda editor, _: editor.cut(loops.endless_references(editor.schema)),
    "required_recursion": lambda editor, _: editor.cut(loops.required_recursions(editor.schema)),
    "keywords_beside_reference": _Editor.replace_references_with_keywords,
    "array_without_items": _Editor.add_items,
    "undeclared_required": _Editor.declare_required,
    "regular_expression": _Editor.leave_out_patterns,
}
