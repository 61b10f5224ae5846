"""The client of a request: its revision of MCP, and the kinds of questions that it can be asked.

Since 2026-07-28 every request states both. Before, a handshake settled them for a session. Nothing is stored
between two requests, so the session's id contains the facts of the handshake. Its random part distinguishes
requests of two clients with one key, because each client numbers its requests from 1.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from core.canonical_json import digest
from protocols.mcp import headers as mcp_headers
from protocols.mcp import wire
from protocols.mcp.server.messages import Message, RefusedRequestError
from protocols.mcp.wire import (
    CLIENT_CAPABILITIES,
    FORM_KIND,
    HANDSHAKE,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_HEADER,
    MODERN,
    NAME_HEADER,
    PROTOCOL_VERSION,
    SERVER_REQUEST_KINDS,
    SESSION_HEADER,
    UNSUPPORTED_VERSION,
    URL_KIND,
    VERSION_HEADER,
    Number,
)
from protocols.server import EVENT_STREAM, ServerRequest

# The version without the header: https://modelcontextprotocol.io/specification/2025-06-18/basic/transports
DEFAULT_VERSION = "2025-03-26"
BATCHED = ("2025-03-26", "2024-11-05")
FORMS_SINCE, VISITS_SINCE = "2025-06-18", "2025-11-25"
# Members of a tool, by the last revision that does not have them.
UNKNOWN_UNTIL = {
    "2024-11-05": ("annotations",),
    "2025-03-26": ("title", "outputSchema", "_meta"),
    "2025-06-18": ("icons",),
}
# Kinds in the id of a session, which has visible ASCII characters only.
_WORDS = {FORM_KIND: "forms", URL_KIND: "visits"}
_SESSION = re.compile(r"[0-9a-f]{32}")
# The parameter that `Mcp-Name` repeats.
NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, kw_only=True)
class Client:
    """The client of a request.

    kinds: the kinds of requests that it answers while a tool runs.
    session: the random part of its session's id, "" without a session.
    mark: identifies the call that it requests, so that the client can cancel it.
    """

    version: str
    kinds: tuple[str, ...] = ()
    session: str = ""
    mark: str = ""

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN

    @property
    def unknown_members(self) -> frozenset[str]:
        """Return the members of a tool that its revision does not have."""
        names_of_revisions = [names for last, names in UNKNOWN_UNTIL.items() if self.version <= last]
        return frozenset(name for names in names_of_revisions for name in names)

    @property
    def asks_forms(self) -> bool:
        return FORM_KIND in self.kinds

    @property
    def session_id(self) -> str:
        return "-".join(["pegboard", self.session, *(_WORDS.get(kind, kind) for kind in self.kinds)])

    def marking(self, number: Number) -> Self:
        """Return the client with a mark that identifies its request with this id. Without a session there is
        none, because another client of the same key may use the same id.
        """
        return replace(self, mark=digest([self.session, number])) if self.session else self


def is_modern(request: ServerRequest, document: object) -> bool:
    """Return whether the rules since 2026-07-28 apply to a message."""
    version = request.headers.get(VERSION_HEADER)
    if version is not None and version not in HANDSHAKE:
        # An unknown version as well: the modern error lists the supported ones.
        return version in MODERN or _meta_of(document) is not None
    return version is None and PROTOCOL_VERSION in (_meta_of(document) or {})


def accepts_only_events(request: ServerRequest) -> bool:
    """Return whether a client accepts no JSON. It should accept both JSON and events."""
    accepted = request.headers.get("Accept", "*/*").lower()
    return EVENT_STREAM in accepted and "application/json" not in accepted and "*/*" not in accepted


def client_of_request(request: ServerRequest, message: Message) -> Client:
    """Return the client of a modern request. Raises RpcError if the request does not describe its client, or
    headers and body differ.
    """
    meta = message.params.get("_meta")
    needed = [PROTOCOL_VERSION, CLIENT_CAPABILITIES]
    if not isinstance(meta, dict) or (missing := [name for name in needed if name not in meta]):
        missing = missing if isinstance(meta, dict) else needed
        raise RefusedRequestError(INVALID_PARAMS, f"“params._meta” needs: {', '.join(missing)}.")
    version, capabilities = (meta[name] for name in needed)
    if request.headers.get(VERSION_HEADER) != version:
        raise _header_mismatch(VERSION_HEADER, "the version in “params._meta”")
    if request.headers.get(METHOD_HEADER) != message.method:
        raise _header_mismatch(METHOD_HEADER, "“method”")
    name = message.params.get(NAME_PARAMETERS.get(message.method, ""))
    if isinstance(name, str) and mcp_headers.decode_value(request.headers.get(NAME_HEADER, "")) != name:
        raise _header_mismatch(NAME_HEADER, f"“{NAME_PARAMETERS[message.method]}”")
    if version not in MODERN:
        raise unsupported_version(version, MODERN)
    if not isinstance(capabilities, dict):
        raise RefusedRequestError(INVALID_PARAMS, f"“{needed[1]}” is no object.")
    return _build_client(version, capabilities)


def client_in_session(request: ServerRequest) -> Client:
    """Return the client of a request after a handshake. Raises RpcError for an unknown version."""
    version = request.headers.get(VERSION_HEADER, DEFAULT_VERSION)
    if version not in HANDSHAKE:
        raise unsupported_version(version, [*MODERN, *HANDSHAKE])
    id_parts = request.headers.get(SESSION_HEADER, "").split("-")
    session = next((part for part in id_parts if _SESSION.fullmatch(part)), "")
    # Questions need a stream.
    if EVENT_STREAM not in request.headers.get("Accept", "").lower():
        id_parts = []
    kinds = tuple(kind for kind in SERVER_REQUEST_KINDS if _WORDS.get(kind, kind) in id_parts)
    return Client(version=version, kinds=kinds, session=session)


def client_of_handshake(params: Mapping[str, Any]) -> Client:
    """Return the client of a handshake, with the newest supported version if its own is unknown."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities")
    if not isinstance(version, str):
        raise RefusedRequestError(INVALID_PARAMS, "“protocolVersion” is missing.")
    client = _build_client(
        version if version in HANDSHAKE else HANDSHAKE[0],
        capabilities if isinstance(capabilities, dict) else {},
    )
    return replace(client, session=secrets.token_hex(16))


