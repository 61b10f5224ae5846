"""Judges values by a vendor's JSON Schema, which may be broken, hostile or in any dialect.

Nothing is fetched, patterns run in linear time, and a schema whose checking could take long is not
checked. A rule that cannot be checked is left out and named, so that it refuses nothing wrongly: the vendor
will judge by it anyway.
"""

import copy
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import complexity, error_messages, subschemas

MAX_VALUE_DEPTH = 64
MAX_VALUES = 20_000
# Of values as they are sent; how costly a schema is depends on it.
USUAL_DEPTH = 6
# Of schemas that meet a part of a value. To say why one does not fit takes memory for each of them.
MAX_JUDGED = 10_000_000
# To say why takes time and memory for each of them; to say no does not.
MAX_EXPLAINED = 30_000
CHARACTERS_A_PART = 200
MAX_FAULTS = 50
# Each is compiled, and each is tried on each text.
MAX_PATTERNS = 100
# The library names one fault at a time.
MAX_REPAIRS = 20

Path = tuple[str | int, ...]

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=500_000, dfa_size_limit=1_000_000)
_DIALECTS: dict[str, type[jsonschema_rs.Validator]] = {
    "draft-04": jsonschema_rs.Draft4Validator,
    "draft-06": jsonschema_rs.Draft6Validator,
    "draft-07": jsonschema_rs.Draft7Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
}
_DIALECT = re.compile(r"https?://json-schema\.org/(?:draft/)?([0-9a-z-]+)/schema#?")
_REFUSING = frozenset(
    ("not", "if", "then", "else", "maxContains", "unevaluatedProperties", "unevaluatedItems")
)
_NOT_CHECKED = "The vendor's schema cannot be checked here, so the vendor alone judges these inputs."


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a value, or the part of it at `path`, does not fit: what follows its name in a sentence."""

    path: Path
    why: str


@dataclass(slots=True)
class Checked:
    """A schema ready to be judged by. `left_out` names the rules that are not."""

    schema: Any
    validator: jsonschema_rs.Validator | None
    left_out: list[str] = field(default_factory=list)

    @property
    def remark(self) -> str:
        """A sentence for a person about what is not checked; "" when all is."""
        if self.validator is None:
            return _NOT_CHECKED
        if not self.left_out:
            return ""
        shown = ", ".join(self.left_out[:3]) + (", …" if len(self.left_out) > 3 else "")
        return f"Not all of the vendor's rules can be checked here, so the vendor alone judges {shown}."


def checked(schema: Any) -> Checked:
    dialect = _dialect(schema)
    change = _modern if dialect is jsonschema_rs.Draft202012Validator else _plain
    ready = Checked(subschemas.mapped(copy.deepcopy(schema), change), None)
    _leave_out_references(ready)
    _leave_out_patterns(ready)
    if ready.left_out:
        ready.schema = subschemas.mapped(ready.schema, _lenient)
    try:
        complexity.require_bounded(ready.schema, USUAL_DEPTH)
    except complexity.TooComplexError:
        return ready
    for _ in range(MAX_REPAIRS):
        try:
            ready.validator = dialect(
                ready.schema, validate_formats=True, pattern_options=_PATTERNS, offline=True
            )
        except jsonschema_rs.ValidationError as error:
            if not (cut := _cut(ready.schema, error.instance_path)):
                break
            ready.left_out.append(cut)
            ready.schema = subschemas.mapped(ready.schema, _lenient)
        except ValueError:
            # The library's own bound on nesting.
            break
        else:
            break
    return ready


def is_schema(schema: Any) -> bool:
    """Whether it keeps the rules of its dialect, as far as these can be told without fetching anything."""
    return jsonschema_rs.meta.is_valid(_with_dialect(schema))


def schema_fault(schema: Any) -> Fault | None:
    """The first place where it breaks the rules of its dialect; None where it keeps them."""
    try:
        jsonschema_rs.meta.validate(_with_dialect(schema))
    except jsonschema_rs.ValidationError as error:
        return next(_faults(error))
    return None


def _with_dialect(schema: Any) -> Any:
    if isinstance(schema, dict) and _dialect(schema) is jsonschema_rs.Draft202012Validator:
        return schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return schema


def is_too_large(value: Any) -> bool:
    depth, size = _extent(value)
    return depth > MAX_VALUE_DEPTH or size > MAX_VALUES


def faults(ready: Checked, value: Any) -> list[Fault]:
    """Everything that is wrong with `value`, as far as it can be judged. It must not be too large."""
    if ready.validator is None or is_too_large(value):
        return []
    depth, size = _extent(value)
    size += len(canonical(value)) // CHARACTERS_A_PART
    # A bound on how often some schema meets some part of the value.
    try:
        most: float = size * complexity.require_bounded(ready.schema, depth)
    except complexity.TooComplexError:
        most = math.inf
    if most > MAX_JUDGED:
        ready.validator = None
        return []
    if ready.validator.is_valid(value):
        return []
    if most > MAX_EXPLAINED:
        return [Fault((), "does not fit the vendor's schema")]
    found = (fault for error in ready.validator.iter_errors(value) for fault in _faults(error))
    return list(islice(found, MAX_FAULTS))


def _faults(error: jsonschema_rs.ValidationError) -> Iterator[Fault]:
    path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(name):
            yield Fault((*path, name), "is required")
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            yield from (Fault((*path, name), error_messages.UNKNOWN) for name in names)
        case Kind.AnyOf(forms) | Kind.OneOfNotValid(forms):
            yield from _of_forms(path, forms)
        case _:
            yield Fault(path, error_messages.sentence(error))


def _of_forms(path: Path, forms: list[list[jsonschema_rs.ValidationError]]) -> Iterator[Fault]:
    # A form whose type the value does not have was not meant; what is wrong with the one that was is said.
    meant = [
        errors
        for errors in forms
        if not any(
            isinstance(error.kind, Kind.Type) and tuple(error.instance_path) == path for error in errors
        )
    ]
    if len(meant) == 1:
        for error in meant[0]:
            yield from _faults(error)
    elif meant:
        missing = [
            [_missing(error, path) for error in errors] for errors in meant[: error_messages.MAX_NAMED]
        ]
        is_all = all(name for names in missing for name in names)
        yield Fault(path, error_messages.needs(missing) if is_all else error_messages.NO_FORM)
    else:
        kinds = [error.kind for errors in forms for error in errors]
        names = [name for kind in kinds if isinstance(kind, Kind.Type) for name in kind.types]
        yield Fault(path, f"must be {error_messages.types(names)}")


def _missing(error: jsonschema_rs.ValidationError, path: Path) -> str:
    match error.kind:
        case Kind.Required(name) if tuple(error.instance_path) == path:
            return str(name)
    return ""


def _dialect(schema: Any) -> type[jsonschema_rs.Validator]:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    found = _DIALECT.fullmatch(named) if isinstance(named, str) else None
    newest = jsonschema_rs.Draft202012Validator
    return _DIALECTS.get(found[1], newest) if found else newest


def _modern(schema: dict[str, Any]) -> dict[str, Any]:
    # Many schemas that name no dialect have lists of `items`, as up to draft-07.
    said = _plain(schema)
    if isinstance(said.get("items"), list):
        said["prefixItems"] = said.pop("items")
        if "additionalItems" in said:
            said["items"] = said.pop("additionalItems")
    return said


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """What OpenAPI 3.0 says in words of its own, in those of JSON Schema."""
    # `$id` would move references.
    said = {keyword: value for keyword, value in schema.items() if keyword != "$id"}
    kind = said.get("type")
    if said.get("nullable") is True and isinstance(kind, str):
        said["type"] = [kind, "null"]
    for strict, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(said.get(strict), bool):
            is_strict = said.pop(strict)
            if is_strict and limit in said:
                said[strict] = said.pop(limit)
    return said


def _lenient(schema: dict[str, Any]) -> dict[str, Any]:
    # These rules refuse more when others are left out; without them nothing is refused wrongly.
    said = {keyword: value for keyword, value in schema.items() if keyword not in _REFUSING}
    if "patternProperties" in said:
        said.pop("additionalProperties", None)
    if isinstance(said.get("oneOf"), list):
        either = [{"anyOf": said.pop("oneOf")}]
        said["allOf"] = [*said["allOf"], *either] if isinstance(said.get("allOf"), list) else either
    return said


def _leave_out_references(ready: Checked) -> None:
    def without(schema: dict[str, Any]) -> dict[str, Any]:
        for keyword in subschemas.REFERENCES:
            reference = schema.get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                leads = isinstance(subschemas.pointed(ready.schema, reference), dict | bool)
            except LookupError:
                leads = False
            if not leads:
                ready.left_out.append(f"“{printable(reference, 60)}”")
                schema = {name: value for name, value in schema.items() if name != keyword}
        return schema

    ready.schema = subschemas.mapped(ready.schema, without)


def _leave_out_patterns(ready: Checked) -> None:
    # Each takes memory when it is made ready, so a schema may have only so many.
    seen: list[str] = []

    def within(schema: dict[str, Any]) -> dict[str, Any]:
        named = schema.get("patternProperties")
        seen.extend(named if isinstance(named, dict) else ())
        if "pattern" in schema:
            seen.append("pattern")
        if len(seen) <= MAX_PATTERNS:
            return schema
        schema = _lenient(schema)
        return {keyword: value for keyword, value in schema.items() if "pattern" not in keyword}

    limited = subschemas.mapped(ready.schema, within)
    if len(seen) > MAX_PATTERNS:
        ready.schema = limited
        ready.left_out.append("most patterns")


def _cut(schema: Any, path: list[str | int]) -> str:
    """Takes what the library refuses out of the schema, and says what it was; "" if it cannot be found."""
    # The library leaves empty names out of its paths.
    *way, last = path or [""]
    try:
        place = schema
        for part in way:
            place = place[part]
        if isinstance(place, list) and way[-1:] != ["required"]:
            place[int(last)] = True
        else:
            del place[last]
    except (LookupError, TypeError, ValueError):
        return ""
    named = [str(part) for part in way if part not in ("properties", "items", "anyOf", "allOf", "oneOf")]
    whose = f" of “{printable(named[-1], 60)}”" if named else ""
    return f"“{printable(str(last), 60)}”{whose}"


def _extent(value: Any) -> tuple[int, int]:
    # How deep a value is nested, and how many parts it has; both no further than the limits.
    level, depth, size = [value], 0, 1
    while depth <= MAX_VALUE_DEPTH and size <= MAX_VALUES:
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            break
        depth += 1
        size += len(level)
    return depth, size
