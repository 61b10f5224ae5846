"""Reduce a tool's document to the content that models see and calls need. Pure.

What is left out makes no version, so these are the same in the reduced form:

- values of `enum`, constants of a union and dependent names in another order;
- definitions and anchors under other names, `definitions` for `$defs`, and definitions that nothing uses;
- `_meta` and extension members (`x-...`), unless a call reads them or they name values of an `enum`;
- a default or an example that the vendor makes of its clock, which differs in each reading.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from core.schema import loops, pointers, subschemas
from core.schema.pointers import Steps

Digest = Callable[[object], str]

META = "_meta"
# A default further from the reading than this was chosen, and not made of the clock.
CLOCK_WINDOW = timedelta(days=31)
# Renaming the definitions costs their number times the size of the schema; beyond this the names count.
MAX_RENAMING_WORK = 20_000_000  # bytes
_EPOCHS = ((10, 1), (13, 1_000), (16, 1_000_000))  # digits, and units in a second
_MAY_HOLD_MOMENTS = ("default", "example", "examples")
_ANCHORS = ("$anchor", "$dynamicAnchor", "$recursiveAnchor")
# A reference that is no pointer, or a name that is a value on the wire: then the names of definitions count.
_NAMED_OTHERWISE = (*_ANCHORS, "$id", "id", "$dynamicRef", "$recursiveRef", "discriminator")


def is_extension(member: str) -> bool:
    """Return whether a member is for programs of the vendor's choice, and not for models or calls."""
    return member == META or member.startswith("x-")


def without_extensions(value: Any, needed: Collection[str] = ()) -> Any:
    """Return an object without its extension members, apart from those that are `needed`."""
    if not isinstance(value, dict):
        return value
    return {name: content for name, content in value.items() if name in needed or not is_extension(name)}


def canonical_schema(
    schema: Any, read_at: datetime | None, digest: Digest, needed: Collection[str] = ()
) -> Any:
    """Return a form that is the same for two schemas that no model and no call tells apart.

    needed: extension members that calls read.
    """
    reduced = subschemas.mapped(schema, partial(_reduced_schema, read_at=read_at, needed=needed))
    return canonical_names(reduced, digest)


def _reduced_schema(
    schema: dict[str, Any], read_at: datetime | None, needed: Collection[str]
) -> dict[str, Any]:
    value_names: dict[str, Any] = {}
    if isinstance(schema.get("enum"), list):
        # Such as `x-enum-varnames` or `enumNames`: a list by the order of the values, an object by value.
        value_names = {
            name: value
            for name, value in schema.items()
            if name != "enum" and name.startswith(("x-", "enum")) and isinstance(value, list | dict)
        }
    reduced: dict[str, Any] = without_extensions(schema, {*needed, *value_names})
    if isinstance(schema.get("enum"), list):
        lists = {name: names for name, names in value_names.items() if isinstance(names, list)}
        lists["enum"] = values = schema["enum"]
        if all(len(names) == len(values) for names in lists.values()):
            order = sorted(range(len(values)), key=lambda index: _as_text(values[index]))
            reduced |= {name: [names[index] for index in order] for name, names in lists.items()}
    reduced |= {keyword: _without_order(keyword, value) for keyword, value in reduced.items()}
    for keyword in subschemas.DEFINITIONS:
        if reduced.get(keyword) == {}:
            del reduced[keyword]
    if read_at:
        moments = {name: schema[name] for name in _MAY_HOLD_MOMENTS if name in schema}
        reduced |= {name: without_moments(value, read_at) for name, value in moments.items()}
    return reduced


def _without_order(keyword: str, value: Any) -> Any:
    """Return the value of a keyword, sorted where its order means nothing."""
    if keyword in ("dependentRequired", "dependencies") and isinstance(value, dict):
        return {
            name: sorted(names, key=_as_text) if isinstance(names, list) else names
            for name, names in value.items()
        }
    is_list = keyword in ("anyOf", "oneOf") and isinstance(value, list)
    if is_list and all(
        isinstance(branch, dict) and ("const" in branch or "enum" in branch or branch.get("type") == "null")
        for branch in value
    ):
        return in_one_order(value)
    return value


def in_one_order(values: list[Any]) -> list[Any]:
    return sorted(values, key=_as_text)


def _as_text(value: Any) -> str:
    # Lists of texts can be long, and this is faster for a text.
    return json.dumps(value) if isinstance(value, str) else json.dumps(value, sort_keys=True)


def without_moments(value: Any, read_at: datetime) -> Any:
    """Return `value` with each moment near the reading replaced by its notation."""
    if isinstance(value, dict):
        return {name: without_moments(part, read_at) for name, part in value.items()}
    if isinstance(value, list):
        return [without_moments(part, read_at) for part in value]
    if not is_near(value, read_at):
        return value
    # Another way to write a moment, or a moment in place of a day, is a change that a model sees.
    return {"$moment": re.sub(r"[0-9]+", "0", value) if isinstance(value, str) else type(value).__name__}


