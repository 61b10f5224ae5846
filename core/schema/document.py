"""A schema document in one internal form: JSON Schema 2020-12 in which every reference is a pointer.

`read_document` rewrites old spellings (`core.schema.dialects`), puts a pointer in place of every other
reference (`core.schema.references`), names all definitions under `$defs`, and removes what no reader could
follow, with a finding for each. Readers rely on these properties of the result:

- every keyword has a value of the right kind, so `schema.get("properties", {})` is an object of schemas;
- a `$ref` points to a schema of the same document, and following references at one place always ends;
- reading `root` again returns an equal one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from core.schema import bounds, cycles, merge, pointers, subschemas
from core.schema.dialects import AnySchema, Dialect, Schema, dialect_of, normalize_level, requires_itself
from core.schema.merge import Level
from core.schema.pointers import Steps
from core.schema.references import References, UnresolvedReferenceError, children

# Members that only identify a schema. References are pointers here, so they identify nothing any more.
_IDENTIFIERS = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """A part that the internal form leaves out. `place` is its path in the vendor's schema.

    code: BROKEN_REF, REMOTE_REF, AMBIGUOUS_REF, ENDLESS_REF (`subject` is the reference) or
    MALFORMED (`subject` is the keyword).
    """

    code: str
    place: Steps
    subject: str


@dataclass(slots=True)
class SchemaDocument:
    """A schema in the internal form. `root` and levels are shared and must not be changed."""

    root: AnySchema
    dialect: Dialect
    findings: tuple[SchemaFinding, ...] = ()
    _targets: dict[str, AnySchema] = field(default_factory=dict, repr=False)
    # By identity. The schema stays beside its level, so that no other one can get its id.
    _levels: dict[object, tuple[AnySchema, Level]] = field(default_factory=dict, repr=False)
    # By identity of alternatives whose levels are above: whether each accepts only members that are listed.
    closed_branches: dict[object, bool] = field(default_factory=dict, repr=False)

    def target(self, reference: str) -> AnySchema:
        """Return the target of a `$ref` of this document. Raises PointerError for any other reference."""
        if reference not in self._targets:
            self._targets[reference] = pointers.resolve(self.root, pointers.split_fragment(reference))
        return self._targets[reference]

    def level(self, schema: AnySchema) -> Level:
        """Return the rules of a schema for a value itself, with those of its `$ref` and `allOf`."""
        key = merge.identity(schema)
        entry = self._levels.get(key)
        if entry is None:
            entry = self._levels[key] = schema, merge.flatten(schema, self.target)
        return entry[1]


def read_document(schema: object, dialect: Dialect | None = None) -> SchemaDocument:
    """Return a vendor's schema in the internal form.

    dialect: used if the schema declares none. Raises SchemaBoundsError. Every other fault becomes a
    finding, even a value that is no schema at all.
    """
    bounds.require_bounds(schema)
    if not isinstance(schema, dict | bool):
        return SchemaDocument(True, dialect or Dialect.UNDECLARED, (SchemaFinding("MALFORMED", (), ""),))
    declared = dialect_of(schema) or dialect or Dialect.UNDECLARED
    if isinstance(schema, bool):
        return SchemaDocument(schema, declared)
    writer = _InternalFormWriter(References(schema, declared))
    root = writer.write_root()
    if writer.pending:
        writer.cut_endless_references(root)
    return SchemaDocument(root, declared, tuple(writer.findings))


class _InternalFormWriter:
    """Writes the internal form. places: paths in the new schema by those in the vendor's."""

    def __init__(self, references: References) -> None:
        self.references = references
        self.findings: list[SchemaFinding] = []
        self.places: dict[Steps, Steps] = {}
        # Schemas whose `$ref` still has to be written, and its target in the vendor's schema.
        self.pending: list[tuple[Schema, Steps, AnySchema]] = []

    def write_root(self) -> Schema:
        root: Schema = self._write_schema(self.references.root, (), ())
        definitions: Schema = root.pop("$defs", {})
        for _, place, target in self.pending:  # grows meanwhile
            if place not in self.places:
                # It is below a keyword of the vendor's own, or beside a reference that excludes other
                # keywords.
                name = _free_name("/".join(place), definitions)
                definitions[name] = True
                definitions[name] = self._write_schema(target, place, ("$defs", name))
        if definitions:
            root["$defs"] = definitions
        for holder, place, _ in self.pending:
            holder["$ref"] = pointers.join_fragment(self.places[place])
        return root

    def _write_schema(self, schema: Any, place: Steps, written_place: Steps) -> Any:
        """Return a copy in the internal form."""
        self.places.setdefault(place, written_place)
        if not isinstance(schema, dict):
            return schema
        level, malformed = normalize_level(schema, self.references.dialect)
        self.findings += [SchemaFinding("MALFORMED", place, keyword) for keyword in malformed]
        properties = level.get("properties", {})
        if required := [name for name, child in properties.items() if requires_itself(child)]:
            level["required"] = list(dict.fromkeys([*level.get("required", ()), *required]))
        definitions = level.pop("definitions", {})
        new_schema: Schema = {}

        def write_child(child: Any, *steps: str) -> Any:
            return self._write_schema(
                child, (*place, *_vendor_steps(schema, steps)), (*written_place, *steps)
            )

        for keyword, value in level.items():
            if keyword in _IDENTIFIERS or keyword in subschemas.REFERENCES:
                continue
            if keyword in subschemas.MAPS:
                new_schema[keyword] = {
                    name: write_child(child, keyword, name) for name, child in value.items()
                }
            elif keyword in subschemas.LISTS and isinstance(value, list):
                new_schema[keyword] = [write_child(child, keyword, str(n)) for n, child in enumerate(value)]
            else:
                new_schema[keyword] = write_child(value, keyword) if keyword in subschemas.ONES else value
        for name, child in definitions.items():
            new_definitions = new_schema.setdefault("$defs", {})
            new_name = _free_name(name, new_definitions)
            below = (*place, "definitions", name)
            new_definitions[new_name] = self._write_schema(child, below, (*written_place, "$defs", new_name))
        self._write_references(schema, level, new_schema, place)
        return new_schema

    def _write_references(self, schema: Schema, level: Schema, new_schema: Schema, place: Steps) -> None:
        for keyword in subschemas.REFERENCES:
            if keyword not in level:
                continue
            try:
                steps, target = self.references.target(keyword, schema)
            except UnresolvedReferenceError as error:
                self.findings.append(SchemaFinding(error.code, place, error.reference))
                continue
            holder = new_schema
            if "$ref" in new_schema:
                holder = {}
                new_schema["allOf"] = [*new_schema.get("allOf", ()), holder]
            holder["$ref"] = ""
            self.pending.append((holder, steps, target))

    def cut_endless_references(self, root: Schema) -> None:
        """Remove each reference that returns to its own schema without a step into the value.

        Such a cycle accepts what the schemas around it accept, and a reader that follows it never ends.
        """
        schemas: dict[int, tuple[Steps, Schema]] = {}
        waiting: list[tuple[Steps, Any]] = [((), root)]
        while waiting:
            steps, part = waiting.pop()
            if isinstance(part, dict):
                schemas[id(part)] = steps, part
                waiting += [((*steps, *below), child) for below, child in children(part)]

        def list_in_place(schema: Schema) -> Iterator[tuple[bool, Any]]:
            """Yield the schemas for the same value, each with whether it is the target of a reference."""
            # In this order, because it decides which reference of a cycle is removed.
            for keyword in subschemas.IN_PLACE_LISTS:
                yield from ((False, child) for child in schema.get(keyword, ()))
            for keyword in subschemas.IN_PLACE:
                yield False, schema.get(keyword, True)
            yield from ((False, child) for child in schema.get("dependentSchemas", {}).values())
            if "$ref" in schema:
                yield True, pointers.resolve(root, pointers.split_fragment(schema["$ref"]))

        vendor_places = {new_place: place for place, new_place in self.places.items()}
        starts = [schema for _, schema in schemas.values()]
        for holder in cycles.closing_references(starts, list_in_place):
            place = vendor_places.get(schemas[id(holder)][0], ())
            self.findings.append(SchemaFinding("ENDLESS_REF", place, holder.pop("$ref")))


def _vendor_steps(schema: Schema, steps: Steps) -> Steps:
    """Return the steps in the vendor's spelling to the child at `steps` of the internal form."""
    keyword = steps[0]
    has_list = isinstance(schema.get("items"), list)
    if keyword == "prefixItems" and has_list:
        return ("items", *steps[1:])
    if keyword == "items" and has_list:
        return ("additionalItems",)
    if keyword == "dependentSchemas" and steps[1] not in (schema.get(keyword) or ()):
        return ("dependencies", *steps[1:])
    return steps


def _free_name(name: str, definitions: Schema) -> str:
    candidates = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(candidate for candidate in candidates if candidate not in definitions)
