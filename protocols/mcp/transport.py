"""Conversations with an MCP server, in both eras of the protocol.

Since 2026-07-28 requests need no session. Before, a handshake opened a session. The era of a vendor is
detected once and stored; when the stored era no longer works, it is detected again.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, UnavailableError
from core.outbound.listening import Listening
from core.value_descriptions import describe_value
from protocols import events
from protocols.base import Session
from protocols.call_outcome import QUESTIONS
from protocols.mcp import headers as mcp_headers
from protocols.mcp import questions, rpc, wire
from protocols.mcp.eras import Era
from protocols.mcp.rpc import BOTH_FORMS, OtherEraError, RpcRequest, RpcResponse, SentRequest
from protocols.mcp.wire import (
    HANDSHAKE,
    HEADER_MISMATCH,
    METHOD_HEADER,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN,
    NAME_HEADER,
    SESSION_HEADER,
    UNSUPPORTED_VERSION,
    VERSION_HEADER,
    RpcError,
    VendorQuestion,
)

LOG_LEVEL = "info"  # the lowest level of log messages that followers of a call receive

_KNOWN_TO_MODERN = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND)
# The errors of servers for a request outside of a session.
_NO_SESSION = (wire.SERVER_ERROR, -32001, wire.INVALID_REQUEST)


class Transport:
    """One conversation with a server.

    used: the last used number of a request. Numbers are the same in every run.
    questions: the kinds of questions that a tool may ask. Before 2026-07-28 it asks on the stream of its call
        and waits there.
    era: a fixed era; "" detects it.
    """

    def __init__(
        self,
        session: Session,
        used: int = 1,
        questions: Collection[str] = QUESTIONS,
        era: Era = "",
    ) -> None:
        self.session = session
        self.used = used
        self.questions = questions
        # Some servers list a tool with questions only for clients that can be asked.
        self.capabilities = wire.capabilities_of(questions)
        self.host = urlsplit(session.root).netloc
        self.has_opened = False
        self.era = era
        self._memory: dict[str, Any] = {"era": era} if era else session.memory
        self._opened: dict[str, str] | None = None
        self._server_capabilities: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ends the session of the vendor, unless the vendor does not answer or the time is over.
        ending_errors = (GeneratorExit, RefusedError, ProtocolViolationError)
        if kind is None or issubclass(kind, ending_errors):
            rpc.end_session(self.session, self._opened or {})
            self._opened = None

    @property
    def is_modern(self) -> bool:
        """Return whether the vendor is known to support a revision since 2026-07-28."""
        return self._memory.get("era") == "modern"

    def ask(self, request: RpcRequest) -> RpcResponse:
        """Send a request and return its answer. Raises RpcError for an error of JSON-RPC, else
        ProtocolError.
        """
        if self.era:
            try:
                return (
                    self._ask_modern(request, is_sure=True)
                    if self.is_modern
                    else self._ask_in_handshake(request)
                )
            except OtherEraError as error:
                raise error.error from error
        with suppress(OtherEraError):
            if answer := self._as_remembered(request):
                return answer
        # The stored era no longer works.
        self._opened = None
        for fact in ("era", "version"):
            self._memory.pop(fact, None)
        if request.is_harmless:
            return self._find_out(request)
        # A call must not be sent to detect the era, because it has effects.
        self._find_out(RpcRequest("tools/list"))
        try:
            answer = self._as_remembered(request)
        except OtherEraError as error:
            raise error.error from error
        return answer or self._find_out(request)

    def server_capabilities(self) -> Mapping[str, Any]:
        """Return the capabilities that the server declares. Another request has to come first.

        Raises the errors of `ask`.
        """
        if self.is_modern:
            self._server_capabilities = self.ask(RpcRequest("server/discover")).result.get("capabilities")
        return self._server_capabilities if isinstance(self._server_capabilities, dict) else {}

    def watch(self, uris: Sequence[str], seconds: float) -> Listening:
        """Open the stream on which the server reports updates of these resources. Raises as `ask` does."""
        if self._memory.get("era") is None:
            self._find_out(RpcRequest("tools/list"))
        if self.is_modern:
            self.used += 1
            request = RpcRequest(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}}
            )
            params, headers = self._stand_alone_parts(request, self._memory.get("version") or MODERN[0])
            message = wire.request(self.used, request.method, params)
            headers = {"Accept": BOTH_FORMS, **headers}
            return self.session.listen("", headers, json=message, seconds=seconds)
        try:
            opened = self._opened or self._open_session()
        except OtherEraError as error:
            raise error.error from error
        # Before the subscriptions, so that no update is missed.
        listening = self.session.listen("", {**opened, "Accept": events.KIND}, seconds=seconds)
        try:
            for uri in uris:
                self.ask(RpcRequest("resources/subscribe", {"uri": uri}))
        except ProtocolError:
            listening.close()
            raise
        return listening

    def answer(self, question: VendorQuestion, response: Mapping[str, Any] | None) -> RpcResponse:
        """Continue the call that stopped for `question`; None refuses it. Raises the errors of `ask`."""
        open_question = questions.find(self.session, question)
        if open_question is None:
            raise RefusedError("QUESTION_OVER", f"{self.host} no longer waits for the answer.")
        try:
            return open_question.answer(response)
        finally:
            if open_question.is_over:
                self._opened = open_question.headers

    def give_up(self, question: VendorQuestion, reason: str) -> None:
        """End a call that stopped for a question which will not be answered."""
        if open_question := questions.find(self.session, question):
            open_question.give_up(reason)
            self._opened = open_question.headers

    def keep_session(self) -> str | None:
        """Leave the vendor's session open for another conversation and return its name. None if there is no
        session or it cannot be stored: then it ends with this conversation.
        """
        if SESSION_HEADER not in (self._opened or {}):
            return None
        name = self.session.keep_facts({"headers": self._opened})
        if name:
            self._opened = None
        return name

    def continue_session(self, name: str) -> None:
        """Continue in the session with this name, if it is still stored."""
        if facts := self.session.find_facts(name):
            self._opened = dict(facts["headers"])

    def _as_remembered(self, request: RpcRequest) -> RpcResponse | None:
        match self._memory.get("era"):
            case "modern":
                return self._ask_modern(request, is_sure=True)
            case "handshake":
                return self._ask_in_handshake(request)
        return None

    def _find_out(self, request: RpcRequest) -> RpcResponse:
        used = self.used
        try:
            answer = self._ask_modern(request, is_sure=False)
        except OtherEraError as first:
            # The same number again, so that the reply equals that of later runs and its page is found.
            self.used = used
            try:
                return self._ask_in_handshake(request)
            except OtherEraError as second:
                # Of the failures in both eras the more helpful one: the server's message instead of a status.
                is_first = isinstance(first.error, RpcError | UnavailableError)
                is_first = is_first and not isinstance(second.error, RpcError)
                raise (first if is_first else second).error from second
        self._memory["era"] = "modern"
        return answer

    def _ask_modern(self, request: RpcRequest, *, is_sure: bool) -> RpcResponse:
        version = self._memory.get("version") if is_sure else None
        try:
            try:
                return self._stand_alone(request, version or MODERN[0])
            except RpcError as error:
                other = wire.newest_mutual_version(error, MODERN)
                if not other:
                    raise
                return self._stand_alone(request, other)
        except RpcError as error:
            if error.number == UNSUPPORTED_VERSION:
                supported = wire.supported_versions(error)
                is_of_other_era = bool(wire.newest_mutual_version(error, HANDSHAKE) or not supported)
                if not is_of_other_era:
                    raise self._no_version(supported) from error
            elif is_sure:
                is_of_other_era = error.status >= 400 and error.number in _NO_SESSION
            else:
                is_of_other_era = error.number not in _KNOWN_TO_MODERN
            if is_of_other_era:
                raise OtherEraError(error) from error
            self._memory["era"] = "modern"
            raise
        except UnavailableError as error:
            # Some older servers fail on an unknown request. A real outage also fails in the other era.
            if not is_sure and error.code in ("HTTP_500", "HTTP_501"):
                raise OtherEraError(error) from error
            raise

    def _stand_alone(self, request: RpcRequest, version: str) -> RpcResponse:
        answer = self._post_request(request, *self._stand_alone_parts(request, version))
        self._memory["version"] = version
        return answer

    def _stand_alone_parts(self, request: RpcRequest, version: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the parameters and the headers of a request that needs no session."""
        meta = {
            wire.PROTOCOL_VERSION: version,
            wire.CLIENT_CAPABILITIES: self.capabilities,
            wire.CLIENT_INFO: self._client_info(),
        }
        if self.session.is_followed:
            # Without a level a vendor sends no log messages.
            meta[wire.META_LOG_LEVEL] = LOG_LEVEL
        headers = {VERSION_HEADER: version, METHOD_HEADER: request.method, **request.headers}
        if request.name:
            headers[NAME_HEADER] = mcp_headers.encode_value(request.name)
        meta = {**request.params.get("_meta", {}), **meta}
        return {**request.params, "_meta": meta}, headers

    def _ask_in_handshake(self, request: RpcRequest) -> RpcResponse:
        was_open = self._opened is not None
        opened = self._opened or self._open_session()
        try:
            return self._post_request(request, request.params, opened)
        except (RpcError, OtherEraError) as error:
            is_lost = isinstance(error, OtherEraError) or (
                error.status in (400, 404) and error.number in _NO_SESSION
            )
            if not is_lost or not was_open:
                raise
        # The vendor has ended the session, which it may do at any time.
        self._opened = None
        return self._ask_in_handshake(request)

    def _open_session(self) -> dict[str, str]:
        try:
            try:
                answer = self._initialize(HANDSHAKE[0])
            except RpcError as error:
                other = wire.newest_mutual_version(error, HANDSHAKE)
                if not other:
                    raise
                answer = self._initialize(other)
        except RpcError as error:
            raise OtherEraError(error) from error
        version = answer.result.get("protocolVersion")
        if version not in HANDSHAKE:
            raise self._no_version([version])
        headers = {VERSION_HEADER: version}
        if session_id := answer.reply.headers.get("mcp-session-id"):
            headers[SESSION_HEADER] = session_id
        self._memory.update(era="handshake", version=version)
        self._server_capabilities = answer.result.get("capabilities")
        self._opened = headers
        self.has_opened = True
        self.session.post(
            "",
            json=wire.notification("notifications/initialized"),
            headers={"Accept": BOTH_FORMS, **headers},
            accept=(200, 202, 204),
        )
        return headers

    def _initialize(self, version: str) -> RpcResponse:
        params = {
            "protocolVersion": version,
            "capabilities": self.capabilities,
            "clientInfo": self._client_info(),
        }
        return self._post_request(RpcRequest("initialize"), params, {}, number=1)

    def _client_info(self) -> dict[str, str]:
        name, _, version = self.session.agent.partition("/")
        return {"name": name, "version": version or "1"}

    def _post_request(
        self, request: RpcRequest, params: Mapping[str, Any], headers: Mapping[str, str], number: int = 0
    ) -> RpcResponse:
        if not number:
            self.used += 1
            number = self.used
            if not request.is_harmless and METHOD_HEADER in headers:
                # Without a session, a cancelled call is identified by its number alone.
                # Leaves room for the requests of one call, and stays below the largest safe integer of JSON.
                number += (
                    int.from_bytes(hashlib.sha256(self.session.mark.encode()).digest()[:5]) << 12
                    if self.session.mark
                    else 0
                )
        is_call = not request.is_harmless
        sent_request = SentRequest(self.session, number, headers, is_call=is_call, kinds=self.questions)
        listens = (
            sent_request.may_ask
            and SESSION_HEADER in headers
            and self.session.memory.get("listens") is not False
        )
        if not listens:
            return self._send_request(request, params, sent_request)
        # Some servers send questions on a stream of no request, if a tool does not relate them to its call.
        listening = self.session.listen("", {**headers, "Accept": events.KIND})
        is_over = True
        try:
            answer = self._send_request(request, params, replace(sent_request, listening=listening))
            is_over = answer.question is None
            return answer
        finally:
            if is_over:
                listening.close()
            if listening.is_refused:
                self.session.memory["listens"] = False

    def _send_request(
        self, request: RpcRequest, params: Mapping[str, Any], sent_request: SentRequest
    ) -> RpcResponse:
        answer = questions.keep_open(sent_request.send(request, params), sent_request)
        if answer.question:
            # The conversation continues in a later session of Pegboard, which ends the vendor's session.
            self._opened = None
        return answer

    def _no_version(self, offered: Sequence[object]) -> RefusedError:
        vendor_versions = ", ".join(describe_value(version) for version in offered[:5])
        supported_versions = ", ".join((*MODERN, *HANDSHAKE))
        return RefusedError(
            "MCP_VERSION", f"{self.host} speaks MCP {vendor_versions}. Pegboard speaks {supported_versions}."
        )