def is_near(value: Any, read_at: datetime) -> bool:
    """Return whether `value` is a moment or a day within `CLOCK_WINDOW` of the reading."""
    moment = _parse_moment(value)
    return moment is not None and abs(moment - read_at) <= CLOCK_WINDOW


def _parse_moment(value: Any) -> datetime | None:
    try:
        if isinstance(value, str) and (len(value) == len("20260101") or not value.isdigit()):
            if not 8 <= len(value) <= 40:
                return None
            try:
                text = value.removesuffix(" UTC").removesuffix(" GMT").replace("/", "-")
                moment = datetime.fromisoformat(text)
            except ValueError:
                moment = parsedate_to_datetime(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
        digits = len(str(int(number)))
        units = next((unit for length, unit in _EPOCHS if length == digits), None)
        return datetime.fromtimestamp(number / units, UTC) if units else None
    except (ValueError, OverflowError, OSError):
        return None


def canonical_names(schema: Any, digest: Digest) -> Any:
    """Return the schema with its definitions named by their content, and without unused ones.

    Two schemas that differ in these names alone come out equal. The name of a definition is its digest, in
    which a reference is the digest of its target; the digests are refined until they distinguish no more.
    """
    schema = _without_anchors(schema)
    definitions = dict(_list_definitions(schema, ()))
    has_other_names = any(name in part for part in subschemas.walk(schema) for name in _NAMED_OTHERWISE)
    if not definitions or has_other_names:
        return schema
    definitions = _used_definitions(schema, definitions)
    if len(definitions) * len(repr(schema)) > MAX_RENAMING_WORK:
        return schema
    names = dict.fromkeys(definitions, "")
    while True:
        finer = {
            steps: digest(_rename_definitions(definition, steps, names))
            for steps, definition in definitions.items()
        }
        is_stable = len(set(finer.values())) == len(set(names.values()))
        names = finer
        if is_stable:
            return _rename_definitions(schema, (), names)


def _without_anchors(schema: Any) -> Any:
    """Return the schema with pointers in place of its anchors; the schema itself where one is needed."""
    if not any(name in part for part in subschemas.walk(schema) for name in _ANCHORS):
        return schema
    with_pointers = loops.with_pointers(schema)
    if not all(map(loops.is_pointer, subschemas.references(with_pointers))):
        return schema

    def without_names(part: dict[str, Any]) -> dict[str, Any]:
        return {keyword: value for keyword, value in part.items() if keyword not in _ANCHORS}

    return subschemas.mapped(with_pointers, without_names)


def _used_definitions(schema: Any, definitions: Mapping[Steps, Any]) -> dict[Steps, Any]:
    """Return the definitions that are referred to from outside, or from one of these."""
    used: dict[Steps, Any] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        inside = [
            child for keyword, _, child in subschemas.children(part) if keyword not in subschemas.DEFINITIONS
        ]
        waiting += inside
        for reference in subschemas.own_references(part):
            with suppress(pointers.PointerError):
                steps = pointers.split_fragment(reference)
                parents = [steps[:length] for length in range(1, len(steps) + 1)]
                new = {
                    place: definitions[place]
                    for place in parents
                    if place in definitions and place not in used
                }
                used |= new
                waiting += new.values()
    return used


def _list_definitions(schema: Any, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    for keyword, name, child in subschemas.children(schema):
        below = (*steps, keyword) if name is None else (*steps, keyword, name)
        if keyword in subschemas.DEFINITIONS:
            yield below, child
        yield from _list_definitions(child, below)


def _rename_definitions(schema: Any, steps: Steps, names: Mapping[Steps, str]) -> Any:
    if not isinstance(schema, dict):
        return schema
    renamed = dict(schema)
    groups: dict[str, list[tuple[str, Any]]] = {}
    defined: list[tuple[str, Any]] = []
    for keyword, name, child in subschemas.children(schema):
        below = (*steps, keyword) if name is None else (*steps, keyword, name)
        if name is None:
            renamed[keyword] = _rename_definitions(child, below, names)
            continue
        if keyword in subschemas.DEFINITIONS:
            renamed.pop(keyword, None)
            if below in names:
                defined.append((names[below], _rename_definitions(child, below, names)))
        else:
            groups.setdefault(keyword, []).append((name, _rename_definitions(child, below, names)))
    for keyword, entries in groups.items():
        is_map = isinstance(schema[keyword], dict)
        renamed[keyword] = dict(entries) if is_map else [entry for _, entry in entries]
    if defined:
        # The older keyword means the same.
        renamed["$defs"] = sorted(defined, key=_as_text)
    if isinstance(reference := schema.get("$ref"), str):
        renamed["$ref"] = _renamed_reference(reference, names)
    return renamed


def _renamed_reference(reference: str, names: Mapping[Steps, str]) -> object:
    try:
        steps = pointers.split_fragment(reference)
    except pointers.PointerError:
        return reference
    for length in range(len(steps), 0, -1):
        name = names.get(steps[:length])
        if name is not None:
            return ["definition", name, *map(pointers.escape, steps[length:])]
    return reference
