"""JSON-RPC over streamable HTTP, in both eras of MCP.

Since 2026-07-28 every request stands alone. Before, a handshake opened a session. Which era a vendor
lives in is found out once and remembered; when what is remembered no longer works, it is found out anew.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from catalog.protocols import events, members
from catalog.protocols.base import Page, Session
from catalog.protocols.mcp import headers as mcp_headers
from catalog.protocols.mcp import messages
from catalog.protocols.mcp.messages import QUESTION, Found, Number, RpcError
from core import strict_json
from core.outbound import challenges
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.listening import Listening
from core.outbound.open_reply import OpenReply
from core.outbound.reply import Reply

MODERN = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
# What we can do for a tool that asks. Before 2026-07-28 it asks on the stream of its call and waits there.
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_KNOWN_TO_MODERN = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND)
_NO_SESSION = (-32000, -32001, -32600)  # what servers answer to a request outside of a session
_ACCEPTED = (200, 202, *(status for status in range(400, 500) if status not in (408, 425, 429)))
_ENDED = (200, 202, 204, 400, 404, 405)  # answers to the end of a session
_BOTH_FORMS = f"application/json, {events.KIND}"
_META = "io.modelcontextprotocol/"
LOG_LEVEL = "info"  # the least of the log messages that are passed on to who follows a call
# With these it is known that the request was not handled.
NOT_SENT = ("CONNECT", "DNS", "BUSY", "RATE_LIMITED", "INTERRUPTED")
_TOO_SLOW = ("DEADLINE", "IDLE")
_CANCELLED = "notifications/cancelled"

# How often, and after how long, a stream that broke off is asked for its rest.
MAX_RETURNS = 5
RETURN_AFTER_MS = 1000
# A server may ask for an hour; a session does not wait so long.
LATEST_RETURN_MS = 5000


class _OtherEraError(Exception):
    """This is no way to speak with this vendor; `error` says what happened."""

    def __init__(self, error: ProtocolError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Request:
    """`name` is the tool that is called. `recall` may know a reply from an earlier run."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    recall: Callable[[Reply], Page | None] = lambda reply: None

    @property
    def is_harmless(self) -> bool:
        return not self.name


