"""Derive the schema of requests, or of responses, from a schema that describes both.

OpenAPI lets one schema describe a resource in both directions: a `readOnly` member is returned and should not
be sent, a `writeOnly` member is sent and not returned, and where it is required, that counts for its own
direction (OpenAPI 3.0.3, Schema Object). Members are found at any depth, through references and combinations.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Literal

from core.schema import bounds, pointers, subschemas, types
from core.schema.dialects import AnySchema, Dialect, Schema
from core.schema.document import SchemaDocument, read_document
from core.schema.objects import applicable_parts, direction_of, parts_of

Names = frozenset[str]

# The flag of members that do not go in the direction.
_FLAGS = {"request": "readOnly", "response": "writeOnly"}
_OTHER: dict[str, Literal["request", "response"]] = {"request": "response", "response": "request"}
_NONE: Names = frozenset()
_CONDITIONAL = ("then", "else")
_IN_PLACE = ("allOf", "anyOf", "dependentSchemas", *_CONDITIONAL)
_WRITTEN_APART = ("$defs", "$ref", "required", "dependentRequired", "oneOf")
# Conditions of other rules. An absent member has an effect on them too, so they stay unchanged.
_DECIDING = ("not", "if")


def schema_for(
    direction: Literal["request", "response"], schema: Any, *, keeps_top_members: bool = False
) -> Any:
    """Return the schema without members of the other direction, and without requiring them.

    A schema without such members is returned itself; any other one comes back in the internal form.
    keeps_top_members: the members of the schema itself stay in any case.
    """
    if not has_direction(direction, schema):
        return schema
    try:
        document = read_document(schema, Dialect.DRAFT_2020)
    except bounds.SchemaBoundsError:
        return schema  # its reader refuses it by name
    return _DirectionWriter(document, _OTHER[direction], keeps_top_members=keeps_top_members).write_root()


def has_direction(direction: Literal["request", "response"], schema: Any) -> bool:
    """Return whether some part of the schema is marked for `direction` only."""
    return any(part.get(_FLAGS[direction]) is True for part in subschemas.walk(schema))


class _DirectionWriter:
    """Writes a document without the members of one direction.

    hidden: names that are left out of a schema because another schema for the same value drops them. A
    definition is written once for each set of such names that it mentions.
    """

    def __init__(
        self, document: SchemaDocument, dropped: Literal["request", "response"], *, keeps_top_members: bool
    ) -> None:
        self.document = document
        self.dropped = dropped
        self.keeps_top_members = keeps_top_members
        self.definitions: Schema = {}
        # By identity. The schema is stored too, so that no other one can get its id.
        self.mentioned: dict[int, tuple[AnySchema, Names, Names]] = {}
        self.names: dict[tuple[str, Names, bool], str] = {}
        self.waiting: deque[tuple[str, str, Names, bool]] = deque()

    def write_root(self) -> AnySchema:
        root = self.document.root
        if isinstance(root, bool):
            return root
        new_root = self._write_level(root, _NONE if self.keeps_top_members else self._hidden_of(root))
        while self.waiting:
            name, reference, hidden, is_deciding = self.waiting.popleft()
            target = self.document.target(reference)
            if is_deciding:
                self.definitions[name] = self._copy_schema(target)
            else:
                self.definitions[name] = self._write_in_place(target, hidden)
        return {**new_root, "$defs": self.definitions} if self.definitions else new_root

    def _write_in_place(self, schema: AnySchema, hidden: Names) -> AnySchema:
        if isinstance(schema, bool):
            return schema
        return self._write_level(schema, hidden | self._hidden_of(schema))

    def _write_level(self, schema: Schema, hidden: Names) -> Schema:
        new_schema = self._write_names(schema, hidden)
        for keyword, value in schema.items():
            if keyword in _WRITTEN_APART:
                continue
            if keyword in ("properties", "dependentSchemas"):
                value = {name: rule for name, rule in value.items() if name not in hidden}
            elif keyword == "minProperties":
                # A member that is dropped was one of them.
                value = max(0, value - len(hidden))
            change: Callable[[AnySchema], AnySchema] = self._copy_schema
            if keyword not in _DECIDING:
                change = partial(self._write_in_place, hidden=hidden if keyword in _IN_PLACE else _NONE)
            new_schema[keyword] = subschemas.change_below(keyword, value, change)
        if "oneOf" in schema:
            branches = [self._write_in_place(branch, hidden) for branch in schema["oneOf"]]
            # Branches that only a dropped member told apart may now fit together.
            schemas = schema["oneOf"]
            sets = [types.types_of(self.document.level(schema).schema) for schema in schemas]
            is_changed = sum(map(len, sets)) != len(frozenset[str]().union(*sets)) and any(
                self._hidden_in_choices(branch) or hidden & self._names_in(branch) for branch in schemas
            )
            together: Schema = {"anyOf" if is_changed else "oneOf": branches}
            if together.keys() & new_schema.keys():
                together = {"allOf": [*new_schema.get("allOf", ()), together]}
            new_schema |= together
        if "$ref" in schema:
            new_schema["$ref"] = self._write_reference(schema["$ref"], hidden)
        return new_schema

    def _write_names(self, schema: Schema, hidden: Names) -> Schema:
        """Return the rules that require names, without those that are dropped."""
        rules: Schema = {}
        is_kept = self.keeps_top_members and schema is self.document.root
        dropped = hidden if is_kept else hidden | self._hidden_in_choices(schema)
        if required := [name for name in schema.get("required", ()) if name not in dropped]:
            rules["required"] = required
        if "dependentRequired" in schema:
            rules["dependentRequired"] = {
                name: [also for also in names if also not in dropped]
                for name, names in schema["dependentRequired"].items()
                if name not in dropped
            }
        return rules

    def _copy_schema(self, schema: AnySchema) -> AnySchema:
        def lead(part: Schema) -> Schema:
            part.pop("$defs", None)
            return (
                part | {"$ref": self._write_reference(part["$ref"], _NONE, is_deciding=True)}
                if "$ref" in part
                else part
            )

        copied: AnySchema = subschemas.mapped(schema, lead)
        return copied

    def _write_reference(self, reference: str, hidden: Names, *, is_deciding: bool = False) -> str:
        target = self.document.target(reference)
        dropped = _NONE if is_deciding else (hidden - self._hidden_of(target)) & self._names_in(target)
        if reference == "#" and not dropped and not is_deciding:
            return reference
        key = (reference, dropped, is_deciding)
        if key not in self.names:
            steps = pointers.split_fragment(reference)
            name = steps[1] if len(steps) == 2 and steps[0] == "$defs" else "/".join(steps) or "root"
            used_names = set(self.names.values())
            candidates = (name if number == 1 else f"{name}_{number}" for number in count(1))
            self.names[key] = next(candidate for candidate in candidates if candidate not in used_names)
            self.waiting.append((self.names[key], reference, dropped, is_deciding))
        return pointers.join_fragment(("$defs", self.names[key]))

    def _hidden_of(self, schema: AnySchema) -> Names:
        """Return the names of members that are dropped, by the schema and all that holds with it."""
        return self._hidden_in(parts_of(self.document, schema))

    def _hidden_in(self, parts: Iterable[Schema]) -> Names:
        return frozenset(
            name
            for part in parts
            for name, rule in part.get("properties", {}).items()
            if direction_of(self.document, rule) == self.dropped
        )

    def _hidden_in_choices(self, schema: AnySchema) -> Names:
        return self._mentioned_in(schema)[1]

    def _names_in(self, schema: AnySchema) -> Names:
        return self._mentioned_in(schema)[0]

    def _mentioned_in(self, schema: AnySchema) -> tuple[Names, Names]:
        """Return the names that a schema mentions for the value itself, and the dropped ones."""
        if id(schema) not in self.mentioned:
            parts = list(applicable_parts(self.document, [schema]))
            names: set[str] = set()
            for part in parts:
                names |= {*part.get("required", ()), *part.get("properties", {})}
                names |= {*part.get("dependentRequired", {}), *part.get("dependentSchemas", {})}
                names.update(*part.get("dependentRequired", {}).values())
            self.mentioned[id(schema)] = schema, frozenset(names), self._hidden_in(parts)
        return self.mentioned[id(schema)][1:]
