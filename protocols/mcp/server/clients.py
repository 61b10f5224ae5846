"""What a client of MCP speaks: its revision, and what it can be asked.

Since 2026-07-28 every request says both. Before, a handshake settled them for a session; as nothing is kept
here between two requests, the session's id says what has to be remembered of the handshake. By its random
part the requests of two clients with one key are told apart, as both count theirs from 1.

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
from protocols.mcp.server.messages import Message, RpcError
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
from protocols.server import EVENT_STREAM, Request

# What the header's absence means: https://modelcontextprotocol.io/specification/2025-06-18/basic/transports
UNTOLD = "2025-03-26"
BATCHED = ("2025-03-26", "2024-11-05")
FORMS_SINCE, VISITS_SINCE = "2025-06-18", "2025-11-25"
# Members of a tool that a revision does not know yet, by the last one that lacks them.
UNKNOWN_UNTIL = {
    "2024-11-05": ("annotations",),
    "2025-03-26": ("title", "outputSchema", "_meta"),
    "2025-06-18": ("icons",),
}
# Kinds as a session's id has them, which is of visible characters of ASCII.
_WORDS = {FORM_KIND: "forms", URL_KIND: "visits"}
_SESSION = re.compile(r"[0-9a-f]{32}")
# The parameter that `Mcp-Name` repeats.
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, kw_only=True)
class Client:
    """`kinds` are those of the requests that it answers while a tool runs. `session` is the random part of
    its session's id, "" where it sends none. `mark` is what a call that it asks for is marked with."""

    version: str
    kinds: tuple[str, ...] = ()
    session: str = ""
    mark: str = ""

    @property
    def is_modern(self) -> bool:
        return self.version in MODERN

    @property
    def unknown_members(self) -> frozenset[str]:
        """What its revision does not know of a tool."""
        found = [names for last, names in UNKNOWN_UNTIL.items() if self.version <= last]
        return frozenset(name for names in found for name in names)

    @property
    def asks_forms(self) -> bool:
        return FORM_KIND in self.kinds

    @property
    def session_id(self) -> str:
        return "-".join(["pegboard", self.session, *(_WORDS.get(kind, kind) for kind in self.kinds)])

    def marking(self, number: Number) -> Self:
        """The client as it sends the request of this number. Without a session no call is marked: another
        client of the same key may have a request of this number, too."""
        return replace(self, mark=digest([self.session, number])) if self.session else self


def is_modern(request: Request, document: object) -> bool:
    """Whether a message is to be judged by the rules since 2026-07-28."""
    version = request.headers.get(VERSION_HEADER)
    if version is not None and version not in HANDSHAKE:
        # An unknown one as well: they say which ones are known.
        return version in MODERN or _meta(document) is not None
    return version is None and PROTOCOL_VERSION in (_meta(document) or {})


def takes_events_alone(request: Request) -> bool:
    """Clients have to take both JSON and events, and some take only the one."""
    accepted = request.headers.get("Accept", "*/*").lower()
    return EVENT_STREAM in accepted and "application/json" not in accepted and "*/*" not in accepted


def modern(request: Request, message: Message) -> Client:
    """Raises RpcError where the request does not say who it comes from, or says two things."""
    meta = message.params.get("_meta")
    needed = [PROTOCOL_VERSION, CLIENT_CAPABILITIES]
    if not isinstance(meta, dict) or (missing := [name for name in needed if name not in meta]):
        missing = missing if isinstance(meta, dict) else needed
        raise RpcError(INVALID_PARAMS, f"“params._meta” needs: {', '.join(missing)}.")
    version, capabilities = (meta[name] for name in needed)
    if request.headers.get(VERSION_HEADER) != version:
        raise _mismatch(VERSION_HEADER, "the version in “params._meta”")
    if request.headers.get(METHOD_HEADER) != message.method:
        raise _mismatch(METHOD_HEADER, "“method”")
    named = message.params.get(NAMED.get(message.method, ""))
    if isinstance(named, str) and mcp_headers.plain(request.headers.get(NAME_HEADER, "")) != named:
        raise _mismatch(NAME_HEADER, f"“{NAMED[message.method]}”")
    if version not in MODERN:
        raise unsupported(version, MODERN)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"“{needed[1]}” is no object.")
    return _client(version, capabilities)


def of_handshake(request: Request) -> Client:
    """Raises RpcError for a version that is not known."""
    version = request.headers.get(VERSION_HEADER, UNTOLD)
    if version not in HANDSHAKE:
        raise unsupported(version, [*MODERN, *HANDSHAKE])
    said = request.headers.get(SESSION_HEADER, "").split("-")
    session = next((part for part in said if _SESSION.fullmatch(part)), "")
    # Questions go out on a stream.
    if EVENT_STREAM not in request.headers.get("Accept", "").lower():
        said = []
    kinds = tuple(kind for kind in SERVER_REQUEST_KINDS if _WORDS.get(kind, kind) in said)
    return Client(version=version, kinds=kinds, session=session)


def met(params: Mapping[str, Any]) -> Client:
    """Who introduces itself in a handshake. Of a version that we do not know, the newest that we do."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities")
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, "“protocolVersion” is missing.")
    client = _client(
        version if version in HANDSHAKE else HANDSHAKE[0],
        capabilities if isinstance(capabilities, dict) else {},
    )
    return replace(client, session=secrets.token_hex(16))


def check_mirrored(request: Request, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raises RpcError where headers that repeat arguments say something else: a proxy would have gone by
    them."""
    wanted = mcp_headers.mirrored(schema, arguments)
    for name in mcp_headers.names(schema):
        given, value = request.headers.get(name), wanted.get(name)
        if given is None or value is None:
            is_same = given is value
        else:
            is_same = mcp_headers.plain(given) == mcp_headers.plain(value)
        if not is_same:
            raise _mismatch(name, "the argument")


def unsupported(version: object, supported: Sequence[str]) -> RpcError:
    said = {"supported": list(supported), "requested": version}
    return RpcError(UNSUPPORTED_VERSION, "This version of MCP is not known here.", said)


def _client(version: str, capabilities: Mapping[str, Any]) -> Client:
    since = {FORM_KIND: FORMS_SINCE, URL_KIND: VISITS_SINCE}
    kinds = [kind for kind in wire.kinds_of(capabilities) if version >= since.get(kind, "")]
    return Client(version=version, kinds=tuple(kinds))


def _meta(document: object) -> Mapping[str, Any] | None:
    params = document.get("params") if isinstance(document, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else None


def _mismatch(header: str, what: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"The header {header} and {what} are not the same.")
