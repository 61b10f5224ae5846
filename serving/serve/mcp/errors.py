"""Errors of MCP for what happened to one of several messages, or after a stream has begun."""

from django.http import Http404

from core.db_errors import outage
from core.errors import DomainError
from protocols.mcp.server.messages import RpcError, of_refusal
from protocols.server import Refusal
from serving.serve.base import refusal_of


def rpc_error_for(error: Exception) -> RpcError | None:
    """Return the error for the client; None for an unexpected error of Pegboard."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, DomainError | Http404):
        return of_refusal(refusal_of(error))
    if outage_error := outage(error):
        return of_refusal(Refusal(503, outage_error.code, outage_error.message))
    return None


def server_error() -> RpcError:
    return of_refusal(Refusal(500, "server_error", "Pegboard failed to answer this message."))
