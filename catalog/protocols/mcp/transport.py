"""JSON-RPC over streamable HTTP, in both eras of MCP.

Since 2026-07-28 every request stands alone. Before, a handshake opened a session. Which era a vendor
lives in is found out once and remembered; when what is remembered no longer works, it is found out anew.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from catalog.protocols import events, members
from catalog.protocols.base import Page, Session
from catalog.protocols.mcp import headers as mcp_headers
from core import strict_json
from core.outbound import challenges
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply

MODERN = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
# What we can do for a tool that asks. Before 2026-07-28 an answer had to be given while the call hangs.
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_KNOWN_TO_MODERN = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND)
_NO_SESSION = (-32000, -32001, -32600)  # what servers answer to a request outside of a session
_ASKS_BACK = ("elicitation/create", "sampling/createMessage", "roots/list")
_ACCEPTED = (200, 202, *(status for status in range(400, 500) if status not in (408, 425, 429)))
_BOTH_FORMS = f"application/json, {events.KIND}"
_META = "io.modelcontextprotocol/"
LOG_LEVEL = "info"  # the least of the log messages that are passed on to who follows a call
MAX_SAID_LENGTH = 500
_TOO_SLOW = ("DEADLINE", "IDLE")
_CANCELLED = "notifications/cancelled"

# How often, and after how long, a stream that broke off is asked for its rest.
MAX_RETURNS = 5
RETURN_AFTER_MS = 1000
# A server may ask for an hour; a session does not wait so long.
LATEST_RETURN_MS = 5000


class RpcError(ProtocolViolationError):
    """The vendor answered with an error of JSON-RPC; `number` is its code there."""

    def __init__(self, number: int, said: str, data: object, status: int, host: str) -> None:
        self.number = number
        self.said = printable(said, MAX_SAID_LENGTH)
        self.data = data
        self.status = status
        super().__init__("RPC_ERROR", f"{host} answered with error {number}: {self.said or 'no words'}.")


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
class Answer:
    """`page` is what was recalled; then `result` is empty."""

    reply: Reply
    result: dict[str, Any] = field(default_factory=dict)
    source: bytes = b""
    page: Page | None = None


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
                    self.session.delete("", headers=self._opened, accept=(200, 202, 204, 400, 404, 405))
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
                other = _mutual(error, MODERN)
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
            if _mutual(error, HANDSHAKE) or not _supported(error):
                return True
            raise self._no_version(_supported(error)) from error
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
                other = _mutual(error, HANDSHAKE)
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
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": self._client()}
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
        reply = self._sent(request, params, headers, number)
        if reply.status in (401, 403):
            raise _unauthorized(reply, self.host)
        if reply.status >= 400:
            raise self._complaint(reply)
        if page := request.recall(reply):
            return Answer(reply, page=page)
        found = self._find(reply, number) or self._find_later(reply, headers, number)
        if found is None:
            why = f"{self.host} ended its reply without an answer in it."
            raise ProtocolViolationError("NO_ANSWER", why)
        message, source = found
        if "error" in message:
            raise _rpc_error(message["error"], reply.status, self.host)
        result = message.get("result")
        if not isinstance(result, dict):
            raise _shape(f"its result is {members.shown(result)}, not an object", self.host)
        return Answer(reply, result, source)

    def _sent(
        self, request: Request, params: Mapping[str, Any], headers: Mapping[str, str], number: int
    ) -> Reply:
        try:
            return self.session.post(
                "",
                json={"jsonrpc": "2.0", "id": number, "method": request.method, "params": dict(params)},
                headers={"Accept": _BOTH_FORMS, **headers},
                accept=_ACCEPTED,
                is_repeatable=request.is_harmless,
                is_enough=events.until(lambda event: self._has_come(event, number)),
            )
        except UnavailableError as error:
            is_sent = error.code != "INTERRUPTED"
            is_unwanted = self.session.is_interrupted or error.code in _TOO_SLOW
            if is_sent and is_unwanted and not request.is_harmless:
                self._cancel(number, headers)
            raise

    def _cancel(self, number: int, headers: Mapping[str, str]) -> None:
        # The answer is not wanted any more. Nothing comes back, and a vendor may not listen.
        is_in_session = "Mcp-Method" not in headers
        if not is_in_session and not self.session.mark:
            return
        why = "The call was cancelled." if self.session.is_interrupted else "The call took too long."
        params = {"requestId": number, "reason": why}
        kept = {name: headers[name] for name in ("MCP-Protocol-Version", "Mcp-Session-Id") if name in headers}
        named = {} if is_in_session else {"Mcp-Method": _CANCELLED}
        with suppress(ProtocolError):
            self.session.post(
                "",
                json={"jsonrpc": "2.0", "method": _CANCELLED, "params": params},
                headers={"Accept": _BOTH_FORMS, **kept, **named},
                accept=_ACCEPTED,
                is_closing=True,
            )

    def _has_come(self, event: events.Event, number: int) -> bool:
        # Whether the answer has; what comes before it is told to those who follow the call.
        if _is_last(event, number):
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
            for message, _ in _messages(reply):
                # Whatever its number: some servers give their own to a request that they did not take.
                if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                    return _rpc_error(message.get("error"), reply.status, self.host)
        if reply.status in (404, 410):
            there = printable(urlsplit(reply.url).path)
            said = RefusedError("NOT_FOUND", f"{self.host} has nothing at {there}; is the address right?")
        else:
            why = f"{self.host} answered {reply.status}. Is this the address of an MCP server?"
            said = RefusedError(f"HTTP_{reply.status}", why)
        return _OtherEraError(said)

    def _find(self, reply: Reply, number: int) -> tuple[dict[str, Any], bytes] | None:
        # The message that answers request `number`; others may come before it.
        is_any = False
        for message, source in _messages(reply):
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise _shape("it is no message of JSON-RPC", self.host)
            if "method" in message:
                if "id" in message and message["method"] in _ASKS_BACK:
                    asked = f"{self.host} asked back ({message['method']}) while we waited"
                    raise RefusedError("ASKS_BACK", f"{asked}, which is not answered here.")
            elif _answers(message, number):
                return message, source
            else:
                is_any = True
        if is_any:
            why = f"{self.host} answered another request than the one that was asked."
            raise ProtocolViolationError("RPC_MISMATCH", why)
        return None

    def _find_later(
        self, reply: Reply, headers: Mapping[str, str], number: int
    ) -> tuple[dict[str, Any], bytes] | None:
        # What a stream that broke off goes on with; before 2026-07-28 a vendor may do so on purpose.
        found = None
        for _ in range(MAX_RETURNS):
            streamed = events.parse(reply.body) if _is_stream(reply) else ()
            last = next(iter(deque(streamed, maxlen=1)), None)
            if found or last is None or not last.id:
                break
            time.sleep(min(last.retry_ms or RETURN_AFTER_MS, LATEST_RETURN_MS) / 1000)
            try:
                reply = self.session.get(
                    "",
                    headers={**headers, "Accept": events.KIND, "Last-Event-ID": last.id},
                    is_enough=events.until(lambda event: _is_last(event, number)),
                )
            except RefusedError:
                # The request itself was taken, and may have done its work.
                break
            found = self._find(reply, number)
        return found

    def _no_version(self, offered: Sequence[object]) -> RefusedError:
        theirs = ", ".join(members.shown(version) for version in offered[:5])
        ours = ", ".join((*MODERN, *HANDSHAKE))
        return RefusedError("MCP_VERSION", f"{self.host} speaks MCP {theirs}. Pegboard speaks {ours}.")


def _numbers_of(mark: str) -> int:
    # Room for the requests of one call, and no more than a number of JSON can hold everywhere.
    return int.from_bytes(hashlib.sha256(mark.encode()).digest()[:5]) << 12 if mark else 0


def _is_stream(reply: Reply) -> bool:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower() == events.KIND


def _messages(reply: Reply) -> Iterator[tuple[object, bytes]]:
    """Messages with the bytes they came in."""
    # Some revisions let servers send several messages in one array.
    documents: Iterator[tuple[Any, bytes]]
    if _is_stream(reply):
        parsed = events.parse(reply.body)
        sources = (event.data.encode() for event in parsed if event.name == "message" and event.data)
        documents = ((strict_json.loads(source, allow_unstorable=True), source) for source in sources)
    else:
        documents = iter([(strict_json.require_json(reply, allow_unstorable=True), reply.body)])
    for document, source in documents:
        for message in document if isinstance(document, list) else [document]:
            yield message, source


def _is_last(event: events.Event, number: int) -> bool:
    # Whether nothing that comes after `event` can matter.
    if event.name != "message" or not event.data:
        return False
    try:
        document = strict_json.loads(event.data.encode(), allow_unstorable=True)
    # What cannot be read is told where the whole reply is; waiting for more mends nothing.
    except ProtocolViolationError:
        return True
    messages = document if isinstance(document, list) else [document]
    return any(
        not isinstance(each, dict)
        or ("method" not in each and _answers(each, number))
        or ("id" in each and each.get("method") in _ASKS_BACK)
        for each in messages
    )


def _answers(message: Mapping[str, Any], number: int) -> bool:
    # An error without a number belongs to the one request that was sent.
    given = message.get("id")
    return (given is None and "error" in message) or (type(given) is int and given == number)


def _rpc_error(error: object, status: int, host: str) -> RpcError:
    number = error.get("code") if isinstance(error, dict) else None
    if not isinstance(error, dict) or type(number) is not int:
        raise _shape("its error has no code", host)
    said = error.get("message")
    return RpcError(number, said if isinstance(said, str) else "", error.get("data"), status, host)


def _supported(error: RpcError) -> list[Any]:
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return named if isinstance(named, list) else []


def _mutual(error: RpcError, ours: Sequence[str]) -> str:
    # The newest of our versions that the vendor names, or nothing.
    return next((version for version in ours if version in _supported(error)), "")


def _unauthorized(reply: Reply, host: str) -> RefusedError:
    challenge = reply.headers.get("www-authenticate", "")
    scope = printable(challenges.scope_asked(challenge), 300)
    wanted = f" It asks for the scope “{scope}”." if scope else ""
    where = printable(challenges.challenged(challenge, "resource_metadata"), 300)
    more = f" How to get one: {where}" if where else ""
    message = f"{host} wants a credential that may do this ({reply.status}).{wanted}{more}"
    return RefusedError("AUTH", message, challenge=challenge)


def _shape(why: str, host: str) -> ProtocolViolationError:
    return ProtocolViolationError("SHAPE", f"The reply of {host} cannot be used: {why}.")