@dataclass(frozen=True, slots=True)
class Question:
    """What a tool asks on the stream of its call, with the number that the vendor gave it. The stream stays
    open as `reply` until it is answered, and `answered` are the numbers of those before it."""

    number: Number
    params: dict[str, Any]
    reply: str = ""
    answered: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request as it was sent. What a call asks meanwhile can be answered if it is in a session: `answered`
    was, and `reply` is the name of the one that is open already."""

    number: int
    headers: Mapping[str, str]
    is_call: bool = False
    listening: Listening | None = None
    answered: tuple[Number, ...] = ()
    reply: str = ""

    @property
    def is_in_session(self) -> bool:
        return "Mcp-Method" not in self.headers

    @property
    def may_ask(self) -> bool:
        return self.is_call and self.is_in_session


@dataclass(frozen=True, slots=True)
class Answer:
    """`page` is what was recalled, and after a `question` the answer is still to come: then `result` is
    empty."""

    reply: Reply
    result: dict[str, Any] = field(default_factory=dict)
    source: bytes = b""
    page: Page | None = None
    question: Question | None = None


class Transport:
    """One conversation. Numbers of requests start after `used`, and are the same in every run."""

    def __init__(self, session: Session, used: int = 1) -> None:
        self.session = session
        self.used = used
        self.host = urlsplit(session.root).netloc
        self._memory = session.memory
        self._opened: dict[str, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ends the session at the vendor, unless the vendor does not answer or the time is over.
        wanted = (GeneratorExit, RefusedError, ProtocolViolationError)
        if kind is None or issubclass(kind, wanted):
            if self._opened and "Mcp-Session-Id" in self._opened:
                # 405: the vendor ends sessions by itself.
                with suppress(ProtocolError):
                    self.session.delete("", headers=self._opened, accept=_ENDED)
            self._opened = None

    def ask(self, request: Request) -> Answer:
        """Raises RpcError for an error of JSON-RPC, and ProtocolError for everything else."""
        with suppress(_OtherEraError):
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
        except _OtherEraError as error:
            raise error.error from error
        return answer or self._find_out(request)

    def answer(self, question: Question, response: Mapping[str, Any]) -> Answer:
        """Goes on with the call that stopped for `question`. Raises as `ask` does."""
        stream = self.session.left_open(question.reply)
        if stream is None:
            raise RefusedError("QUESTION_OVER", f"{self.host} no longer waits for the answer.")
        self._opened = dict(stream.facts["headers"])
        answered = (*question.answered, question.number)
        sent = _Sent(
            stream.facts["number"], self._opened, is_call=True, answered=answered, reply=question.reply
        )
        is_ours = True
        try:
            reply = self.session.read_on(stream, lambda body: True)
            # A vendor that has waited for too long may have gone on without the answer.
            if not isinstance(self._find(reply, sent), tuple):
                is_ours = stream.claim(str(question.number))
                if not is_ours:
                    raise RefusedError("QUESTION_OVER", f"The question of {self.host} was answered before.")
                self._tell(stream, question.number, response, sent)
                reply = self._followed(stream, sent)
            answer = self._answer_in(reply, sent)
            is_ours = answer.question is None or answer.question.reply != question.reply
            return answer
        except UnavailableError as error:
            # The answer may be sent again.
            is_ours = error.code not in NOT_SENT
            raise
        finally:
            if is_ours:
                stream.leave()
            else:
                self._opened = None

    def give_up(self, question: Question) -> None:
        """Ends a call that stopped for a question that cannot be asked."""
        if stream := self.session.left_open(question.reply):
            self._opened = dict(stream.facts["headers"])
            self._cancel(_Sent(stream.facts["number"], self._opened), "The question cannot be asked.")
            stream.leave()

    def _tell(self, stream: OpenReply, number: Number, response: Mapping[str, Any], sent: _Sent) -> None:
        try:
            reply = self.session.post(
                "",
                json={"jsonrpc": "2.0", "id": number, "result": dict(response)},
                headers={"Accept": _BOTH_FORMS, **sent.headers},
                accept=_ACCEPTED,
                is_enough=lambda body: True,
            )
        except UnavailableError as error:
            if error.code in NOT_SENT:
                stream.release(str(number))
            raise
        if reply.status in (401, 403):
            raise _unauthorized(reply, self.host)
        if reply.status >= 400:
            raise RefusedError("QUESTION_OVER", f"{self.host} did not take the answer ({reply.status}).")

    def _followed(self, stream: OpenReply, sent: _Sent) -> Reply:
        try:
            return self.session.read_on(stream, self._is_enough(sent))
        except UnavailableError as error:
            self._cancel_unwanted(sent, error)
            raise

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
        except _OtherEraError as first:
            # The same number again, so that the reply is the one of later runs and can be recalled.
            self.used = used
            try:
                return self._handshake(request)
            except _OtherEraError as second:
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
                other = messages.mutual(error, MODERN)
                if not other:
                    raise
                return self._stand_alone(request, other)
        except RpcError as error:
            if self._is_of_other_era(error, is_sure=is_sure):
                raise _OtherEraError(error) from error
            self._memory["era"] = "modern"
            raise
        except UnavailableError as error:
            # Some servers of old fall over what they do not know. An outage stays one in the next try.
            if not is_sure and error.code in ("HTTP_500", "HTTP_501"):
                raise _OtherEraError(error) from error
            raise

    def _is_of_other_era(self, error: RpcError, *, is_sure: bool) -> bool:
        if error.number == UNSUPPORTED_VERSION:
            if messages.mutual(error, HANDSHAKE) or not messages.supported(error):
                return True
            raise self._no_version(messages.supported(error)) from error
        if is_sure:
            return error.status >= 400 and error.number in _NO_SESSION
        return error.number not in _KNOWN_TO_MODERN

    def _stand_alone(self, request: Request, version: str) -> Answer:
        meta = {
            f"{_META}protocolVersion": version,
            f"{_META}clientCapabilities": CAPABILITIES,
            f"{_META}clientInfo": self._client(),
        }
        if self.session.is_followed:
            # Without it a vendor says nothing of what it does meanwhile.
            meta[f"{_META}logLevel"] = LOG_LEVEL
        headers = {"MCP-Protocol-Version": version, "Mcp-Method": request.method, **request.headers}
        if request.name:
            headers["Mcp-Name"] = mcp_headers.safe(request.name)
        meta = {**request.params.get("_meta", {}), **meta}
        answer = self._post(request, {**request.params, "_meta": meta}, headers)
        self._memory["version"] = version
        return answer

    def _handshake(self, request: Request) -> Answer:
        was_open = self._opened is not None
        opened = self._opened or self._open()
        try:
            return self._post(request, request.params, opened)
        except (RpcError, _OtherEraError) as error:
            is_lost = isinstance(error, _OtherEraError) or (
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
                other = messages.mutual(error, HANDSHAKE)
                if not other:
                    raise
                answer = self._initialize(other)
        except RpcError as error:
            raise _OtherEraError(error) from error
        version = answer.result.get("protocolVersion")
        if version not in HANDSHAKE:
            raise self._no_version([version])
        headers = {"MCP-Protocol-Version": version}
        if session_id := answer.reply.headers.get("mcp-session-id"):
            headers["Mcp-Session-Id"] = session_id
        self._memory.update(era="handshake", version=version)
        self._opened = headers
        self.session.post(
            "",
            json={"jsonrpc": "2.0", "method": "notifications/initialized"},
            headers={"Accept": _BOTH_FORMS, **headers},
            accept=(200, 202, 204),
        )
        return headers

    def _initialize(self, version: str) -> Answer:
        params = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": self._client()}
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
            if not request.is_harmless and "Mcp-Method" in headers:
                # Without a session, what is to be cancelled is told from other calls by its number alone.
                number += _numbers_of(self.session.mark)
        sent = _Sent(number, headers, is_call=not request.is_harmless)
        if request.is_harmless or "Mcp-Session-Id" not in headers or self._memory.get("listens") is False:
            return self._made(request, params, sent)
        # Some servers ask on the stream that is of no request, unless their tools say of which they ask.
        listening = self.session.listen("", {**headers, "Accept": events.KIND})
        is_over = True
        try:
            answer = self._made(request, params, replace(sent, listening=listening))
            is_over = answer.question is None
            return answer
        finally:
            if is_over:
                listening.close()
            if listening.is_refused:
                self._memory["listens"] = False

    def _made(self, request: Request, params: Mapping[str, Any], sent: _Sent) -> Answer:
        reply = self._send(request, params, sent)
        if reply.status in (401, 403):
            raise _unauthorized(reply, self.host)
        if reply.status >= 400:
            raise self._complaint(reply)
        if page := request.recall(reply):
            return Answer(reply, page=page)
        return self._answer_in(reply, sent)

    def _answer_in(self, reply: Reply, sent: _Sent, returns: int = 0) -> Answer:
        is_left_open = False
        try:
            found = self._find(reply, sent)
            if isinstance(found, Question):
                is_left_open = True
                return Answer(reply, question=self._left_open(found, reply, sent))
            if found is None and returns < MAX_RETURNS and (later := self._later(reply, sent)):
                return self._answer_in(later, sent, returns + 1)
        finally:
            if reply.rest and not is_left_open:
                reply.rest.abandon()
        if found is None:
            why = f"{self.host} ended its reply without an answer in it."
            raise ProtocolViolationError("NO_ANSWER", why)
        message, source = found
        if "error" in message:
            raise messages.rpc_error(message["error"], reply.status, self.host)
        result = message.get("result")
        if not isinstance(result, dict):
            raise messages.shape(f"its result is {members.shown(result)}, not an object", self.host)
        return Answer(reply, result, source)

    def _left_open(self, question: Question, reply: Reply, sent: _Sent) -> Question:
        # The conversation goes on in another session of ours, which ends the vendor's.
        name = sent.reply
        if reply.rest or not name:
            facts = {"headers": dict(sent.headers), "number": sent.number}
            on_expiry = partial(_cancel_question, headers=sent.headers, number=question.number)
            name = self.session.leave_open(reply, facts, on_expiry) or ""
        if not name:
            raise self._asks_back(QUESTION)
        self._opened = None
        return replace(question, reply=name)

    def _send(self, request: Request, params: Mapping[str, Any], sent: _Sent) -> Reply:
        message = {"jsonrpc": "2.0", "id": sent.number, "method": request.method, "params": dict(params)}
        try:
            return self.session.post(
                "",
                json=message,
                headers={"Accept": _BOTH_FORMS, **sent.headers},
                accept=_ACCEPTED,
                is_repeatable=request.is_harmless,
                is_enough=self._is_enough(sent),
                keeps_rest=sent.may_ask,
                beside=sent.listening,
            )
        except UnavailableError as error:
            self._cancel_unwanted(sent, error)
            raise

    def _cancel_unwanted(self, sent: _Sent, error: UnavailableError) -> None:
        is_unwanted = self.session.is_interrupted or error.code in _TOO_SLOW
        if sent.is_call and is_unwanted and error.code != "INTERRUPTED":
            is_cancelled = self.session.is_interrupted
            self._cancel(sent, "The call was cancelled." if is_cancelled else "The call took too long.")

    def _cancel(self, sent: _Sent, why: str) -> None:
        # The answer is not wanted any more. Nothing comes back, and a vendor may not listen.
        if not sent.is_in_session and not self.session.mark:
            return
        params = {"requestId": sent.number, "reason": why}
        told = ("MCP-Protocol-Version", "Mcp-Session-Id")
        kept = {name: sent.headers[name] for name in told if name in sent.headers}
        named = {} if sent.is_in_session else {"Mcp-Method": _CANCELLED}
        with suppress(ProtocolError):
            self.session.post(
                "",
                json={"jsonrpc": "2.0", "method": _CANCELLED, "params": params},
                headers={"Accept": _BOTH_FORMS, **kept, **named},
                accept=_ACCEPTED,
                is_closing=True,
            )

    def _is_enough(self, sent: _Sent) -> Callable[[bytes], bool]:
        return events.until(lambda event: self._has_come(event, sent))

    def _has_come(self, event: events.Event, sent: _Sent) -> bool:
        # Whether the answer has; what comes before it is told to those who follow the call.
        if messages.is_last(event, sent.number, sent.answered):
            return True
        if self.session.is_followed and event.name == "message" and event.data:
            document = strict_json.loads(event.data.encode(), allow_unstorable=True)
            for message in document if isinstance(document, list) else [document]:
                params = message.get("params")
                if isinstance(params, dict) and strict_json.unstorable(params) is None:
                    self._pass_on(message["method"], params)
        return False

    def _pass_on(self, method: object, params: Mapping[str, Any]) -> None:
        if method == "notifications/progress":
            told = {name: params[name] for name in ("progress", "total", "message") if name in params}
            self.session.pass_on({"progress": told})
        elif method == "notifications/message":
            told = {name: params[name] for name in ("level", "logger", "data") if name in params}
            self.session.pass_on({"custom": told})

    def _complaint(self, reply: Reply) -> Exception:
        # A status from 400 up: an error of JSON-RPC, or a server that does not speak this way.
        with suppress(ProtocolViolationError):
            for message, _ in messages.read(reply):
                # Whatever its number: some servers give their own to a request that they did not take.
                if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                    return messages.rpc_error(message.get("error"), reply.status, self.host)
        if reply.status in (404, 410):
            there = printable(urlsplit(reply.url).path)
            said = RefusedError("NOT_FOUND", f"{self.host} has nothing at {there}; is the address right?")
        else:
            why = f"{self.host} answered {reply.status}. Is this the address of an MCP server?"
            said = RefusedError(f"HTTP_{reply.status}", why)
        return _OtherEraError(said)

    def _find(self, reply: Reply, sent: _Sent) -> Found | Question | None:
        # The message that answers, or else a question that is not answered; others may come before it.
        is_any = False
        question: Question | None = None
        for message, source in messages.read(reply):
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise messages.shape("it is no message of JSON-RPC", self.host)
            if messages.asks(message, sent.answered):
                if message["method"] != QUESTION or not sent.may_ask:
                    raise self._asks_back(message["method"])
                if not messages.is_sound(message["id"]):
                    raise messages.shape("the number of its question is too long", self.host)
                params = message.get("params")
                named = params if isinstance(params, dict) else {}
                question = question or Question(message["id"], named, answered=sent.answered)
            elif "method" in message:
                continue
            elif messages.answers(message, sent.number):
                return message, source
            else:
                is_any = True
        if is_any:
            why = f"{self.host} answered another request than the one that was asked."
            raise ProtocolViolationError("RPC_MISMATCH", why)
        return question

    def _asks_back(self, method: str) -> RefusedError:
        why = f"{self.host} asked back ({method}) while we waited, which is not answered here."
        return RefusedError("ASKS_BACK", why)

    def _later(self, reply: Reply, sent: _Sent) -> Reply | None:
        # What a stream that broke off goes on with; before 2026-07-28 a vendor may do so on purpose.
        streamed = events.parse(reply.body) if messages.is_stream(reply) else ()
        last = next(iter(deque(streamed, maxlen=1)), None)
        if last is None or not last.id:
            return None
        time.sleep(min(last.retry_ms or RETURN_AFTER_MS, LATEST_RETURN_MS) / 1000)
        try:
            return self.session.get(
                "",
                headers={**sent.headers, "Accept": events.KIND, "Last-Event-ID": last.id},
                is_enough=self._is_enough(sent),
                keeps_rest=sent.may_ask,
            )
        except RefusedError:
            # The request itself was taken, and may have done its work.
            return None

    def _no_version(self, offered: Sequence[object]) -> RefusedError:
        theirs = ", ".join(members.shown(version) for version in offered[:5])
        ours = ", ".join((*MODERN, *HANDSHAKE))
        return RefusedError("MCP_VERSION", f"{self.host} speaks MCP {theirs}. Pegboard speaks {ours}.")


def _numbers_of(mark: str) -> int:
    # Room for the requests of one call, and no more than a number of JSON can hold everywhere.
    return int.from_bytes(hashlib.sha256(mark.encode()).digest()[:5]) << 12 if mark else 0


def _unauthorized(reply: Reply, host: str) -> RefusedError:
    challenge = reply.headers.get("www-authenticate", "")
    scope = printable(challenges.scope_asked(challenge), 300)
    wanted = f" It asks for the scope “{scope}”." if scope else ""
    where = printable(challenges.challenged(challenge, "resource_metadata"), 300)
    more = f" How to get one: {where}" if where else ""
    message = f"{host} wants a credential that may do this ({reply.status}).{wanted}{more}"
    return RefusedError("AUTH", message, challenge=challenge)


def _cancel_question(session: Session, *, headers: Mapping[str, str], number: Number) -> None:
    # No answer comes: the tool need not wait, and the vendor need not remember us.
    with suppress(ProtocolError):
        session.post(
            "",
            json={"jsonrpc": "2.0", "id": number, "result": {"action": "cancel"}},
            headers={"Accept": _BOTH_FORMS, **headers},
            accept=_ACCEPTED,
            is_closing=True,
        )
    if "Mcp-Session-Id" in headers:
        with suppress(ProtocolError):
            session.delete("", headers=headers, accept=_ENDED)
