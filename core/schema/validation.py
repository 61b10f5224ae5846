"""Validate values by a vendor's JSON Schema, which may be broken, hostile or in any dialect.

Nothing is fetched, patterns run in linear time, and a schema that could take long to validate with is not
used. A rule that cannot be checked is left out and named, so that it refuses nothing wrongly: the vendor
checks it anyway.
"""

import copy
import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import complexity, error_messages, regular_expressions, subschemas
from core.schema.bounds import SchemaBoundsError
from core.schema.dialects import Dialect, dialect_of
from core.schema.document import SchemaDocument, read_document
from core.schema.pointers import Steps
from core.schema.references import children

MAX_VALUE_DEPTH = 64
MAX_VALUES = 20_000
# The usual depth of arguments, for which the cost of a schema is computed.
USUAL_DEPTH = 6
# Schemas that apply to some part of a value. Explaining a fault takes memory for each of them.
MAX_JUDGED = 10_000_000
# Explaining a fault takes time and memory for each of them; refusing a value does not.
MAX_EXPLAINED = 30_000
# Required names times parts of the value: the error for each missing name holds a copy of the value. So does
# that for each part that is none of the allowed values, of all of these.
MAX_COPIED = 1_000_000
MIN_COPIED = 20  # parts: the memory of an error without its value
CHARACTERS_A_PART = 200
MAX_FAULTS = 50
# Each is compiled, and tried on each text.
MAX_PATTERNS = 100
# Those that take more memory than this, in bytes.
MAX_LARGE_PATTERNS = 10
LARGE_PATTERN = 100_000
# The library names one fault at a time.
MAX_REPAIRS = 20
# Bytes of all compiled schemas together, as text; a compiled one takes about thirty times as much memory.
MAX_COMPILED_BYTES = 1024 * 1024

Path = tuple[str | int, ...]

