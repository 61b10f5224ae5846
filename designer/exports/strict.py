"""A JSON Schema in the strict subset of OpenAI's structured outputs, and what it loses on the way.

Every object is closed and requires each of its properties; an optional property accepts null instead.
A schema that accepts anything has no strict form. An optional property with such a schema is left out, and an
object that requires such a property has no strict form either.
"""

from typing import NamedTuple

from core.schema import (
    AnySchema,
    Schema,
    SchemaBoundsError,
    SchemaDocument,
    read_document,
    read_object,
    types,
)
from core.schema.objects import ObjectSchema, alternative_names
from designer.exports.contracts import Subset

Path = tuple[str, ...]

# Keywords that restrict values. A strict schema that lacks one of them accepts more than the vendor does.
_RULES = frozenset(
    (
        *("minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems"),
        *("unevaluatedItems", "patternProperties", "propertyNames", "minProperties", "maxProperties"),
        *("dependentRequired", "dependentSchemas", "not", "if", "anyOf", "oneOf", "pattern", "format"),
        *("minItems", "maxItems", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    )
)
_CHOICES = ("anyOf", "oneOf")
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_WORDS = ("title", "description", "default", "examples", "deprecated", "$comment")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NULL = {"type": "null"}
ANYTHING = "which may hold anything"
UNLISTED = "which has members that are not listed among its properties"


class StrictForm(NamedTuple):
    """A strict schema, and what it lacks: keywords (`rules`) and inputs (`left_out`).

    closes_objects: it closes an object that is open at the vendor, and of which the vendor lists no member.
    Where `schema` is None, `stuck` is the path to what has no strict form, and `why_stuck` is the reason.
    """

    schema: Schema | None
    rules: frozenset[str]
    left_out: tuple[Path, ...]
    is_widened: bool
    closes_objects: bool
    stuck: Path
    why_stuck: str


def form(schema: Schema, subset: Subset) -> StrictForm:
    """Return the strict form of an object that contains no reference."""
    try:
        document = read_document(schema)
    except SchemaBoundsError:
        # The sizes of a strict schema are far below these bounds.
        return StrictForm(
            None, frozenset(), (), is_widened=False, closes_objects=False, stuck=(), why_stuck=ANYTHING
        )
    writer = _Writer(document, subset)
    strict_schema = writer.write(document.root, ())
    return StrictForm(
        strict_schema,
        frozenset(writer.rules),
        tuple(writer.left_out),
        writer.is_widened,
        writer.closes_objects,
        writer.stuck,
        writer.why_stuck or ANYTHING,
    )


class _Writer:
    """Writes one schema, and records what it loses. `write` returns None where there is no strict form."""

    def __init__(self, document: SchemaDocument, subset: Subset) -> None:
        self.document = document
        self.subset = subset
        self.rules: set[str] = set()
        self.left_out: list[Path] = []
        self.is_widened = False
        self.closes_objects = False
        self.stuck: Path = ()
        self.why_stuck = ""
        self._reason = ""

    def write(self, schema: AnySchema, path: Path) -> Schema | None:
        if not isinstance(schema, dict):
            return None
        level = self.document.level(schema)
        keywords = level.schema
        self.rules |= {"allOf"} if level.apart else set()
        words: Schema = {word: keywords[word] for word in ("title", "description") if word in keywords}
        if "const" in keywords or "enum" in keywords:
            # A value that is an object or an array has no strict form.
            values = types.values_of(keywords) or []
            value_types = list(dict.fromkeys(_TYPES.get(type(value), "") for value in values))
            if not values or "" in value_types:
                return None
            return {"type": value_types if value_types[1:] else value_types[0], "enum": values} | words
        members = read_object(self.document, schema)
        if (choices := self._read_choices(keywords, members)) is not None:
            forms = [form for choice in choices if (form := self.write(choice, path)) is not None]
            if len(forms) < len(choices):
                self.rules.add("anyOf")
            return None if all(form == _NULL for form in forms) else {"anyOf": forms, **words}
        if members and self._has_other_names(schema, members):
            self._reason = UNLISTED
            return None
        return self._write_types(keywords, members, words, path)

    def _write_types(
        self, vendor_schema: Schema, members: ObjectSchema | None, words: Schema, path: Path
    ) -> Schema | None:
        keywords: Schema = {}
        vendor_types = types.type_words(vendor_schema) or types.guess_words(vendor_schema)
        strict_types = list(vendor_types)
        if "object" in strict_types:
            strict_object = self._write_object(vendor_schema, members, path) if members else None
            keywords |= strict_object or {}
            strict_types = [word for word in strict_types if strict_object or word != "object"]
        if "array" in strict_types:
            items = self.write(vendor_schema.get("items", True), (*path, "[]"))
            keywords |= {"items": items} if items else {}
            strict_types = [word for word in strict_types if items or word != "array"]
        if not strict_types or (strict_types == ["null"] and vendor_types != strict_types):
            return None
        self.rules |= {"type"} if strict_types != vendor_types else set()
        for word in strict_types:
            accepted = self.subset.keywords.get(word, ())
            keywords |= {
                keyword: vendor_schema[keyword]
                for keyword in accepted
                if keyword in vendor_schema
                and (keyword != "format" or vendor_schema[keyword] in self.subset.formats)
            }
        self.rules |= {keyword for keyword in vendor_schema if keyword in _RULES and keyword not in keywords}
        # The default of a tool's own input is not lost: null means an absent input, and then the default
        # applies.
        if len(path) > 1 and "default" in vendor_schema:
            self.rules.add("default")
        return {"type": strict_types[0] if len(strict_types) == 1 else strict_types, **words, **keywords}

    def _write_object(self, vendor_schema: Schema, members: ObjectSchema, path: Path) -> Schema | None:
        others = members.others
        # The strict form of an open object without properties would accept nothing else than {}. Only a tool
        # itself may have it: that tool takes no inputs.
        is_map = bool(members.patterns) or (isinstance(others, dict) and bool(others))
        if not members.members and members.is_open and (path or is_map):
            self._reason = UNLISTED if is_map else ""
            return None
        if any(vendor_schema.get(keyword, False) is not False for keyword in _CLOSING):
            self.rules.add("additionalProperties")
        elif members.is_open and not members.members:
            # Arguments beside listed members are rarely meant; here no argument is left.
            self.closes_objects = True
        properties: Schema = {}
        required = frozenset(members.required)
        for name in dict.fromkeys([*members.members, *members.required]):
            self._reason = ""
            is_required = name in required
            member = members.members.get(name)
            strict_member = self.write(member.schema, (*path, name)) if member else None
            if strict_member is None and is_required:
                # Without this property a model could send no arguments that the vendor accepts.
                if self.stuck[: len(path) + 1] != (*path, name):
                    self.stuck, self.why_stuck = (*path, name), self._reason
                return None
            if strict_member is None:
                self.left_out.append((*path, name))
                continue
            self.is_widened = self.is_widened or not is_required
            properties[name] = strict_member if is_required else _with_null(strict_member)
        return {"properties": properties, "required": list(properties), "additionalProperties": False}

    def _read_choices(self, own: Schema, members: ObjectSchema | None) -> list[AnySchema] | None:
        """Return the alternatives of which one has to fit, each joined with the schema around them.

        None where the schema has none, or where it lists all properties of its alternatives itself.
        """
        keyword = next((keyword for keyword in _CHOICES if keyword in own), None)
        if keyword is None:
            return None
        alternatives = {keyword: own[keyword]}
        if own.keys() & {"properties", "items"} and not (
            members and self._has_other_names(alternatives, members)
        ):
            return None
        # The strict form closes each alternative anyway.
        is_closed = own.get("unevaluatedProperties") is False
        left_out = {keyword, *_WORDS, *(("unevaluatedProperties",) if is_closed else ())}
        common = {name: value for name, value in own.items() if name not in left_out}
        return [{"allOf": [common, choice]} if common else choice for choice in own[keyword]]

    def _has_other_names(self, schema: Schema, members: ObjectSchema) -> bool:
        """Return whether an alternative names properties that the object does not list: closing the object
        without them would change its meaning."""
        names = {*members.members, *members.required}
        return any(other not in names for other in alternative_names(self.document, schema))


def _with_null(schema: Schema) -> Schema:
    """Return a strict schema that accepts null as well."""
    if "anyOf" in schema:
        return schema if _NULL in schema["anyOf"] else schema | {"anyOf": [*schema["anyOf"], _NULL]}
    words = types.type_words(schema)
    widened = schema if "null" in words else schema | {"type": [*words, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        widened = widened | {"enum": [*schema["enum"], None]}
    return widened
