"""Conversations with an MCP server, in both eras of the protocol.

Since 2026-07-28 every request stands alone. Before, a handshake opened a session. Which era a vendor
lives in is found out once and remembered; when what is remembered no longer works, it is found out anew.

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
from protocols.base import QUESTIONS, Session
from protocols.mcp import headers as mcp_headers
from protocols.mcp import questions, rpc, wire
from protocols.mcp.eras import Era
from protocols.mcp.rpc import BOTH_FORMS, Answer, OtherEraError, Request, SentRequest
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
    Question,
    RpcError,
)

LOG_LEVEL = "info"  # the least of the log messages that are passed on to who follows a call

_KNOWN_TO_MODERN = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND)
# What servers answer to a request outside of a session.
_NO_SESSION = (wire.SERVER_ERROR, -32001, wire.INVALID_REQUEST)


class Transport:
    """One conversation. Numbers of requests start after `used`, and are the same in every run. A tool may ask
    `questions` of these kinds; before 2026-07-28 it asks on the stream of its call and waits there. An `era`
    is kept to, and nothing is found out about it."""

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
        # Some servers list a tool that asks for those alone who can be asked.
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
        # Ends the session at the vendor, unless the vendor does not answer or the time is over.
        wanted = (GeneratorExit, RefusedError, ProtocolViolationError)
        if kind is None or issubclass(kind, wanted):
            rpc.end_session(self.session, self._opened or {})
            self._opened = None

    @property
    def is_modern(self) -> bool:
        """Whether the vendor speaks a revision since 2026-07-28, as far as it is known."""
        return self._memory.get("era") == "modern"

    def ask(self, request: Request) -> Answer:
        """Raises RpcError for an error of JSON-RPC, and ProtocolError for everything else."""
        if self.era:
            try:
                return self._modern(request, is_sure=True) if self.is_modern else self._handshake(request)
            except OtherEraError as error:
                raise error.error from error
        with suppress(OtherEraError):
            if answer := self._as_remembered(request):
                return answer
        # What was remembered no longer works.
        self._opened = None
        for fact in ("era", "version"):
            self._memory.pop(fact, None)
        if request.is_harmless:
            return self._find_out(request)
        # A call is no question to find out anything with.
        self._find_out(Request("tools/list"))
        try:
            answer = self._as_remembered(request)
        except OtherEraError as error:
            raise error.error from error
        return answer or self._find_out(request)

    def server_capabilities(self) -> Mapping[str, Any]:
        """Return the capabilities that the server declares. It was asked for something before.

        Raises as `ask` does.
        """
        if self.is_modern:
            self._server_capabilities = self.ask(Request("server/discover")).result.get("capabilities")
        return self._server_capabilities if isinstance(self._server_capabilities, dict) else {}

    def watch(self, uris: Sequence[str], seconds: float) -> Listening:
        """Open the stream on which the server reports updates of these resources. Raises as `ask` does."""
        if self._memory.get("era") is None:
            self._find_out(Request("tools/list"))
        if self.is_modern:
            self.used += 1
            request = Request(
                "subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}}
            )
            params, headers = self._stand_alone_parts(request, self._memory.get("version") or MODERN[0])
            message = wire.request(self.used, request.method, params)
            headers = {"Accept": BOTH_FORMS, **headers}
            return self.session.listen("", headers, json=message, seconds=seconds)
        try:
            opened = self._opened or self._open()
        except OtherEraError as error:
            raise error.error from error
        # Before the subscriptions, so that no update is missed.
        listening = self.session.listen("", {**opened, "Accept": events.KIND}, seconds=seconds)
        try:
            for uri in uris:
                self.ask(Request("resources/subscribe", {"uri": uri}))
        except ProtocolError:
            listening.close()
            raise
        return listening

    def answer(self, question: Question, response: Mapping[str, Any] | None) -> Answer:
        """Go on with the call that stopped for `question`; None refuses it. Raises as `ask` does."""
        asked = questions.find(self.session, question)
        if asked is None:
            raise RefusedError("QUESTION_OVER", f"{self.host} no longer waits for the answer.")
        try:
            return asked.answer(response)
        finally:
            if asked.is_over:
                self._opened = asked.headers

    def give_up(self, question: Question, why: str) -> None:
        """Ends a call that stopped for a question to which no answer comes."""
        if asked := questions.find(self.session, question):
            asked.give_up(why)
            self._opened = asked.headers

    def keep_session(self) -> str | None:
        """Leaves the vendor's session open for another conversation, which goes on in it by this name. None
        where there is none, or it cannot be kept: then it ends with this conversation."""
        if SESSION_HEADER not in (self._opened or {}):
            return None
        name = self.session.keep_facts({"headers": self._opened})
        if name:
            self._opened = None
        return name

    def go_on_in(self, name: str) -> None:
        """Goes on in the session that was kept as `name`, if it is there."""
        if facts := self.session.find_facts(name):
            self._opened = dict(facts["headers"])

    def _as_remembered(self, request: Request) -> Answer | None:
        match self._memory.get("era"):
            case "modern":
                return self._modern(request, is_sure=True)
            case "handshake":
                return self._handshake(request)
        return None

    def _find_out(self, request: Request) -> Answer:
        used = self.used
        try:
            answer = self._modern(request, is_sure=False)
        except OtherEraError as first:
            # The same number again, so that the reply is the one of later runs and can be recalled.
            self.used = used
            try:
                return self._handshake(request)
            except OtherEraError as second:
                # Of the failures in both eras, the one that helps: words of the server rather than a bare
                # status.
                is_first = isinstance(first.error, RpcError | UnavailableError)
                is_first = is_first and not isinstance(second.error, RpcError)
                raise (first if is_first else second).error from second
        self._memory["era"] = "modern"
        return answer

    def _modern(self, request: Request, *, is_sure: bool) -> Answer:
        version = self._memory.get("version") if is_sure else None
        try:
            try:
                return self._stand_alone(request, version or MODERN[0])
            except RpcError as error:
                other = wire.mutual(error, MODERN)
                if not other:
                    raise
                return self._stand_alone(request, other)
        except RpcError as error:
            if self._is_of_other_era(error, is_sure=is_sure):
                raise OtherEraError(error) from error
            self._memory["era"] = "modern"
            raise
        except UnavailableError as error:
            # Some servers of old fall over what they do not know. An outage stays one in the next try.
            if not is_sure and error.code in ("HTTP_500", "HTTP_501"):
                raise OtherEraError(error) from error
            raise

    def _is_of_other_era(self, error: RpcError, *, is_sure: bool) -> bool:
        if error.number == UNSUPPORTED_VERSION:
            if wire.mutual(error, HANDSHAKE) or not wire.supported(error):
                return True
            raise self._no_version(wire.supported(error)) from error
        if is_sure:
            return error.status >= 400 and error.number in _NO_SESSION
        return error.number not in _KNOWN_TO_MODERN

    def _stand_alone(self, request: Request, version: str) -> Answer:
        answer = self._post(request, *self._stand_alone_parts(request, version))
        self._memory["version"] = version
        return answer

    def _stand_alone_parts(self, request: Request, version: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the parameters and the headers of a request that needs no session."""
        meta = {
            wire.PROTOCOL_VERSION: version,
            wire.CLIENT_CAPABILITIES: self.capabilities,
            wire.CLIENT_INFO: self._client(),
        }
        if self.session.is_followed:
            # Without it a vendor says nothing of what it does meanwhile.
            meta[wire.META_LOG_LEVEL] = LOG_LEVEL
        headers = {VERSION_HEADER: version, METHOD_HEADER: request.method, **request.headers}
        if request.name:
            headers[NAME_HEADER] = mcp_headers.safe(request.name)
        meta = {**request.params.get("_meta", {}), **meta}
        return {**request.params, "_meta": meta}, headers

    def _handshake(self, request: Request) -> Answer:
        was_open = self._opened is not None
        opened = self._opened or self._open()
        try:
            return self._post(request, request.params, opened)
        except (RpcError, OtherEraError) as error:
            is_lost = isinstance(error, OtherEraError) or (
                error.status in (400, 404) and error.number in _NO_SESSION
            )
            if not is_lost or not was_open:
                raise
        # The vendor has forgotten our session, as it may.
        self._opened = None
        return self._handshake(request)

    def _open(self) -> dict[str, str]:
        try:
            try:
                answer = self._initialize(HANDSHAKE[0])
            except RpcError as error:
                other = wire.mutual(error, HANDSHAKE)
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

    def _initialize(self, version: str) -> Answer:
        params = {"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": self._client()}
        return self._post(Request("initialize"), params, {}, number=1)

    def _client(self) -> dict[str, str]:
        name, _, version = self.session.agent.partition("/")
        return {"name": name, "version": version or "1"}

    def _post(
        self, request: Request, params: Mapping[str, Any], headers: Mapping[str, str], number: int = 0
    ) -> Answer:
        if not number:
            self.used += 1
            number = self.used
            if not request.is_harmless and METHOD_HEADER in headers:
                # Without a session, what is to be cancelled is told from other calls by its number alone.
                number += _numbers_of(self.session.mark)
        is_call = not request.is_harmless
        sent = SentRequest(self.session, number, headers, is_call=is_call, kinds=self.questions)
        listens = (
            sent.may_ask and SESSION_HEADER in headers and self.session.memory.get("listens") is not False
        )
        if not listens:
            return self._asked(request, params, sent)
        # Some servers ask on the stream that is of no request, unless their tools say of which they ask.
        listening = self.session.listen("", {**headers, "Accept": events.KIND})
        is_over = True
        try:
            answer = self._asked(request, params, replace(sent, listening=listening))
            is_over = answer.question is None
            return answer
        finally:
            if is_over:
                listening.close()
            if listening.is_refused:
                self.session.memory["listens"] = False

    def _asked(self, request: Request, params: Mapping[str, Any], sent: SentRequest) -> Answer:
        answer = questions.keep_open(sent.send(request, params), sent)
        if answer.question:
            # The conversation goes on in another session of ours, which ends the vendor's.
            self._opened = None
        return answer

    def _no_version(self, offered: Sequence[object]) -> RefusedError:
        theirs = ", ".join(describe_value(version) for version in offered[:5])
        ours = ", ".join((*MODERN, *HANDSHAKE))
        return RefusedError("MCP_VERSION", f"{self.host} speaks MCP {theirs}. Pegboard speaks {ours}.")


def _numbers_of(mark: str) -> int:
    # Room for the requests of one call, and no more than a number of JSON can hold everywhere.
    return int.from_bytes(hashlib.sha256(mark.encode()).digest()[:5]) << 12 if mark else 0
