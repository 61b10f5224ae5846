"""`elicitation/create` inside a call, as before 2026-07-28: the question is an event on the stream of the
call, and the client sends the answer in a request of its own, which any process may receive.

The questions, and how a call continues with the answers, are those of the newer era (questions.py); here the
stream stays open in between. A question without an answer in time is reported like one that the client cannot
be asked. The stream of a call that its client cancels ends without a response, as the specification requires.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

import re
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from core.errors import DomainError
from protocols.mcp import wire
from protocols.mcp.server import messages, tools
from protocols.mcp.server.release import McpRelease, StoreError
from protocols.mcp.server.streams import PING, PING_EVERY, STREAM_SECONDS, event, stream_reply
from protocols.mcp.wire import Number
from protocols.server import ServerReply

PAUSE = 0.2
TOPIC = "asked"
# For so many seconds a response is stored for other streams of the same call, including one that begins
# later.
RESPONSE_SECONDS = 10
MAX_ANSWER_BYTES = 64 * 1024
_NUMBER = re.compile(r"(?:call-[0-9]{1,18}|first-[0-9a-f]{32})-[0-9]{1,4}")

# Continues the call with these members added to its parameters: yields events and returns the result.
Continue = Callable[[Mapping[str, Any]], Generator[bytes, None, dict[str, Any]]]


class _CancelledError(Exception):
    """The client has cancelled the call."""


def stream_questions(
    release: McpRelease, mark: str, number: Number, required: Mapping[str, Any], continue_call: Continue
) -> ServerReply | None:
    """Return a stream that sends the questions of `required` and continues the call until it has a result,
    which answers the message `number`. It ends early if the client cancels the call with this mark.

    None if this key has no free stream.
    """

    def generate_events() -> Generator[bytes]:
        ends, result, state = time.monotonic() + STREAM_SECONDS, dict(required), None
        try:
            while result.get("resultType") == "input_required":
                state = result.get("requestState")
                # A confirmation is requested before there is a call, so it has no state.
                name = state or f"first-{uuid.uuid4().hex}"
                responses = yield from _collect_responses(release, mark, name, result["inputRequests"], ends)
                if responses is None:
                    result = tools.result_without_answer(release, state)
                else:
                    state_member = {"requestState": state} if state else {}
                    result = yield from continue_call({**state_member, "inputResponses": responses})
            answer = wire.result(number, result)
        except _CancelledError:
            tools.give_up(release, state)
            return
        except Exception as error:  # noqa: BLE001 - it is logged
            answer = messages.error_for(number, error, release.refusal_for)
        yield event(answer)

    leave = release.reserve_stream("questions")
    if leave is None:
        return None
    return stream_reply(generate_events(), leave)


def store_response(release: McpRelease, number: Number | None, response: object) -> None:
    """Store a client's response for the process that waits for it. Raises DomainError if it is too large or
    cannot be stored.
    """
    if not isinstance(number, str) or not _NUMBER.fullmatch(number):
        return
    encoded = msgspec.json.encode(response if isinstance(response, dict) else {})
    if len(encoded) > MAX_ANSWER_BYTES:
        raise DomainError("too_large", f"An answer has at most {MAX_ANSWER_BYTES // 1024} kB.", status=413)
    try:
        # A response that no process waits for is not stored.
        release.store(TOPIC).write(number, encoded, None, only_if="old")
    except StoreError as error:
        message = "The answer could not be passed on. Send it again."
        raise DomainError("unavailable", message, status=503) from error


def cancel(release: McpRelease, mark: str) -> None:
    """End the streams with questions of a call with this mark, in all processes."""
    with suppress(StoreError):
        release.store(TOPIC).write(_cancellation_name(mark), "1", RESPONSE_SECONDS)


def _collect_responses(
    release: McpRelease, mark: str, question_prefix: str, requests: Mapping[str, Any], ends: float
) -> Generator[bytes, None, dict[str, Any] | None]:
    # One after the other: clients put one form before their users.
    responses, seconds = {}, int(STREAM_SECONDS) + 60
    for index, (name, request) in enumerate(requests.items()):
        number = f"{question_prefix}-{index}"
        pinged = time.monotonic()
        try:
            store = release.store(TOPIC)
            # A client that sends its call again has a second stream for the question, or an answer already.
            if not store.write(number, "", seconds, only_if="new"):
                store.extend(number, seconds)
            yield event(wire.request(number, request["method"], request["params"]))
            while True:
                encoded, is_cancelled = store.read(number, _cancellation_name(mark))
                if is_cancelled:
                    raise _CancelledError
                if encoded:
                    break
                if (now := time.monotonic()) > ends:
                    return None
                if now - pinged > PING_EVERY:
                    pinged = now
                    yield PING
                release.pause(PAUSE)
            store.extend(number, RESPONSE_SECONDS)
        except StoreError:
            return None
        responses[name] = msgspec.json.decode(encoded)
    return responses


def _cancellation_name(mark: str) -> str:
    return f"cancelled:{mark}"
