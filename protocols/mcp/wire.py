"""Messages of MCP for client and server: JSON-RPC 2.0, its error numbers, names of headers and members of
`_meta`, and the capabilities of clients.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2025-11-25/basic
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core import json_parts, strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply
from core.strict_json import PartialDocument
from protocols import events

MODERN = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSION_HEADER, SESSION_HEADER = "MCP-Protocol-Version", "Mcp-Session-Id"
METHOD_HEADER, NAME_HEADER = "Mcp-Method", "Mcp-Name"
META = "io.modelcontextprotocol/"
PROTOCOL_VERSION, CLIENT_CAPABILITIES = f"{META}protocolVersion", f"{META}clientCapabilities"
CLIENT_INFO, SERVER_INFO = f"{META}clientInfo", f"{META}serverInfo"
SUBSCRIPTION_ID, META_LOG_LEVEL = f"{META}subscriptionId", f"{META}logLevel"
# Members of `_meta` that Pegboard defines.
USER, CALL, CODE, OUTCOME = "pegboard/on_behalf_of", "pegboard/call", "pegboard/code", "pegboard/outcome"
NOTES, RETRY, TRANSFER = "pegboard/notes", "pegboard/retry", "pegboard/transfer"
OUTPUT_SCHEMA, WIRE = "pegboard/output_schema", "pegboard/wire"
# From the level with the most messages to the one with the fewest.
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000  # errors that JSON-RPC has no number for
RESOURCE_NOT_FOUND = -32002  # before 2026-07-28
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_NEEDED = -32042  # of 2025-11-25

# Requests that a server sends to its client while a tool runs.
ELICITATION, SAMPLING, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
SERVER_REQUESTS = (ELICITATION, SAMPLING, ROOTS)
# Kinds of them that a client may declare, and the members of its capability `sampling` as kinds of their own.
FORM_KIND, URL_KIND, SAMPLING_KIND, ROOTS_KIND = "form", "url", "sampling", "roots"
SAMPLING_MEMBERS = {"sampling.tools": "tools", "sampling.context": "context"}
SERVER_REQUEST_KINDS = (FORM_KIND, URL_KIND, SAMPLING_KIND, *SAMPLING_MEMBERS, ROOTS_KIND)
REQUEST_REFUSED = -1  # the number with which a client refuses such a request
MAX_MESSAGE_LENGTH = 500
MAX_NUMBER_LENGTH = 200
# A message, with the document that it came in.
Found = tuple[dict[str, Any], PartialDocument]
Number = int | str


@dataclass(frozen=True, slots=True)
class VendorQuestion:
    """A request of the vendor on the stream of a call.

    number: the vendor's number. reply: the name of the stream, which stays open until the answer.
    answered: the numbers of earlier questions on the stream.
    """

    number: Number
    method: str
    params: dict[str, Any]
    reply: str = ""
    answered: tuple[Number, ...] = ()


class RpcError(ProtocolViolationError):
    """The vendor answered with an error of JSON-RPC. number: its code."""

    def __init__(self, number: int, vendor_message: str, data: object, status: int, host: str) -> None:
        self.number = number
        self.vendor_message = printable(vendor_message, MAX_MESSAGE_LENGTH)
        self.data = data
        self.status = status
        super().__init__(
            "RPC_ERROR", f"{host} answered with error {number}: {self.vendor_message or 'no words'}."
        )


def is_stream(reply: Reply) -> bool:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower() == events.KIND


def read_messages(reply: Reply) -> Iterator[tuple[object, PartialDocument]]:
    """Yield the messages of a reply, each with the document that contains it."""
    documents: Iterator[PartialDocument]
    if is_stream(reply):
        parsed = events.parse(reply.body)
        documents = (document_in(event) for event in parsed if event.name == "message" and event.data)
    else:
        documents = iter([strict_json.require_parts(reply)])
    for document in documents:
        for message in messages_in(document):
            yield message, document


def document_in(event: events.ServerSentEvent) -> PartialDocument:
    # A message may contain a list of tools, one of which is broken.
    return strict_json.loads_parts(event.data)


def messages_in(document: PartialDocument) -> list[Any]:
    # Some revisions let servers send several messages in one array.
    return document.value if isinstance(document.value, list) else [document.value]


def is_last(event: events.ServerSentEvent, number: int, answered: Sequence[Number] = ()) -> bool:
    """Return whether the events after `event` are irrelevant."""
    if event.name != "message" or not event.data:
        return False
    try:
        messages = messages_in(document_in(event))
    # An invalid message is reported when the whole reply is read; waiting for more does not help.
    except ProtocolViolationError:
        return True
    return any(
        not isinstance(message, dict)
        or ("method" not in message and answers(message, number))
        or asks(message, answered)
        for message in messages
    )


def is_storable(number: Number) -> bool:
    """Return whether the id of a request can be stored and sent back."""
    return len(number) <= MAX_NUMBER_LENGTH if isinstance(number, str) else abs(number) < 2**63


def asks(message: Mapping[str, Any], answered: Sequence[Number]) -> bool:
    return (
        message.get("method") in SERVER_REQUESTS
        and type(message.get("id")) in (int, str)
        and message["id"] not in answered
    )


def answers(message: Mapping[str, Any], number: int) -> bool:
    # An error without a number belongs to the one request that was sent.
    message_id = message.get("id")
    return (message_id is None and "error" in message) or (type(message_id) is int and message_id == number)


def rpc_error(error: object, status: int, host: str) -> RpcError:
    if json_parts.find_broken(error):
        error = strict_json.repair_value(error).value
    number = error.get("code") if isinstance(error, dict) else None
    if not isinstance(error, dict) or type(number) is not int:
        raise shape_error("its error has no code", host)
    message_text = error.get("message")
    return RpcError(
        number, message_text if isinstance(message_text, str) else "", error.get("data"), status, host
    )


def supported_versions(error: RpcError) -> list[Any]:
    versions = error.data.get("supported") if isinstance(error.data, dict) else None
    return versions if isinstance(versions, list) else []


def newest_mutual_version(error: RpcError, own_versions: Sequence[str]) -> str:
    # The newest of these versions that the vendor supports; "" without one.
    return next((version for version in own_versions if version in supported_versions(error)), "")


def shape_error(reason: str, host: str) -> ProtocolViolationError:
    return ProtocolViolationError("SHAPE", f"The reply of {host} cannot be used: {reason}.")


def request(number: Number, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params)}


def notification(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": dict(params)})}


def result(number: Number, result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def error(number: Number | None, code: int, message: str, data: object = None) -> dict[str, Any]:
    fields = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": number, "error": fields}


def id_of(document: object) -> Number | None:
    """Return the id of a message, however wrong the rest of it is."""
    number = document.get("id") if isinstance(document, dict) else None
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None


def capabilities_of(kinds: Collection[str]) -> dict[str, Any]:
    """Return the capabilities of a client that can be sent these kinds of requests."""
    capabilities: dict[str, Any] = {}
    if modes := [kind for kind in (FORM_KIND, URL_KIND) if kind in kinds]:
        capabilities["elicitation"] = {mode: {} for mode in modes}
    if SAMPLING_KIND in kinds:
        capabilities["sampling"] = {member: {} for kind, member in SAMPLING_MEMBERS.items() if kind in kinds}
    if ROOTS_KIND in kinds:
        capabilities["roots"] = {}
    return capabilities


def kinds_of(capabilities: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of requests that a client with these capabilities can be sent."""
    elicitation, sampling = capabilities.get("elicitation"), capabilities.get("sampling")
    kinds: list[str] = []
    if isinstance(elicitation, dict):
        # Before there were two kinds, an empty object meant forms.
        kinds += [
            kind
            for kind in (FORM_KIND, URL_KIND)
            if kind in elicitation or (kind, elicitation) == (FORM_KIND, {})
        ]
    if isinstance(sampling, dict):
        members = [
            kind for kind, member in SAMPLING_MEMBERS.items() if isinstance(sampling.get(member), dict)
        ]
        kinds += [SAMPLING_KIND, *members]
    if isinstance(capabilities.get("roots"), dict):
        kinds.append(ROOTS_KIND)
    return tuple(kinds)


def kinds_needed(method: str, params: Mapping[str, Any]) -> set[str]:
    """Return the kinds that a client must have declared to be sent this request."""
    if method == ELICITATION:
        return {URL_KIND if params.get("mode") == "url" else FORM_KIND}
    if method == ROOTS:
        return {ROOTS_KIND}
    needed = {SAMPLING_KIND}
    if "tools" in params or "toolChoice" in params:
        needed.add("sampling.tools")
    if params.get("includeContext") not in (None, "none"):
        needed.add("sampling.context")
    return needed
