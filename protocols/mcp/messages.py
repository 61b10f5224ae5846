"""Messages of JSON-RPC in replies of MCP servers: which one answers, and which one asks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply
from core.strict_json import PartialDocument
from protocols import events

QUESTION = "elicitation/create"
ASKS_BACK = (QUESTION, "sampling/createMessage", "roots/list")
MAX_SAID_LENGTH = 500
MAX_NUMBER_LENGTH = 200
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# A message, with the document that it came in.
Found = tuple[dict[str, Any], PartialDocument]
Number = int | str


@dataclass(frozen=True, slots=True)
class Question:
    """What a tool asks on the stream of its call, with the number that the vendor gave it. The stream stays
    open as `reply` until it is answered, and `answered` are the numbers of those before it."""

    number: Number
    params: dict[str, Any]
    reply: str = ""
    answered: tuple[Number, ...] = ()


class RpcError(ProtocolViolationError):
    """The vendor answered with an error of JSON-RPC; `number` is its code there."""

    def __init__(self, number: int, said: str, data: object, status: int, host: str) -> None:
        self.number = number
        self.said = printable(said, MAX_SAID_LENGTH)
        self.data = data
        self.status = status
        super().__init__("RPC_ERROR", f"{host} answered with error {number}: {self.said or 'no words'}.")


def is_stream(reply: Reply) -> bool:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower() == events.KIND


def read(reply: Reply) -> Iterator[tuple[object, PartialDocument]]:
    """The messages of a reply, each with the document that it came in."""
    documents: Iterator[PartialDocument]
    if is_stream(reply):
        parsed = events.parse(reply.body)
        documents = (document_in(event) for event in parsed if event.name == "message" and event.data)
    else:
        documents = iter([strict_json.require_list(reply)])
    for document in documents:
        for message in messages_in(document):
            yield message, document


def document_in(event: events.Event) -> PartialDocument:
    # A message may hold a list of tools, one of which is broken.
    return strict_json.loads_list(event.data.encode())


def messages_in(document: PartialDocument) -> list[Any]:
    # Some revisions let servers send several messages in one array.
    return document.value if isinstance(document.value, list) else [document.value]


def is_last(event: events.Event, number: int, answered: Sequence[Number] = ()) -> bool:
    # Whether nothing that comes after `event` can matter.
    if event.name != "message" or not event.data:
        return False
    try:
        messages = messages_in(document_in(event))
    # What cannot be read is told where the whole reply is; waiting for more mends nothing.
    except ProtocolViolationError:
        return True
    return any(
        not isinstance(each, dict) or ("method" not in each and answers(each, number)) or asks(each, answered)
        for each in messages
    )


def is_sound(number: Number) -> bool:
    """Whether a number is one that can be kept and given back."""
    return len(number) <= MAX_NUMBER_LENGTH if isinstance(number, str) else abs(number) < 2**63


def asks(message: Mapping[str, Any], answered: Sequence[Number]) -> bool:
    return (
        message.get("method") in ASKS_BACK
        and type(message.get("id")) in (int, str)
        and message["id"] not in answered
    )


def answers(message: Mapping[str, Any], number: int) -> bool:
    # An error without a number belongs to the one request that was sent.
    given = message.get("id")
    return (given is None and "error" in message) or (type(given) is int and given == number)


def rpc_error(error: object, status: int, host: str) -> RpcError:
    number = error.get("code") if isinstance(error, dict) else None
    if not isinstance(error, dict) or type(number) is not int:
        raise shape("its error has no code", host)
    said = error.get("message")
    return RpcError(number, said if isinstance(said, str) else "", error.get("data"), status, host)


def supported(error: RpcError) -> list[Any]:
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return named if isinstance(named, list) else []


def mutual(error: RpcError, ours: Sequence[str]) -> str:
    # The newest of our versions that the vendor names, or nothing.
    return next((version for version in ours if version in supported(error)), "")


def shape(why: str, host: str) -> ProtocolViolationError:
    return ProtocolViolationError("SHAPE", f"The reply of {host} cannot be used: {why}.")
