"""Create many definitions from one JSON document, in one transaction.

The format of a tool is that of `POST definitions/` or that of the Tool System. A schema of calls, as the
export format `tool-system` writes it, is accepted too. Faults have paths: `tools.3.inputs` belongs to the
fourth tool.
"""

from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.models import Tool
from catalog.tools import definitions
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.query_deadline import long_transaction
from people.models import User
from protocols import definition
from protocols.definition import Parts
from protocols.list_pages import UnreadableItemError

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
MAX_UNKNOWN_SHOWN = 20


@long_transaction()
def define_all(document: Any, *, actor: User) -> list[Tool]:
    """Create the tools. Raises DomainError with the faults of all tools by path."""
    tools = tools_in(document)
    has_composed_tools = is_composed(document)
    parts: dict[int, Parts] = {}
    faults: dict[str, str] = {}
    for number, tool in enumerate(tools):
        try:
            parts[number] = _parse_tool(tool, is_composed=has_composed_tools)
        except UnreadableItemError as error:
            faults[_path_of(number)] = error.reason
        except DomainError as error:
            faults |= {_path_of(number, member): message for member, message in error.fields.items()}
    documents: dict[int, dict[str, Any]] = {}
    numbers_by_name: dict[str, int] = {}
    for number, tool_parts in parts.items():
        try:
            documents[number] = definitions.validated_document(tool_parts)
        except DomainError as error:
            faults |= {_path_of(number, member): message for member, message in error.fields.items()}
        name = tool_parts.name.strip()
        if numbers_by_name.setdefault(name, number) != number:
            message = _("Tool {number} of these is called “{name}” as well. Rename one.").format(
                number=numbers_by_name[name] + 1, name=printable(name, 64)
            )
            faults.setdefault(_path_of(number, "name"), message)
    endpoint = definitions.locked_home()
    taken_names = definitions.taken_names(numbers_by_name.keys())
    name_faults = {
        _path_of(numbers_by_name[name], "name"): definitions.name_taken_message(name) for name in taken_names
    }
    if faults:
        raise invalid(**{**name_faults, **faults})
    if name_faults:
        raise DomainError(
            "name_taken", _("Some of these names are taken already."), fields=name_faults, status=409
        )
    return [definitions.record_new(endpoint, document, actor=actor) for document in documents.values()]


def is_composed(document: Any) -> bool:
    return isinstance(document, dict) and "calls" in document


def tools_in(document: Any) -> list[Any]:
    """Return the tools of the document, unparsed. Raises DomainError if there are none or too many."""
    tools = document
    if is_composed(document):
        calls = document["calls"]
        items = calls.get("items") if isinstance(calls, dict) else None
        # A schema of calls with one tool may contain it without `anyOf`.
        tools = items.get("anyOf", [items]) if isinstance(items, dict) else None
    elif isinstance(document, dict):
        tools = document.get("tools")
    if not isinstance(tools, list):
        raise invalid(
            tools=_(
                "Enter the tools as a JSON array, or as a schema of calls in the format of the Tool System."
            )
        )
    if not tools:
        raise invalid(tools=_("Enter at least one tool."))
    if len(tools) > MAX_TOOLS:
        message = _("There are {count} tools. The limit is {maximum}. Send them in parts.").format(
            count=number_format(len(tools), force_grouping=True), maximum=MAX_TOOLS
        )
        raise DomainError("too_many_definitions", message, fields={"tools": message})
    return tools


def _parse_tool(tool: Any, *, is_composed: bool) -> Parts:
    if not isinstance(tool, dict):
        raise UnreadableItemError("SHAPE", _("A tool must be a JSON object, in braces."))
    if not is_composed and not definition.is_document(tool):
        unknown = [member for member in tool if member not in MEMBERS][:MAX_UNKNOWN_SHOWN]
        faults = dict.fromkeys(
            unknown,
            _("This member does not exist. The members are: {members}.").format(members=", ".join(MEMBERS)),
        )
        members: dict[str, Any] = {**OPTIONAL, **tool}
        for member, kind in MEMBERS.items():
            if member not in members:
                faults[member] = _("It is missing.")
            elif not isinstance(members[member], kind) and not (
                member == "activity" and members[member] is None
            ):
                faults[member] = (
                    _("Enter a text in quotes.")
                    if kind is str
                    else _("Enter a JSON Schema, which is an object.")
                )
        if faults:
            raise invalid(**faults)
        return Parts(**members)
    parts = definition.parts_of(tool)
    # In a schema of calls, `activity` belongs to the exporting system, so it is not imported.
    return definition.without_activity(parts) if is_composed else parts


def _path_of(number: int, member: str = "") -> str:
    return f"tools.{number}.{member}" if member else f"tools.{number}"
