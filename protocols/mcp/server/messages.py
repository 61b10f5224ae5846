"""Messages of MCP clients, and the errors that they are answered with.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import DomainError
from protocols.mcp import wire
from protocols.mcp.wire import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    SERVER_ERROR,
    UNSUPPORTED_VERSION,
    Number,
)
from protocols.server import Refusal

logger = logging.getLogger(__name__)
# Since 2026-07-28 the HTTP status reflects the kind of the error, for proxies.
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


class RefusedRequestError(DomainError):
    """An error of JSON-RPC. number: its code. data: additional facts that the revision defines."""

    def __init__(self, number: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__("rpc_error", message, status=STATUS.get(number, 400))
        self.number = number
        self.data = data


@dataclass(frozen=True, kw_only=True)
class Message:
    """A request, or a notification or response, whose `id` is None because it has no answer."""

    id: Number | None
    method: str
    params: Mapping[str, Any]


def read_message(document: object) -> Message:
    """Return a message. Raises RpcError if the document is not a message."""
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise RefusedRequestError(
            INVALID_REQUEST, "The body is no message of JSON-RPC 2.0: an object with “jsonrpc”."
        )
    number, method, params = document.get("id"), document.get("method", ""), document.get("params", {})
    if response_in(document):
        # An answer to a question that was not asked.
        return Message(id=None, method="", params={})
    if not isinstance(method, str) or not method:
        raise RefusedRequestError(INVALID_REQUEST, "“method” is missing.")
    if "id" in document and (isinstance(number, bool) or not isinstance(number, str | int)):
        raise RefusedRequestError(INVALID_REQUEST, "“id” is neither a text nor a whole number.")
    if not isinstance(params, dict):
        raise RefusedRequestError(INVALID_PARAMS, "“params” is no object.")
    return Message(id=number, method=method, params=params)


def response_in(document: object) -> tuple[Number | None, object] | None:
    """Return the number and the result of a response to Pegboard's request; the result of an error is
    None.
    """
    if not isinstance(document, dict) or "method" in document:
        return None
    if "result" not in document and "error" not in document:
        return None
    return wire.id_of(document), document.get("result")


def error(number: Number | None, refused: RefusedRequestError) -> dict[str, Any]:
    return wire.error(number, refused.number, refused.message, refused.data)


def error_for(
    number: Number | None, raised: Exception, refusal_for: Callable[[Exception], Refusal | None]
) -> dict[str, Any]:
    """Return the error for what happened to one of several messages, or after a stream has begun."""
    if isinstance(raised, RefusedRequestError):
        return error(number, raised)
    refusal = refusal_for(raised)
    if refusal is None:
        logger.exception("a message failed")
        refusal = Refusal(500, "server_error", "Pegboard failed to answer this message.")
    return error(number, of_refusal(refusal))


def of_refusal(refusal: Refusal) -> RefusedRequestError:
    """Return an error that MCP does not define, with Pegboard's code in its data."""
    number = NUMBERS.get(refusal.code, SERVER_ERROR)
    return RefusedRequestError(
        number,
        refusal.message,
        {"code": refusal.code, **({"fields": dict(refusal.fields)} if refusal.fields else {})},
    )