_REFUSING = frozenset(
    ("not", "if", "then", "else", "maxContains", "unevaluatedProperties", "unevaluatedItems")
)
_NOT_CHECKED = "Pegboard cannot check the vendor's schema, so only the vendor validates these inputs."


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a value, or its part at `path`, does not fit.

    why: follows the name of the part in a sentence. keyword: the broken rule of JSON Schema, "" for several.
    """

    path: Path
    why: str
    keyword: str = ""


@dataclass(slots=True)
class CompiledSchema:
    """A compiled schema in the internal form. left_out: the names of rules that are not checked."""

    schema: Any
    validator: jsonschema_rs.Validator | None
    left_out: list[str] = field(default_factory=list)
    _costs: dict[int, float] = field(default_factory=dict)
    _document: SchemaDocument | None = None
    _required_count: int | None = None
    _largest_values: int | None = None

    @property
    def required_count(self) -> int:
        """The number of names in all lists of required names."""
        if self._required_count is None:
            self._required_count = sum(
                len(part.get("required", ())) + sum(map(len, part.get("dependentRequired", {}).values()))
                for part in subschemas.walk(self.schema)
            )
        return self._required_count

    @property
    def largest_values(self) -> int:
        """The parts of the largest list of allowed values, each text counted by its length."""
        if self._largest_values is None:
            self._largest_values = max(
                (
                    _measure_value(part[keyword])[1] + len(canonical(part[keyword])) // CHARACTERS_A_PART
                    for part in subschemas.walk(self.schema)
                    for keyword in ("enum", "const")
                    if keyword in part
                ),
                default=0,
            )
        return self._largest_values

    def copied_count(self, size: int) -> int:
        """Return how many parts at most the errors about a value of `size` parts copy."""
        return self.required_count * (size + MIN_COPIED) + self.largest_values * size

    @property
    def document(self) -> SchemaDocument:
        """The schema with its levels, which are cached for the next value."""
        if self._document is None or self._document.root is not self.schema:
            self._document = SchemaDocument(self.schema, Dialect.DRAFT_2020)
        return self._document

    def cost_at(self, depth: int) -> float:
        """Return how many schemas may meet at one part of a value that is nested `depth` levels deep."""
        if depth not in self._costs:
            try:
                self._costs[depth] = complexity.require_bounded(self.schema, depth)
            except complexity.TooComplexError:
                self._costs[depth] = math.inf
        return self._costs[depth]

    @property
    def remark(self) -> str:
        """A sentence about the rules that are not checked; "" without any."""
        if self.validator is None:
            return _NOT_CHECKED
        if not self.left_out:
            return ""
        names = ", ".join(self.left_out[:3]) + (", …" if len(self.left_out) > 3 else "")
        return f"Pegboard cannot check all rules of the vendor, so only the vendor validates {names}."


_compiled: OrderedDict[str, tuple[int, CompiledSchema]] = OrderedDict()
_compiled_lock = threading.Lock()


def compiled(digest: str) -> CompiledSchema | None:
    """Return the compiled schema with this digest of its canonical JSON; None if it is not cached."""
    with _compiled_lock:
        if (entry := _compiled.get(digest)) is None:
            return None
        _compiled.move_to_end(digest)
        return entry[1]


def checked(schema: Any) -> CompiledSchema:
    """Return the compiled schema, from a bounded cache by digest."""
    try:
        text = canonical(schema)
    except RecursionError:
        # It is nested deeper than any schema that is read.
        return CompiledSchema(True, None)
    digest = hashlib.sha256(text).hexdigest()
    if ready := compiled(digest):
        return ready
    ready = _compile_schema(schema)
    with _compiled_lock:
        _compiled[digest] = len(canonical(ready.schema)), ready
        while len(_compiled) > 1 and sum(size for size, _ in _compiled.values()) > MAX_COMPILED_BYTES:
            _compiled.popitem(last=False)
    return ready


def _compile_schema(schema: Any) -> CompiledSchema:
    try:
        document = read_document(schema)
    except SchemaBoundsError:
        return CompiledSchema(True, None)
    root = subschemas.mapped(copy.deepcopy(document.root), _for_validation)
    # Name the rule that the internal form leaves out.
    ready = CompiledSchema(
        root,
        None,
        [
            (
                f"“{printable(finding.subject, 60)}”"
                if finding.code != "MALFORMED"
                else _named_rule(finding.subject, finding.place)
            )
            for finding in document.findings
        ],
    )
    _leave_out_patterns(ready)
    _leave_out_broken_patterns(ready)
    _relax_schema(ready)
    if not _is_bounded(ready):
        return ready
    for _ in range(MAX_REPAIRS):
        try:
            ready.validator = jsonschema_rs.Draft202012Validator(
                ready.schema, validate_formats=True, pattern_options=regular_expressions.OPTIONS, offline=True
            )
        except jsonschema_rs.ValidationError as error:
            if not (cut := _cut_refused_part(ready.schema, error.instance_path)):
                break
            ready.left_out.append(cut)
            _relax_schema(ready)
        except ValueError:
            # The library's own bound on nesting.
            break
        else:
            break
    return ready


def _relax_schema(ready: CompiledSchema) -> None:
    if ready.left_out:
        ready.schema = subschemas.mapped(ready.schema, _without_refusing_keywords)


def _is_bounded(ready: CompiledSchema) -> bool:
    """Take those properties out of the schema that could take too long to validate against.

    Return whether the rest can be validated against in bounded time.
    """
    if ready.cost_at(USUAL_DEPTH) < math.inf:
        return True
    properties = ready.schema.get("properties") if isinstance(ready.schema, dict) else None
    if not isinstance(properties, dict):
        return False
    unbounded = complexity.unbounded(ready.schema, properties, USUAL_DEPTH - 1)
    names = list(islice(unbounded, MAX_REPAIRS + 1))
    if len(names) > MAX_REPAIRS:
        return False
    for name in names:
        properties[name] = True
        ready.left_out.append(f"“{printable(name, 60)}”")
    _relax_schema(ready)
    ready._costs.clear()
    return ready.cost_at(USUAL_DEPTH) < math.inf


def is_schema(schema: Any) -> bool:
    """Return whether a schema is valid in its dialect, as far as nothing has to be fetched."""
    return jsonschema_rs.meta.is_valid(_with_dialect(schema))


def schema_fault(schema: Any) -> Fault | None:
    """Return the first fault of a schema by its dialect; None if it is valid."""
    try:
        jsonschema_rs.meta.validate(_with_dialect(schema))
    except jsonschema_rs.ValidationError as error:
        return next(_faults_of_error(error))
    return None


def _with_dialect(schema: Any) -> Any:
    if isinstance(schema, dict) and dialect_of(schema) in (Dialect.UNDECLARED, Dialect.DRAFT_2020):
        return schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return schema


def is_too_large(value: Any) -> bool:
    depth, size = _measure_value(value)
    return depth > MAX_VALUE_DEPTH or size > MAX_VALUES


def count_judgements(ready: CompiledSchema, value: Any) -> int:
    """Return how many schemas at most are applied to parts of a value, 0 where it is not validated."""
    depth, size = _measure_value(value)
    if ready.validator is None or depth > MAX_VALUE_DEPTH or size > MAX_VALUES:
        return 0
    judgements = _most_judgements(ready, value, depth, size)
    return int(judgements) if judgements <= MAX_JUDGED else 0


def _most_judgements(ready: CompiledSchema, value: Any, depth: int, size: int) -> float:
    return (size + len(canonical(value)) // CHARACTERS_A_PART) * ready.cost_at(depth)


def faults(ready: CompiledSchema, value: Any) -> list[Fault]:
    """Return all faults of `value` that can be found. It must not be too large."""
    return faults_or_too_large(ready, value) or []


def faults_or_too_large(ready: CompiledSchema, value: Any) -> list[Fault] | None:
    """Return all faults of `value`, and None if it is too large."""
    depth, size = _measure_value(value)
    if depth > MAX_VALUE_DEPTH or size > MAX_VALUES:
        return None
    if ready.validator is None:
        return []
    judgements = _most_judgements(ready, value, depth, size)
    if judgements > MAX_JUDGED or ready.validator.is_valid(value):
        return []
    if judgements > MAX_EXPLAINED or ready.copied_count(size) > MAX_COPIED:
        return [Fault((), "does not fit the vendor's schema")]
    all_faults = (fault for error in ready.validator.iter_errors(value) for fault in _faults_of_error(error))
    return list(islice(all_faults, MAX_FAULTS))


def _faults_of_error(error: jsonschema_rs.ValidationError) -> Iterator[Fault]:
    path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(name):
            yield Fault((*path, name), "is required")
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            yield from (Fault((*path, name), error_messages.UNKNOWN) for name in names)
        case Kind.AnyOf(forms) | Kind.OneOfNotValid(forms):
            yield from _faults_of_forms(path, forms)
        case _:
            yield Fault(path, error_messages.sentence(error), error.kind.name)


def _faults_of_forms(path: Path, forms: list[list[jsonschema_rs.ValidationError]]) -> Iterator[Fault]:
    # A form with another type than the value was not intended, so only faults of the other forms are
    # reported.
    candidates = [
        errors
        for errors in forms
        if not any(
            isinstance(error.kind, Kind.Type) and tuple(error.instance_path) == path for error in errors
        )
    ]
    if len(candidates) == 1:
        for error in candidates[0]:
            yield from _faults_of_error(error)
    elif candidates:
        missing = [
            [
                str(error.kind.property)
                if isinstance(error.kind, Kind.Required) and tuple(error.instance_path) == path
                else ""
                for error in errors
            ]
            for errors in candidates[: error_messages.MAX_NAMED]
        ]
        is_all = all(name for names in missing for name in names)
        yield Fault(path, error_messages.needs(missing) if is_all else error_messages.NO_FORM)
    else:
        kinds = [error.kind for errors in forms for error in errors]
        names = [name for kind in kinds if isinstance(kind, Kind.Type) for name in kind.types]
        yield Fault(path, f"must be {error_messages.types(names)}")


def _for_validation(schema: dict[str, Any]) -> dict[str, Any]:
    # Texts have no effect, and take memory.
    for keyword in ("title", "description", "$comment", "examples"):
        schema.pop(keyword, None)
    # The library names the members that an object is closed to only where it has properties.
    if schema.get("additionalProperties") is False:
        schema.setdefault("properties", {})
    return schema


def _without_refusing_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    # These rules refuse more if others are left out, so they are left out too.
    lenient = {keyword: value for keyword, value in schema.items() if keyword not in _REFUSING}
    if "patternProperties" in lenient:
        lenient.pop("additionalProperties", None)
    if isinstance(lenient.get("oneOf"), list):
        either = [{"anyOf": lenient.pop("oneOf")}]
        lenient["allOf"] = [*lenient["allOf"], *either] if isinstance(lenient.get("allOf"), list) else either
    return lenient


def _named_rule(keyword: str, place: Sequence[str | int]) -> str:
    names = [str(step) for step in place if step not in ("properties", "items", "anyOf", "allOf", "oneOf")]
    whose = f" of “{printable(names[-1], 60)}”" if names else ""
    return f"“{printable(keyword, 60)}”{whose}"


def _leave_out_patterns(ready: CompiledSchema) -> None:
    # Each compiled pattern takes memory, so their number is limited.
    patterns_seen: list[str] = []

    def within(schema: dict[str, Any]) -> dict[str, Any]:
        patterns = schema.get("patternProperties")
        patterns_seen.extend(patterns if isinstance(patterns, dict) else ())
        if "pattern" in schema:
            patterns_seen.append("pattern")
        if len(patterns_seen) <= MAX_PATTERNS:
            return schema
        schema = _without_refusing_keywords(schema)
        return {keyword: value for keyword, value in schema.items() if "pattern" not in keyword}

    limited = subschemas.mapped(ready.schema, within)
    if len(patterns_seen) > MAX_PATTERNS:
        ready.schema = limited
        ready.left_out.append("most patterns")


def _leave_out_broken_patterns(ready: CompiledSchema) -> None:
    # The library reports only one of them each time that the whole schema is compiled.
    waiting: list[tuple[Steps, Any]] = [((), ready.schema)]
    large_patterns = jsonschema_rs.RegexOptions(size_limit=LARGE_PATTERN)
    large_count = 0
    while waiting:
        place, schema = waiting.pop()
        waiting += [((*place, *steps), child) for steps, child in children(schema)] if schema else []
        pattern = schema.get("pattern") if isinstance(schema, dict) else None
        if not isinstance(pattern, str) or _compiles(pattern, large_patterns):
            continue
        large_count += 1
        if large_count > MAX_LARGE_PATTERNS or not _compiles(pattern, regular_expressions.OPTIONS):
            del schema["pattern"]
            ready.left_out.append(_named_rule("pattern", place))


def _compiles(pattern: str, options: jsonschema_rs.RegexOptions) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
    except jsonschema_rs.ValidationError:
        return False
    return True


def _cut_refused_part(schema: Any, path: list[str | int]) -> str:
    """Remove from the schema what the library refuses, and return its name; "" if it cannot be found."""
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
    return _named_rule(str(last), way)


def _measure_value(value: Any) -> tuple[int, int]:
    # The depth and the number of parts of a value, both counted up to the limits.
    level, depth, size = [value], 0, 1
    while depth <= MAX_VALUE_DEPTH and size <= MAX_VALUES:
        parts = [part for part in level if isinstance(part, dict | list)]
        if not parts:
            break
        level = []
        for part in parts:
            level += part.values() if isinstance(part, dict) else part
        if not level:
            break
        depth += 1
        size += len(level)
    return depth, size