def check_mirrored_headers(
    request: ServerRequest, schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> None:
    """Raise RpcError if a header that repeats an argument differs from it: a proxy may have routed by it."""
    expected_headers = mcp_headers.mirrored_headers(schema, arguments)
    for name in mcp_headers.header_names_of(schema):
        header, value = request.headers.get(name), expected_headers.get(name)
        if header is None or value is None:
            is_same = header is value
        else:
            is_same = mcp_headers.decode_value(header) == mcp_headers.decode_value(value)
        if not is_same:
            raise _header_mismatch(name, "the argument")


def unsupported_version(version: object, supported: Sequence[str]) -> RefusedRequestError:
    data = {"supported": list(supported), "requested": version}
    return RefusedRequestError(UNSUPPORTED_VERSION, "This version of MCP is not known here.", data)


def _build_client(version: str, capabilities: Mapping[str, Any]) -> Client:
    since = {FORM_KIND: FORMS_SINCE, URL_KIND: VISITS_SINCE}
    kinds = [kind for kind in wire.kinds_of(capabilities) if version >= since.get(kind, "")]
    return Client(version=version, kinds=tuple(kinds))


def _meta_of(document: object) -> Mapping[str, Any] | None:
    params = document.get("params") if isinstance(document, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else None


def _header_mismatch(header: str, what: str) -> RefusedRequestError:
    return RefusedRequestError(HEADER_MISMATCH, f"The header {header} and {what} are not the same.")
