"""Messages of JSON-RPC 2.0 as MCP has them, and its errors.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404

from core.db_errors import outage
from core.errors import DomainError
from executor.serve.base import refusal_of
from protocols.server import Refusal

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000  # what JSON-RPC has no number for: a key, a limit, an agent that is not there
RESOURCE_NOT_FOUND = -32002  # before 2026-07-28
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

# Since 2026-07-28 the status of HTTP says what kind of error it is, so that proxies can tell.
STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}
NUMBERS = {"invalid_json": PARSE_ERROR, "too_large": INVALID_REQUEST, "server_error": INTERNAL_ERROR}

Id = str | int


class RpcError(DomainError):
    """An error of JSON-RPC; `number` is its code there, and `data` what the revision adds to it."""

    def __init__(self, number: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__("rpc_error", message, status=STATUS.get(number, 400))
        self.number = number
        self.data = data


@dataclass(frozen=True, kw_only=True)
class Message:
    """A request, or a notification or a response, which have no `id` to be answered by."""

    id: Id | None
    method: str
    params: Mapping[str, Any]


def read(document: object) -> Message:
    """Raises RpcError for what is no message."""
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "The body is no message of JSON-RPC 2.0: an object with “jsonrpc”.")
    number, method, params = document.get("id"), document.get("method", ""), document.get("params", {})
    if response_in(document):
        # An answer to a question that was not asked.
        return Message(id=None, method="", params={})
    if not isinstance(method, str) or not method:
        raise RpcError(INVALID_REQUEST, "“method” is missing.")
    if "id" in document and (isinstance(number, bool) or not isinstance(number, str | int)):
        raise RpcError(INVALID_REQUEST, "“id” is neither a text nor a whole number.")
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "“params” is no object.")
    return Message(id=number, method=method, params=params)


def response_in(document: object) -> tuple[Id | None, object] | None:
    """The number and the result of an answer to a request of ours; an error has no result."""
    if not isinstance(document, dict) or "method" in document:
        return None
    if "result" not in document and "error" not in document:
        return None
    return id_of(document), document.get("result")


def id_of(document: object) -> Id | None:
    """For an error about a message that could not be read."""
    number = document.get("id") if isinstance(document, dict) else None
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None


def result(number: Id, result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def error(number: Id | None, refused: RpcError) -> dict[str, Any]:
    said: dict[str, Any] = {"code": refused.number, "message": refused.message}
    if refused.data is not None:
        said["data"] = refused.data
    return {"jsonrpc": "2.0", "id": number, "error": said}


def of_refusal(refusal: Refusal) -> RpcError:
    """An error that is no business of MCP's, with our own code among its data."""
    number = NUMBERS.get(refusal.code, SERVER_ERROR)
    return RpcError(number, refusal.message, {"code": refusal.code, **_fields(refusal)})


def of_error(error: Exception) -> RpcError | None:
    """Of what happened to one of several messages, or after a stream has begun; None for a fault of ours."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, DomainError | Http404):
        return of_refusal(refusal_of(error))
    if found := outage(error):
        return of_refusal(Refusal(503, found.code, found.message))
    return None


def our_fault() -> RpcError:
    return of_refusal(Refusal(500, "server_error", "Pegboard failed to answer this message."))


def _fields(refusal: Refusal) -> dict[str, Any]:
    return {"fields": dict(refusal.fields)} if refusal.fields else {}
