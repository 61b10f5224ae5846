"""Names in a value that its schema neither describes nor refuses: an object is open unless it is closed.

Such a name may be a slip. It is reported with the described name that it resembles.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from core.schema.dialects import AnySchema
from core.schema.document import SchemaDocument
from core.schema.objects import applicable_parts, branches_of

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
class _DescribedMembers:
    """The members that the schemas of one object describe, or the entries of one list.

    `takes_others`: they state that other names are welcome.
    """

    described: dict[str, list[AnySchema]] = field(default_factory=dict)
    takes_others: bool = False
    entries: list[AnySchema] = field(default_factory=list)


def unknown_names(document: SchemaDocument, value: Any) -> list[UnknownName]:
    """Return the unknown names in `value`, which fits the document, in the order of the value."""
    return _UnknownNameSearch(document).run(value)


class _UnknownNameSearch:
    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._objects = self._schemas = 0

    def run(self, value: Any) -> list[UnknownName]:
        waiting: list[tuple[Any, list[AnySchema], Path]] = []
        if isinstance(value, dict | list):
            waiting.append((value, [self._document.root], ()))
        reported: list[UnknownName] = []
        while waiting and len(reported) < MAX_REPORTED and self._objects < MAX_OBJECTS:
            value, schemas, path = waiting.pop()
            self._objects += 1
            members = _DescribedMembers()
            for part in applicable_parts(
                self._document,
                schemas,
                # A condition describes names too.
                lambda schema: [*branches_of(schema), *([schema["if"]] if "if" in schema else ())],
            ):
                for name, schema in part.get("properties", {}).items():
                    members.described.setdefault(name, []).append(schema)
                for name in part.get("required", ()):
                    members.described.setdefault(name, [])
                is_map = any(part.get(keyword, False) is not False for keyword in (*_OTHERS, "propertyNames"))
                members.takes_others = members.takes_others or is_map or "patternProperties" in part
                members.entries += [
                    *part.get("prefixItems", ()),
                    *([part["items"]] if "items" in part else ()),
                ]
                self._schemas += 1
                if self._schemas >= MAX_SCHEMAS:
                    break
            if isinstance(value, list):
                inside = [(entry, members.entries, (*path, number)) for number, entry in enumerate(value)]
            else:
                described = members.described
                reported += _find_unknown(value, members, path)
                inside = [
                    (value[name], described[name], (*path, name)) for name in value if name in described
                ]
            waiting += [entry for entry in reversed(inside) if isinstance(entry[0], dict | list) and entry[1]]
        return reported[:MAX_REPORTED]


def _find_unknown(value: Mapping[str, Any], members: _DescribedMembers, path: Path) -> Iterator[UnknownName]:
    if not members.described:
        return
    unused = [name for name in members.described if name not in value]
    for name in value:
        if name not in members.described:
            by_form = {_comparable_name(candidate): candidate for candidate in reversed(unused)}
            matches = get_close_matches(
                _comparable_name(name), by_form, n=1, cutoff=ALIKE_IN_A_MAP if members.takes_others else ALIKE
            )
            proposal = by_form[matches[0]] if matches else ""
            if proposal or not members.takes_others:
                yield UnknownName((*path, name), proposal)


def _comparable_name(name: str) -> str:
    # Programs write one name as `maxRows`, `max_rows` or `Max rows`.
    return "".join(character for character in name.casefold() if character.isalnum()) or name
