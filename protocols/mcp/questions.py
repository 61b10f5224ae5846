"""Questions that a vendor asks on the stream of a call and waits for there, as it is before 2026-07-28.

The call ends with its question, and its reply stays open until another request brings the answer
(core/open_replies.py). docs/decisions/0074-questions-of-vendors.md says why.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.open_reply import OpenReply
from core.outbound.reply import Reply
from protocols.base import QUESTIONS, Session
from protocols.mcp import rpc, wire
from protocols.mcp.rpc import ACCEPTED, BOTH_FORMS, NOT_SENT, Answer, SentRequest
from protocols.mcp.wire import ELICITATION, Number, Question


def keep_open(answer: Answer, sent: SentRequest) -> Answer:
    """The `answer`, and if it asks, with the name under which its reply stays open. Raises RefusedError where
    it cannot stay open."""
    question = answer.question
    if question is None:
        return answer
    facts = {
        "headers": dict(sent.headers),
        "number": sent.number,
        "question": question.number,
        "method": question.method,
        "kinds": list(sent.kinds),
    }
    name = sent.session.keep_open(answer.reply, facts, _cancel_question)
    if name is None:
        sent.cancel("The question cannot be asked.")
        message = (
            f"{sent.host} asks its user, and no more questions can wait for their answers now. Answer those "
            "that are open, or call the tool again in some minutes."
        )
        raise RefusedError("NO_ROOM_TO_ASK", message)
    return replace(answer, question=replace(question, reply=name))


def find(session: Session, question: Question) -> "OpenQuestion | None":
    """None: its reply is not open any more."""
    reply = session.find_open_reply(question.reply)
    return OpenQuestion(session, question, reply) if reply else None


class OpenQuestion:
    """`is_over` says that nothing of its call is to be read any more: the vendor's session may end."""

    def __init__(self, session: Session, question: Question, reply: OpenReply) -> None:
        self.headers: dict[str, str] = dict(reply.facts["headers"])
        self.is_over = False
        self._session, self._question, self._reply = session, question, reply
        self._sent = SentRequest(
            session,
            reply.facts["number"],
            self.headers,
            is_call=True,
            kinds=reply.facts.get("kinds", QUESTIONS),
            answered=(*question.answered, question.number),
        )

    def answer(self, response: Mapping[str, Any] | None) -> Answer:
        """Go on with the call; None refuses the vendor's request. Raises as `SentRequest.send` does."""
        sent = self._sent
        self.is_over = True
        try:
            reply = self._session.read_open_reply(self._reply, lambda body: True)
            # A vendor that has waited for too long may have gone on without the answer.
            if not isinstance(sent.find(reply), tuple):
                reply = self._told(response)
            answer = sent.answer_in(reply)
            asks = answer.question
            if asks is None or answer.reply.rest:
                return keep_open(answer, sent)
            # On the reply that is open already.
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

    def _told(self, response: Mapping[str, Any] | None) -> Reply:
        # What the vendor goes on to say, once it has the answer.
        sent, number = self._sent, self._question.number
        if not self._reply.claim(str(number)):
            self.is_over = False
            raise RefusedError("QUESTION_OVER", f"The question of {sent.host} was answered before.")
        try:
            taken = self._session.post(
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
        if taken.status in (401, 403):
            raise rpc.unauthorized(taken, sent.host)
        if taken.status >= 400:
            raise RefusedError("QUESTION_OVER", f"{sent.host} did not take the answer ({taken.status}).")
        try:
            return self._session.read_open_reply(self._reply, sent.is_enough(after=number))
        except UnavailableError as error:
            sent.cancel_unwanted(error)
            raise

    def give_up(self, why: str) -> None:
        """Ends the call, to whose question no answer comes."""
        self._sent.cancel(why)
        self._reply.discard()
        self.is_over = True


def _response_message(number: Number, response: Mapping[str, Any] | None) -> dict[str, Any]:
    if response is None:
        return wire.error(number, wire.REQUEST_REFUSED, "The request was refused.")
    return wire.result(number, dict(response))


def _cancel_question(session: Session, facts: Mapping[str, Any]) -> None:
    # No answer comes: the tool need not wait, and the vendor need not remember us.
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
