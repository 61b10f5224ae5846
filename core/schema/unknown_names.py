"""Names in a value that its schema neither describes nor refuses: an object is open unless it is closed.

Such a name may be a slip. It is reported with the described name that it resembles.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from core.schema import pointers, subschemas

MAX_REPORTED = 10
# Objects of the value and schemas that are looked at; what lies beyond is not reported.
MAX_OBJECTS = 1_000
MAX_SCHEMAS = 20_000
# How alike two names are (`difflib`): of any that is not described, and of one in a map of any names.
ALIKE, ALIKE_IN_A_MAP = 0.6, 0.8

Path = tuple[str | int, ...]
_OTHERS = ("additionalProperties", "unevaluatedProperties")


@dataclass(frozen=True, slots=True)
class UnknownName:
    """The name at the end of `path`. `proposal` is the described name that it resembles, "" if none does."""

    path: Path
    proposal: str = ""


@dataclass(slots=True)
class _Members:
    """What the schemas that apply to one object state of its members, and to one list of its entries.

    `takes_others`: they state that other names are welcome.
    """

    described: dict[str, list[Any]] = field(default_factory=dict)
    takes_others: bool = False
    entries: list[Any] = field(default_factory=list)


def unknown_names(document: Any, value: Any) -> list[UnknownName]:
    """Return the unknown names in `value`, which fits the schema `document`, in the order of the value.

    References in `document` are JSON Pointers into it.
    """
    return _Search(document).run(value)


class _Search:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._objects = self._schemas = 0

    def run(self, value: Any) -> list[UnknownName]:
        waiting: list[tuple[Any, list[Any], Path]] = [(value, [self._document], ())]
        reported: list[UnknownName] = []
        while waiting and len(reported) < MAX_REPORTED and self._objects < MAX_OBJECTS:
            value, schemas, path = waiting.pop()
            self._objects += 1
            members = self._members(schemas)
            if isinstance(value, list):
                inside = [(each, members.entries, (*path, number)) for number, each in enumerate(value)]
            else:
                described = members.described
                reported += _unknown(value, members, path)
                inside = [
                    (value[name], described[name], (*path, name)) for name in value if name in described
                ]
            waiting += [each for each in reversed(inside) if isinstance(each[0], dict | list) and each[1]]
        return reported[:MAX_REPORTED]

    def _members(self, schemas: Sequence[Any]) -> _Members:
        members, waiting, seen = _Members(), list(schemas), set()
        while waiting and self._schemas < MAX_SCHEMAS:
            schema = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            self._schemas += 1
            _add(members, schema)
            waiting += self._in_place(schema)
        return members

    def _in_place(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for keyword in subschemas.IN_PLACE:
            if keyword != "not":
                yield schema.get(keyword)
        for keyword in subschemas.IN_PLACE_LISTS:
            yield from schema[keyword] if isinstance(schema.get(keyword), list) else ()
        for keyword in subschemas.IN_PLACE_MAPS:
            yield from schema[keyword].values() if isinstance(schema.get(keyword), dict) else ()
        for keyword in subschemas.REFERENCES:
            if isinstance(reference := schema.get(keyword), str):
                try:
                    yield pointers.resolve_reference(self._document, reference)
                except LookupError:
                    continue


def _add(members: _Members, schema: Mapping[str, Any]) -> None:
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, dict) else ():
        members.described.setdefault(name, []).append(each)
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str):
            members.described.setdefault(name, [])
    is_map = any(schema.get(keyword, False) is not False for keyword in (*_OTHERS, "propertyNames"))
    members.takes_others = members.takes_others or is_map or "patternProperties" in schema
    for keyword in ("items", "additionalItems", "prefixItems"):
        entries = schema.get(keyword)
        members.entries += entries if isinstance(entries, list) else [entries]


def _unknown(value: Mapping[str, Any], members: _Members, path: Path) -> Iterator[UnknownName]:
    if not members.described:
        return
    left = [name for name in members.described if name not in value]
    for name in value:
        if name not in members.described:
            proposal = _resembling(name, left, ALIKE_IN_A_MAP if members.takes_others else ALIKE)
            if proposal or not members.takes_others:
                yield UnknownName((*path, name), proposal)


def _resembling(name: str, described: Sequence[str], least: float) -> str:
    by_form = {_form(each): each for each in reversed(described)}
    found = get_close_matches(_form(name), by_form, n=1, cutoff=least)
    return by_form[found[0]] if found else ""


def _form(name: str) -> str:
    # Programs write one name as `maxRows`, `max_rows` or `Max rows`.
    return "".join(character for character in name.casefold() if character.isalnum()) or name
