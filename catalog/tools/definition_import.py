"""Many definitions at once, from one JSON document: all of them are made, or none.

Each is written as `POST definitions/` takes it, or in the form of the Tool System; a schema of calls, as the
format `tool-system` composes it, is taken whole. What is wrong is told by place: `tools.3.inputs` is of the
fourth tool.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catalog.models import Tool
from catalog.tools import definitions
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.query_deadline import long_transaction
from people.models import User
from protocols import definition
from protocols.base import UnreadableItemError
from protocols.definition import ACTIVITY, Parts

MAX_TOOLS = 200
MEMBERS: dict[str, type] = {
    "name": str,
    "title": str,
    "description": str,
    "inputs": dict,
    "output": dict,
    "activity": str,
}
OPTIONAL = {"title": "", "activity": None}
MAX_UNKNOWN_TOLD = 20


@long_transaction()
def define_all(given: Any, *, actor: User) -> list[Tool]:
    """Raises DomainError, which names the faults of all tools by their places."""
    parts, faults = _read(listed(given), is_composed=is_composed(given))
    documents: dict[int, dict[str, Any]] = {}
    seen: dict[str, int] = {}
    for number, each in parts.items():
        try:
            documents[number] = definitions.checked(each)
        except DomainError as error:
            faults |= {_place(number, member): said for member, said in error.fields.items()}
        name = each.name.strip()
        if seen.setdefault(name, number) != number:
            said = f"Tool {seen[name] + 1} of these is called “{printable(name, 64)}” as well. Rename one."
            faults.setdefault(_place(number, "name"), said)
    endpoint = definitions.locked_home()
    taken = definitions.taken(seen.keys())
    told = {_place(seen[name], "name"): definitions.why_taken(name) for name in taken}
    if faults:
        raise invalid(**{**told, **faults})
    if told:
        raise DomainError("name_taken", "Some of these names are taken already.", fields=told, status=409)
    return [definitions.record_new(endpoint, document, actor=actor) for document in documents.values()]


def is_composed(given: Any) -> bool:
    return isinstance(given, dict) and "calls" in given


def listed(given: Any) -> list[Any]:
    """The tools, unread. Raises DomainError for a document that holds none, or too many."""
    found = given
    if is_composed(given):
        calls = given["calls"]
        items = calls.get("items") if isinstance(calls, dict) else None
        # With one tool, it may stand there by itself.
        found = items.get("anyOf", [items]) if isinstance(items, dict) else None
    elif isinstance(given, dict):
        found = given.get("tools")
    if not isinstance(found, list):
        raise invalid(
            tools="Give the tools as an array, in brackets; or a schema of calls, as the Tool System has it."
        )
    if not found:
        raise invalid(tools="Give one tool or more.")
    if len(found) > MAX_TOOLS:
        said = f"There are {len(found):,} tools; {MAX_TOOLS} at once are the most. Send them in parts."
        raise DomainError("too_many_definitions", said, fields={"tools": said})
    return found


def _read(tools: list[Any], *, is_composed: bool) -> tuple[dict[int, Parts], dict[str, str]]:
    parts: dict[int, Parts] = {}
    faults: dict[str, str] = {}
    for number, each in enumerate(tools):
        try:
            parts[number] = _parts(each, is_composed=is_composed)
        except UnreadableItemError as error:
            faults[_place(number)] = error.reason
        except DomainError as error:
            faults |= {_place(number, member): said for member, said in error.fields.items()}
    return parts, faults


def _parts(each: Any, *, is_composed: bool) -> Parts:
    if not isinstance(each, dict):
        raise UnreadableItemError("SHAPE", "A tool is an object, in braces.")
    if not is_composed and "properties" not in each:
        return _plain(each)
    parts = definition.parts_of(each)
    if not is_composed:
        return parts
    # There it says what answered where the schema was composed; what answers here is decided here.
    beside = {member: said for member, said in parts.reserved.items() if member != ACTIVITY}
    if required := [member for member in beside.pop("required", ()) if member != ACTIVITY]:
        beside["required"] = required
    return replace(parts, activity=None, reserved=beside)


def _plain(each: Mapping[str, Any]) -> Parts:
    unknown = [member for member in each if member not in MEMBERS][:MAX_UNKNOWN_TOLD]
    faults = dict.fromkeys(unknown, f"There is no such member. There are: {', '.join(MEMBERS)}.")
    given: dict[str, Any] = {**OPTIONAL, **each}
    for member, kind in MEMBERS.items():
        if member not in given:
            faults[member] = "It is missing."
        elif not isinstance(given[member], kind) and not (member == "activity" and given[member] is None):
            faults[member] = (
                "Give a text in quotes." if kind is str else "Give a JSON Schema, which is an object."
            )
    if faults:
        raise invalid(**faults)
    return Parts(**given)


def _place(number: int, member: str = "") -> str:
    return f"tools.{number}.{member}" if member else f"tools.{number}"
