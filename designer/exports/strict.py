"""A JSON Schema in the strict subset of OpenAI's structured outputs, and what it loses on the way.

Every object is closed and requires each of its properties; one that may be left out takes null in place.
What may hold anything has no strict form: it is left out where that may be, else the whole has none either.
"""

from typing import Any, NamedTuple

from designer.exports.contracts import Subset

Path = tuple[str, ...]

# Keywords about values; the others are words about a schema.
_RULES = frozenset(
    (
        *("minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems"),
        *("additionalItems", "unevaluatedItems", "patternProperties", "propertyNames", "minProperties"),
        *("maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "not", "if", "anyOf"),
        *("oneOf", "pattern", "format", "minItems", "maxItems", "multipleOf", "minimum", "maximum"),
        *("exclusiveMinimum", "exclusiveMaximum"),
    )
)
_WORDS = ("title", "description", "default", "examples", "deprecated", "$comment")
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
# Where a rule may give an object further members: these hold at the same value as its properties do.
_CHOICES = ("anyOf", "oneOf")
_CONDITIONS = ("then", "else")
_DEPENDENT = ("dependentSchemas", "dependencies")
ANYTHING = "which may hold anything"
UNLISTED = "which has members that are not listed among its properties"
# Of two schemas that both hold, the stricter bound.
_STRICTER = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


class Form(NamedTuple):
    """A strict schema, and what it lacks: keywords (`rules`) and inputs (`left_out`). Where it is None,
    `stuck` is the path to what has no strict form, and `why_stuck` is the reason."""

    schema: dict[str, Any] | None
    rules: frozenset[str]
    left_out: tuple[Path, ...]
    is_widened: bool
    stuck: Path
    why_stuck: str


def form(schema: dict[str, Any], subset: Subset) -> Form:
    """Return the strict form of an object that holds no reference."""
    writer = _Writer(subset)
    written = writer.write(schema, ())
    return Form(
        written,
        frozenset(writer.rules),
        tuple(writer.left_out),
        writer.is_widened,
        writer.stuck,
        writer.why_stuck or ANYTHING,
    )


class _Writer:
    def __init__(self, subset: Subset) -> None:
        self.subset = subset
        self.rules: set[str] = set()
        self.left_out: list[Path] = []
        self.is_widened = False
        self.stuck: Path = ()
        self.why_stuck = ""
        self._why = ""

    def write(self, schema: Any, path: Path) -> dict[str, Any] | None:
        if not isinstance(schema, dict):
            return None
        schema = self._without_all_of(schema)
        words = {word: schema[word] for word in ("title", "description") if isinstance(schema.get(word), str)}
        if "const" in schema or "enum" in schema:
            listed = _listed(schema)
            return None if listed is None else listed | words
        if (choices := _choices(schema)) is not None:
            return self._one_of(choices, words, path)
        if _gives_members(schema):
            self._why = UNLISTED
            return None
        kept: dict[str, Any] = {}
        types, said = _types(schema), _types(schema)
        if "object" in types:
            inside = self._object(schema, path)
            kept, types = (inside, types) if inside else ({}, [each for each in types if each != "object"])
        if "array" in types:
            items = self.write(schema.get("items"), (*path, "[]"))
            kept |= {"items": items} if items else {}
            types = types if items else [each for each in types if each != "array"]
        types = list(dict.fromkeys(types))  # vendors write a type twice
        if not types or (types == ["null"] and said != types):
            return None
        self.rules |= {"type"} if types != said else set()
        for each in types:
            words_of_type = self.subset.keywords.get(each, ())
            kept |= {word: schema[word] for word in words_of_type if self._is_known(word, schema.get(word))}
        self.rules |= {word for word in schema if word in _RULES and word not in kept}
        # An input's own default is not lost: null says that it is not given, and then the default counts.
        if len(path) > 1 and "default" in schema:
            self.rules.add("default")
        return {"type": types[0] if len(types) == 1 else types, **words, **kept}

    def _one_of(self, choices: list[Any], words: dict[str, Any], path: Path) -> dict[str, Any] | None:
        forms = [each for choice in choices if (each := self.write(choice, path)) is not None]
        if len(forms) < len(choices):
            self.rules.add("anyOf")
        if not any(each != {"type": "null"} for each in forms):
            return None
        return {"anyOf": forms, **words}

    def _object(self, schema: dict[str, Any], path: Path) -> dict[str, Any] | None:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            return None
        closing = [
            schema[word] for word in ("additionalProperties", "unevaluatedProperties") if word in schema
        ]
        # Any object at all, but for a tool's own: that one takes nothing.
        # The strict form would close it, and then nothing at all would fit.
        is_open = False not in closing or "patternProperties" in schema
        is_map = "patternProperties" in schema or any(isinstance(each, dict) and each for each in closing)
        if not properties and is_open and (path or is_map):
            self._why = UNLISTED if is_map else ""
            return None
        self.rules |= {"additionalProperties"} if any(each is not False for each in closing) else set()
        written: dict[str, Any] = {}
        for name in dict.fromkeys([*properties, *(each for each in required if isinstance(each, str))]):
            self._why = ""
            inside = self.write(properties.get(name), (*path, name))
            # A model that cannot give it could make no call that the vendor takes.
            if inside is None and name in required:
                if self.stuck[: len(path) + 1] != (*path, name):
                    self.stuck, self.why_stuck = (*path, name), self._why
                return None
            if inside is None:
                self.left_out.append((*path, name))
                continue
            self.is_widened = self.is_widened or name not in required
            written[name] = inside if name in required else _or_null(inside)
        return {"properties": written, "required": list(written), "additionalProperties": False}

    def _without_all_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return one schema that says what all parts of `allOf` say, which the target refuses.

        A part that cannot be joined stays where it may give the object members, so that nothing closes it
        without them; any other is left out.
        """
        parts = schema.get("allOf")
        combined = {word: value for word, value in schema.items() if word != "allOf"}
        apart = []
        for part in parts if isinstance(parts, list) else ():
            both = joined(combined, self._without_all_of(part)) if isinstance(part, dict) else None
            if both is None and part is not True:
                self.rules.add("allOf")
                apart.append(part)
            combined = both or combined
        if any(_names(part) - _names(combined) for part in apart):
            combined["allOf"] = apart
        return combined

    def _is_known(self, keyword: str, value: Any) -> bool:
        if keyword == "format":
            return isinstance(value, str) and value in self.subset.formats
        if keyword == "pattern":
            # Those that the target cannot read were left out before.
            return isinstance(value, str)
        # In draft 4 an exclusive bound is true or false.
        return isinstance(value, int | float) and not isinstance(value, bool)


def _listed(schema: dict[str, Any]) -> dict[str, Any] | None:
    # A constant is a list of one value, which the target takes.
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(values, list) or not values or any(type(each) not in _TYPES for each in values):
        return None
    types = list(dict.fromkeys(_TYPES[type(each)] for each in values))
    return {"type": types[0] if len(types) == 1 else types, "enum": values}


def _choices(schema: dict[str, Any]) -> list[Any] | None:
    """Return the forms of which one or more hold, None where the schema says enough without them.

    Where a form names members that the object does not list, each form is joined with the object.
    """
    choices = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(choices, list) or not choices:
        return None
    if not schema.keys() & {"properties", "items"}:
        beside = {"type": schema["type"]} if "type" in schema else {}
        return [beside | each if isinstance(each, dict) else each for each in choices]
    if not any(_names(each) - _own_names(schema) for each in choices):
        return None
    common = {word: value for word, value in schema.items() if word not in (*_CHOICES, *_WORDS)}
    forms = [joined(common, each) if isinstance(each, dict) else None for each in choices]
    return None if None in forms else forms


def _gives_members(schema: dict[str, Any]) -> bool:
    """Whether a rule beside the properties names members that they lack: closed without these, the object
    would be another."""
    own = _own_names(schema)
    return any(_names(each) - own for each in _rules_about_members(schema))


def _rules_about_members(schema: dict[str, Any]) -> list[Any]:
    inside = [each for word in ("allOf", *_CHOICES) for each in _listed_in(schema.get(word))]
    inside += [schema[word] for word in _CONDITIONS if word in schema]
    for word in _DEPENDENT:
        dependent = schema.get(word)
        inside += list(dependent.values()) if isinstance(dependent, dict) else []
    return inside


def _own_names(schema: dict[str, Any]) -> set[str]:
    """Return the members that an object itself lists or requires."""
    properties, required = schema.get("properties"), schema.get("required")
    names = {*properties} if isinstance(properties, dict) else set()
    return names | (
        {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
    )


def _names(schema: Any) -> set[str]:
    """The same with those that its rules name."""
    if not isinstance(schema, dict):
        return set()
    return _own_names(schema).union(*map(_names, _rules_about_members(schema)))


def _listed_in(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _types(schema: dict[str, Any]) -> list[str]:
    said = schema.get("type")
    if isinstance(said, str | list):
        listed = [said] if isinstance(said, str) else said
        known = {*_TYPES.values(), "object", "array"}
        return [each for each in listed if isinstance(each, str) and each in known]
    return ["object"] if "properties" in schema else ["array"] if "items" in schema else []


def joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    """Return one schema that holds where both do, None where none says so keyword by keyword."""
    both = {**other, **one}
    for word in one.keys() & other.keys():
        mine, theirs = one[word], other[word]
        if mine == theirs or word in _WORDS:
            continue
        value = _joined_keyword(word, mine, theirs)
        if value is None:
            return None
        both[word] = value
    return _with_closed_members(both, one, other)


def _joined_keyword(word: str, mine: Any, theirs: Any) -> Any:
    if word == "required" and isinstance(mine, list) and isinstance(theirs, list):
        return [*mine, *(each for each in theirs if each not in mine)]
    if word == "properties" and isinstance(mine, dict) and isinstance(theirs, dict):
        return _joined_properties(mine, theirs)
    if word == "type":
        return _joined_types(mine, theirs)
    if word == "enum" and isinstance(mine, list) and isinstance(theirs, list):
        return [each for each in mine if each in theirs] or None
    if word == "items" and isinstance(mine, dict) and isinstance(theirs, dict):
        return joined(mine, theirs) or {"allOf": [mine, theirs]}
    if word == "additionalProperties" and False in (mine, theirs):
        return False
    if word in _STRICTER and _is_number(mine) and _is_number(theirs):
        return _STRICTER[word](mine, theirs)
    return None


def _joined_properties(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    both = {**mine, **theirs}
    for name in mine.keys() & theirs.keys():
        first, second = mine[name], theirs[name]
        if first == second or second in (True, {}):
            both[name] = first
        elif isinstance(first, dict) and isinstance(second, dict):
            both[name] = joined(first, second) or {"allOf": [first, second]}
        elif first not in (True, {}):
            both[name] = False
    return both


def _joined_types(mine: Any, theirs: Any) -> Any:
    lists = [[each] if isinstance(each, str) else each for each in (mine, theirs)]
    if not all(isinstance(each, list) for each in lists):
        return None
    common = [each for each in lists[0] if each in lists[1]]
    if not common and {"integer", "number"} <= {*lists[0], *lists[1]}:
        common = ["integer"]
    return None if not common else common[0] if len(common) == 1 else common


def _with_closed_members(
    both: dict[str, Any], one: dict[str, Any], other: dict[str, Any]
) -> dict[str, Any] | None:
    # A part that is closed refuses the members that only the other part lists.
    for closed, open_ in ((one, other), (other, one)):
        refused = _names(open_) - _names(closed)
        if not refused or closed.get("additionalProperties", True) in (True, {}):
            continue
        is_listed = closed["additionalProperties"] is False and "patternProperties" not in closed
        if not is_listed or refused & {*both.get("required", ())}:
            return None
        properties = {name: each for name, each in both["properties"].items() if name not in refused}
        both = both | {"properties": properties}
    return both


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    # Null is one more choice: there is no type beside choices to add it to.
    if "anyOf" in schema:
        null = {"type": "null"}
        return schema if null in schema["anyOf"] else schema | {"anyOf": [*schema["anyOf"], null]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    widened = schema if "null" in types else schema | {"type": [*types, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        widened = widened | {"enum": [*schema["enum"], None]}
    return widened
