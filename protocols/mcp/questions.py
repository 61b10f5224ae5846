"""Questions on the stream of a call, as before 2026-07-28: the vendor waits for the answer.

The call ends with its question, and its reply stays open until another request has the answer
(core/open_replies.py). docs/decisions/0074-questions-of-vendors.md gives the reasons.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.open_reply import OpenReply
from core.outbound.reply import Reply
from protocols.base import Session
from protocols.call_outcome import QUESTIONS
from protocols.mcp import rpc, wire
from protocols.mcp.rpc import ACCEPTED, BOTH_FORMS, NOT_SENT, RpcResponse, SentRequest
from protocols.mcp.wire import ELICITATION, Number, VendorQuestion


def keep_open(answer: RpcResponse, sent_request: SentRequest) -> RpcResponse:
    """Return the answer. If it is a question, keep its reply open and add its name to the question.

    Raises RefusedError if the reply cannot stay open.
    """
    question = answer.question
    if question is None:
        return answer
    facts = {
        "headers": dict(sent_request.headers),
        "number": sent_request.number,
        "question": question.number,
        "method": question.method,
        "kinds": list(sent_request.kinds),
    }
    name = sent_request.session.keep_open(answer.reply, facts, _cancel_question)
    if name is None:
        sent_request.cancel("The question cannot be asked.")
        message = (
            f"{sent_request.host} asks its user, and no more questions can wait for their answers now. "
            "Answer those that are open, or call the tool again in some minutes."
        )
        raise RefusedError("NO_ROOM_TO_ASK", message)
    return replace(answer, question=replace(question, reply=name))


def find(session: Session, question: VendorQuestion) -> "OpenQuestion | None":
    """Return the open question; None if its reply is not open any more."""
    reply = session.find_open_reply(question.reply)
    return OpenQuestion(session, question, reply) if reply else None


class OpenQuestion:
    """A question whose reply is open. is_over: its call has ended, so the vendor's session may end."""

    def __init__(self, session: Session, question: VendorQuestion, reply: OpenReply) -> None:
        self.headers: dict[str, str] = dict(reply.facts["headers"])
        self.is_over = False
        self._session, self._question, self._reply = session, question, reply
        self._sent_request = SentRequest(
            session,
            reply.facts["number"],
            self.headers,
            is_call=True,
            kinds=reply.facts.get("kinds", QUESTIONS),
            answered=(*question.answered, question.number),
        )

    def answer(self, response: Mapping[str, Any] | None) -> RpcResponse:
        """Continue the call; None refuses the vendor's request. Raises the errors of `SentRequest.send`."""
        sent_request = self._sent_request
        self.is_over = True
        try:
            reply = self._session.read_open_reply(self._reply, lambda body: True)
            # A vendor that has waited for too long may have continued without the answer.
            if not isinstance(sent_request.find(reply), tuple):
                reply = self._send_response(response)
            answer = sent_request.answer_in(reply)
            asks = answer.question
            if asks is None or answer.reply.rest:
                return keep_open(answer, sent_request)
            # The next question came on the same reply.
            self._reply.set_facts({**self._reply.facts, "question": asks.number, "method": asks.method})
            self.is_over = False
            return replace(answer, question=replace(asks, reply=self._question.reply))
        except UnavailableError as error:
            # The answer may be sent again.
            self.is_over = error.code not in NOT_SENT
            raise
        finally:
            if self.is_over:
                self._reply.discard()

    def _send_response(self, response: Mapping[str, Any] | None) -> Reply:
        # Sends the answer, and returns the reply with the events that follow it.
        sent_request, number = self._sent_request, self._question.number
        if not self._reply.claim(str(number)):
            self.is_over = False
            raise RefusedError("QUESTION_OVER", f"The question of {sent_request.host} was answered before.")
        try:
            receipt = self._session.post(
                "",
                json=_response_message(number, response),
                headers={"Accept": BOTH_FORMS, **self.headers},
                accept=ACCEPTED,
                is_enough=lambda body: True,
            )
        except UnavailableError as error:
            if error.code in NOT_SENT:
                self._reply.release(str(number))
            raise
        if receipt.status in (401, 403):
            raise rpc.unauthorized(receipt, sent_request.host)
        if receipt.status >= 400:
            raise RefusedError(
                "QUESTION_OVER", f"{sent_request.host} did not accept the answer ({receipt.status})."
            )
        try:
            return self._session.read_open_reply(self._reply, sent_request.is_enough(after=number))
        except UnavailableError as error:
            sent_request.cancel_unwanted(error)
            raise

    def give_up(self, reason: str) -> None:
        """End the call, whose question will not be answered."""
        self._sent_request.cancel(reason)
        self._reply.discard()
        self.is_over = True


def _response_message(number: Number, response: Mapping[str, Any] | None) -> dict[str, Any]:
    if response is None:
        return wire.error(number, wire.REQUEST_REFUSED, "The request was refused.")
    return wire.result(number, dict(response))


def _cancel_question(session: Session, facts: Mapping[str, Any]) -> None:
    # Nobody will answer, so the tool need not wait and the session can end.
    headers = facts["headers"]
    cancelled = {"action": "cancel"} if facts.get("method", ELICITATION) == ELICITATION else None
    with suppress(ProtocolError):
        session.post(
            "",
            json=_response_message(facts["question"], cancelled),
            headers={"Accept": BOTH_FORMS, **headers},
            accept=ACCEPTED,
            is_closing=True,
        )
    rpc.end_session(session, headers)
