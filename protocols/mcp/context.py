"""Prompts, resources and resource templates of an MCP server: texts for the context of a model.

Each is an item like a tool. Its document in the catalog is the vendor's under the name of its kind. Its id is
the vendor's own name or address behind a prefix that no tool has, so that a prompt and a tool of one name
differ.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from protocols import members
from protocols.list_pages import Item, UnreadableItemError
from protocols.mcp import uri_templates
from protocols.signature import Annotations, ContextKind, Parameter, Signature

MAX_ARGUMENTS = 100
MAX_ID_LENGTH = 255
URI = "uri"  # the input of a resource template
MEDIA_TYPE = "contentMediaType"  # of JSON Schema, for the result of reading a resource


@dataclass(frozen=True, slots=True)
class ContextList:
    """A list of an MCP server beside that of its tools.

    capability: the member of the server's capabilities that declares it.
    member: the member of the result that contains the list.
    identity: the member of an entry that the vendor identifies it by.
    content_members: the members of an entry that a client is shown.
    """

    kind: ContextKind
    method: str
    member: str
    capability: str
    identity: str
    prefix: str
    content_members: frozenset[str]


LISTS = (
    ContextList(
        kind="prompt",
        method="prompts/list",
        member="prompts",
        capability="prompts",
        identity="name",
        prefix="prompt://",
        content_members=frozenset({"name", "title", "description", "arguments"}),
    ),
    ContextList(
        kind="resource",
        method="resources/list",
        member="resources",
        capability="resources",
        identity="uri",
        prefix="resource://",
        content_members=frozenset({"uri", "name", "title", "description", "mimeType"}),
    ),
    ContextList(
        kind="resource_template",
        method="resources/templates/list",
        member="resourceTemplates",
        capability="resources",
        identity="uriTemplate",
        prefix="resource-template://",
        content_members=frozenset({"uriTemplate", "name", "title", "description", "mimeType"}),
    ),
)
_LIST_BY_KIND = {one.kind: one for one in LISTS}


def list_of_id(tool_id: str) -> ContextList | None:
    """Return the list that an item with this id is in; None for a tool."""
    return next((one for one in LISTS if tool_id.startswith(one.prefix)), None)


def vendor_id(tool_id: str) -> str:
    """Return the vendor's own name or address of a prompt, resource or template."""
    context_list = list_of_id(tool_id)
    return tool_id.removeprefix(context_list.prefix) if context_list else tool_id


def list_of_document(document: Mapping[str, Any]) -> ContextList | None:
    """Return the list that a document of the catalog came from; None for the document of a tool."""
    # A tool has a name and an input schema, so its document is never a single member.
    return _LIST_BY_KIND.get(next(iter(document))) if len(document) == 1 else None  # type: ignore[call-overload]


def identify(context_list: ContextList, entry: object) -> Item:
    """Return the entry of a list as an item. Raises UnreadableItemError."""
    if not isinstance(entry, dict):
        raise members.wrong(context_list.kind, entry, "an object")
    tool_id = item_id(context_list, entry)
    document: dict[str, Any] = {context_list.kind: entry}
    content = members.content(document, context_list.kind.replace("_", " "))
    return Item(tool_id, "", (), hashlib.sha256(content).hexdigest(), document)


def item_id(context_list: ContextList, entry: Mapping[str, Any]) -> str:
    value = entry.get(context_list.identity)
    max_length = MAX_ID_LENGTH - len(context_list.prefix)
    if not isinstance(value, str) or not value.strip() or len(value) > max_length or not value.isprintable():
        expected = f"text of 1 to {max_length} characters without control characters"
        raise members.wrong(context_list.identity, value, expected, code="BAD_ID")
    return f"{context_list.prefix}{value}"


def read_signature(context_list: ContextList, document: Mapping[str, Any]) -> Signature:
    """Return the normal form of a document. Raises UnreadableItemError."""
    entry = document[context_list.kind]
    item_id(context_list, entry)
    media_type = members.text(entry, "mimeType") if context_list.kind != "prompt" else ""
    signature = Signature(
        name=members.name(entry, "name"),
        title=members.text(entry, "title"),
        description=members.text(entry, "description"),
        inputs=_read_inputs(context_list, entry),
        # Getting a prompt and reading a resource change nothing, by the protocol.
        annotations=Annotations(read_only=True),
        kind=context_list.kind,
        outputs_rest={MEDIA_TYPE: media_type} if media_type else None,
    )
    base_document = write(signature)[context_list.kind]
    entry_rest = {
        name: value
        for name, value in entry.items()
        if name not in base_document or members.encode(base_document[name]) != members.encode(value)
    }
    return replace(signature, rest=entry_rest or None)


def _read_inputs(context_list: ContextList, entry: Mapping[str, Any]) -> tuple[Parameter, ...]:
    if context_list.kind == "prompt":
        arguments = members.array(entry, "arguments")
        if len(arguments) > MAX_ARGUMENTS:
            reason = f"The prompt has {len(arguments):,} arguments; the limit is {MAX_ARGUMENTS}."
            raise UnreadableItemError("TOO_MANY_ARGUMENTS", reason)
        inputs = tuple(
            _read_argument(argument, f"arguments[{index}]") for index, argument in enumerate(arguments)
        )
        members.unique([parameter.name for parameter in inputs], "arguments")
        return inputs
    if context_list.kind == "resource_template":
        if not uri_templates.is_template(entry["uriTemplate"]):
            reason = "“uriTemplate” is no URI template (RFC 6570) with a variable."
            raise UnreadableItemError("BAD_TEMPLATE", reason)
        return (
            Parameter(
                id=URI,
                name=URI,
                type="string",
                required=True,
                description="An address that fits the template.",
            ),
        )
    return ()


def _read_argument(argument: object, where: str) -> Parameter:
    if not isinstance(argument, dict):
        raise members.wrong(where, argument, "an object")
    name = members.name(argument, "name", f"{where}.")
    required = argument.get("required")
    if required is not None and not isinstance(required, bool):
        raise members.wrong(f"{where}.required", required, "true or false")
    parameter = Parameter(
        id=name,
        name=name,
        type="string",
        required=bool(required),
        description=members.text(argument, "description", f"{where}."),
        title=members.text(argument, "title", f"{where}."),
    )
    base_argument = _write_argument(parameter)
    argument_rest = {
        member: value
        for member, value in argument.items()
        if member not in base_argument or base_argument[member] != value
    }
    return replace(parameter, rest=argument_rest or None)


def _write_argument(parameter: Parameter) -> dict[str, Any]:
    argument: dict[str, Any] = {"name": parameter.name}
    if parameter.title:
        argument["title"] = parameter.title
    if parameter.description:
        argument["description"] = parameter.description
    if parameter.required:
        argument["required"] = True
    return argument


def write(signature: Signature) -> dict[str, Any]:
    """Return the document that `read` reads into this signature."""
    entry: dict[str, Any] = {"name": signature.name}
    if signature.title:
        entry["title"] = signature.title
    if signature.description:
        entry["description"] = signature.description
    if signature.kind == "prompt" and signature.inputs:
        entry["arguments"] = [
            _write_argument(parameter) | (parameter.rest or {}) for parameter in signature.inputs
        ]
    if signature.outputs_rest:
        entry["mimeType"] = signature.outputs_rest[MEDIA_TYPE]
    return {signature.kind: entry | (signature.rest or {})}


def audience_form(context_list: ContextList, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a client is shown of a document: changes of the rest make no version."""
    entry = document[context_list.kind]
    return {
        context_list.kind: {
            name: value for name, value in entry.items() if name in context_list.content_members
        }
    }
