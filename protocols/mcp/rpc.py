"""One request of JSON-RPC over streamable HTTP: send it, read its answer from a body or a stream, cancel it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

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
from core.outbound.reply import Reply
from core.strict_json import PartialDocument
from core.value_descriptions import describe_value
from protocols import events
from protocols.base import Session
from protocols.call_outcome import QUESTIONS
from protocols.list_pages import ItemPage
from protocols.mcp import wire
from protocols.mcp.wire import (
    ELICITATION,
    METHOD_HEADER,
    SESSION_HEADER,
    VERSION_HEADER,
    Found,
    Number,
    VendorQuestion,
)

ACCEPTED = (200, 202, *(status for status in range(400, 500) if status not in (408, 425, 429)))
BOTH_FORMS = f"application/json, {events.KIND}"
# Error codes after which the vendor has certainly not handled the request.
NOT_SENT = ("CONNECT", "CONNECT_TIMEOUT", "DNS", "PROXY", "BUSY", "RATE_LIMITED", "INTERRUPTED")
CANNOT_ASK = "CANNOT_ASK"  # the caller did not declare that its user can be asked
ASKS_BACK = "ASKS_BACK"
_TOO_SLOW = ("DEADLINE", "IDLE")
_CANCELLED = "notifications/cancelled"
# The notifications that followers of a call receive: the name and the members of their event.
_EVENTS = {
    "notifications/progress": ("progress", ("progress", "total", "message")),
    "notifications/message": ("custom", ("level", "logger", "data")),
}
_SESSION_ENDED = (200, 202, 204, 400, 404, 405)  # answers to the end of a session

# How often, and after how many milliseconds, the rest of a broken stream is requested.
MAX_RETURNS = 5
RETURN_AFTER_MS = 1000
# A server may request a pause of an hour, which is longer than a session.
LATEST_RETURN_MS = 5000


class OtherEraError(Exception):
    """The vendor does not support this era of the protocol. error: the failure."""

    def __init__(self, error: ProtocolError) -> None:
        super().__init__(error.message)
        self.error = error


class CannotAskError(RefusedError):
    """The vendor sent a request that the caller did not declare. kinds: the kinds that the caller would
    need.
    """

    def __init__(self, host: str, method: str, kinds: Collection[str]) -> None:
        self.kinds = frozenset(kinds)
        if method == ELICITATION:
            message = f"{host} asks its user, and the calling program did not declare that it can ask."
            super().__init__(CANNOT_ASK, message)
        else:
            message = (
                f"{host} sent a request to the calling program ({method}), which did not declare that it "
                "answers."
            )
            super().__init__(ASKS_BACK, message)


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A request. name: the tool of a call. recall: returns the page of an equal reply of an earlier run."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    recall: Callable[[Reply], ItemPage | None] = lambda reply: None

    @property
    def is_harmless(self) -> bool:
        return not self.name


NO_DOCUMENT = PartialDocument(None, is_suspect=False)


@dataclass(frozen=True, slots=True)
class RpcResponse:
    """The answer to a request.

    document: contains the result. page: the page of an earlier run with an equal reply. question: the
    vendor's question; then `result` is empty, the answer is still to come on `reply`, and the caller owns its
    rest.
    """

    reply: Reply
    result: dict[str, Any] = field(default_factory=dict)
    document: PartialDocument = NO_DOCUMENT
    page: ItemPage | None = None
    question: VendorQuestion | None = None


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request with its number and headers.

    kinds: the kinds of requests of the vendor that can be answered during a call in a session of the vendor.
    answered: the numbers of questions that have been answered.
    """

    session: Session
    number: int
    headers: Mapping[str, str]
    is_call: bool = False
    kinds: Collection[str] = QUESTIONS
    listening: Listening | None = None
    answered: tuple[Number, ...] = ()

    @property
    def host(self) -> str:
        return urlsplit(self.session.root).netloc

    @property
    def is_in_session(self) -> bool:
        return METHOD_HEADER not in self.headers

    @property
    def may_ask(self) -> bool:
        return self.is_call and self.is_in_session and bool(self.kinds)

    def send(self, request: RpcRequest, params: Mapping[str, Any]) -> RpcResponse:
        """Send the request and return its answer. Raises RpcError for an error of JSON-RPC, OtherEraError for
        an error status without one, and ProtocolError.
        """
        message = wire.request(self.number, request.method, params)
        try:
            reply = self.session.post(
                "",
                json=message,
                headers={"Accept": BOTH_FORMS, **self.headers},
                accept=ACCEPTED,
                is_repeatable=request.is_harmless,
                is_enough=self.is_enough(),
                keeps_rest=self.may_ask,
                second_stream=self.listening,
            )
        except UnavailableError as error:
            self.cancel_unwanted(error)
            raise
        if reply.status in (401, 403):
            raise unauthorized(reply, self.host)
        if reply.status >= 400:
            raise self._error_of(reply)
        if page := request.recall(reply):
            return RpcResponse(reply, page=page)
        return self.answer_in(reply)

    def _error_of(self, reply: Reply) -> Exception:
        # The status is at least 400: an error of JSON-RPC, or a server of the other era.
        with suppress(ProtocolViolationError):
            for message, _ in wire.read_messages(reply):
                # With any number: some servers answer a refused request with a number of their own.
                if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                    return wire.rpc_error(message.get("error"), reply.status, self.host)
        if reply.status in (404, 410):
            path = printable(urlsplit(reply.url).path)
            error = RefusedError("NOT_FOUND", f"{self.host} has nothing at {path}; is the address right?")
        else:
            reason = f"{self.host} answered {reply.status}. Is this the address of an MCP server?"
            error = RefusedError(f"HTTP_{reply.status}", reason)
        return OtherEraError(error)

    def answer_in(self, reply: Reply, returns: int = 0) -> RpcResponse:
        """Return the answer in `reply`, or in its continuation if it broke off. Raises the errors of
        `send`.
        """
        is_asked = False
        try:
            message_or_question = self.find(reply)
            if isinstance(message_or_question, VendorQuestion):
                is_asked = True
                return RpcResponse(reply, question=message_or_question)
            if (
                message_or_question is None
                and returns < MAX_RETURNS
                and (later := self._read_continuation(reply))
            ):
                return self.answer_in(later, returns + 1)
        finally:
            if reply.rest and not is_asked:
                reply.rest.abandon()
        if message_or_question is None:
            reason = f"The reply of {self.host} ended without a result."
            raise ProtocolViolationError("NO_ANSWER", reason)
        message, document = message_or_question
        if "error" in message:
            raise wire.rpc_error(message["error"], reply.status, self.host)
        result = message.get("result")
        if not isinstance(result, dict):
            raise wire.shape_error(f"its result is {describe_value(result)}, not an object", self.host)
        return RpcResponse(reply, result, document)

    def find(self, reply: Reply) -> Found | VendorQuestion | None:
        """Return the message with the answer, else an open question, else None. Others may come before it."""
        is_any = False
        question: VendorQuestion | None = None
        for message, document in wire.read_messages(reply):
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise wire.shape_error("it is no message of JSON-RPC", self.host)
            if wire.asks(message, self.answered):
                question = question or self._question_in(message)
            elif "method" in message:
                continue
            elif wire.answers(message, self.number):
                return message, document
            else:
                is_any = True
        if is_any:
            reason = f"{self.host} answered another request than the one that was asked."
            raise ProtocolViolationError("RPC_MISMATCH", reason)
        return question

    def _question_in(self, message: Mapping[str, Any]) -> VendorQuestion:
        method, number, params = message["method"], message["id"], message.get("params")
        params = params if isinstance(params, dict) else {}
        needed = wire.kinds_needed(method, params)
        # A question that the caller cannot show is refused when its user would be asked.
        is_declared = set(QUESTIONS) & set(self.kinds) if method == ELICITATION else needed <= set(self.kinds)
        if self.is_call and not is_declared:
            self.cancel("The question cannot be asked.")
            raise CannotAskError(self.host, method, needed - set(self.kinds))
        if not self.may_ask:
            raise asks_back(method, self.host)
        if not wire.is_storable(number):
            raise wire.shape_error("the number of its question is too long", self.host)
        return VendorQuestion(number, method, params, answered=self.answered)

    def _read_continuation(self, reply: Reply) -> Reply | None:
        """Return the continuation of a stream that broke off; before 2026-07-28 a vendor may close it on
        purpose.
        """
        streamed = events.parse(reply.body) if wire.is_stream(reply) else ()
        last = next(iter(deque(streamed, maxlen=1)), None)
        if last is None or not last.id:
            return None
        time.sleep(min(last.retry_ms or RETURN_AFTER_MS, LATEST_RETURN_MS) / 1000)
        try:
            return self.session.get(
                "",
                headers={**self.headers, "Accept": events.KIND, "Last-Event-ID": last.id},
                is_enough=self.is_enough(),
                keeps_rest=self.may_ask,
            )
        except RefusedError:
            # The vendor accepted the request itself, which may have had its effect.
            return None

    def is_enough(self, after: Number | None = None) -> Callable[[bytes], bool]:
        """Return a function that receives the bytes of one reply and returns whether the answer has come.
        Events before the answer are passed on to followers of the call.

        after: the id of a question. The reply is read once more, so only events after it are passed on.
        """
        is_unread = after is None

        def has_come(event: events.ServerSentEvent) -> bool:
            nonlocal is_unread
            if wire.is_last(event, self.number, self.answered):
                return True
            if self.session.is_followed and event.name == "message" and event.data:
                for message in wire.messages_in(wire.document_in(event)):
                    params = message.get("params")
                    if message.get("id") == after and message.get("method") in wire.SERVER_REQUESTS:
                        is_unread = True
                    elif is_unread and isinstance(params, dict) and str(message.get("method")) in _EVENTS:
                        name, members = _EVENTS[message["method"]]
                        facts = strict_json.repair_value(params).value
                        event_facts = {member: facts[member] for member in members if member in facts}
                        self.session.pass_on({name: event_facts})
            return False

        return events.until(has_come)

    def cancel_unwanted(self, error: UnavailableError) -> None:
        """Cancel the request at the vendor if `error` means that its answer is not needed any more."""
        is_unwanted = self.session.is_interrupted or error.code in _TOO_SLOW
        if self.is_call and is_unwanted and error.code != "INTERRUPTED":
            is_cancelled = self.session.is_interrupted
            self.cancel("The call was cancelled." if is_cancelled else "The call took too long.")

    def cancel(self, reason: str) -> None:
        """Notify the vendor that the answer is not needed any more. There is no response, and the vendor may
        ignore it.
        """
        if not self.is_in_session and not self.session.mark:
            return
        params = {"requestId": self.number, "reason": reason}
        header_names = (VERSION_HEADER, SESSION_HEADER)
        headers = {name: self.headers[name] for name in header_names if name in self.headers}
        method_header = {} if self.is_in_session else {METHOD_HEADER: _CANCELLED}
        with suppress(ProtocolError):
            self.session.post(
                "",
                json=wire.notification(_CANCELLED, params),
                headers={"Accept": BOTH_FORMS, **headers, **method_header},
                accept=ACCEPTED,
                is_closing=True,
            )


def end_session(session: Session, headers: Mapping[str, str]) -> None:
    """End the vendor's session that `headers` name, if any."""
    if SESSION_HEADER in headers:
        # 405: the vendor ends sessions by itself.
        with suppress(ProtocolError):
            session.delete("", headers=headers, accept=_SESSION_ENDED)


def asks_back(method: str, host: str) -> RefusedError:
    reason = f"{host} sent a request ({method}) during the call, which Pegboard does not answer."
    return RefusedError(ASKS_BACK, reason)


def unauthorized(reply: Reply, host: str) -> RefusedError:
    challenge = reply.headers.get("www-authenticate", "")
    scope = printable(challenges.scope_asked(challenge), 300)
    scope_text = f" It asks for the scope “{scope}”." if scope else ""
    where = printable(challenges.challenge_parameter(challenge, "resource_metadata"), 300)
    more = f" How to get one: {where}" if where else ""
    message = f"{host} wants a credential that may do this ({reply.status}).{scope_text}{more}"
    return RefusedError("AUTH", message, challenge=challenge)
