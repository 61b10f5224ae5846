"""`elicitation/create` inside a call, as it was before 2026-07-28: the question goes out on the stream that
the call is answered with, and the answer comes as a request of its own, to whichever process takes it.

What is asked, and how a call goes on with the answers, is as in the newer era (questions.py): only that the
call stays open meanwhile. A question that is not answered in time is told like one that cannot be asked. The
stream of a call that its client cancels ends without a response, as the specification has it.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import redis

from core import redis_client
from core.errors import DomainError
from core.postgresql.base import give_back
from protocols.mcp import wire
from protocols.mcp.server import messages
from protocols.mcp.wire import Number
from protocols.server import Reply
from serving.serve.base import Operations
from serving.serve.mcp import errors, tools
from serving.serve.mcp.streams import LASTS, PING, PING_EVERY, Places, event, streams_in_a_process

logger = logging.getLogger(__name__)
PAUSE = 0.2
# Seconds in which what was heard is there for other streams of the same call, and for one that only begins.
HEARD = 10
MAX_ANSWER_BYTES = 64 * 1024
_NUMBER = re.compile(r"(?:call-[0-9]{1,18}|first-[0-9a-f]{32})-[0-9]{1,4}")
# A key whose users do not answer leaves half of them to the others.
_places = Places(
    lambda: max(1, streams_in_a_process() // 2), for_one=lambda: max(1, streams_in_a_process() // 4)
)

# What is told of the call with these members among its parameters, and what comes of it.
GoOn = Callable[[Mapping[str, Any]], Generator[bytes, None, dict[str, Any]]]


class _CancelledError(Exception):
    """The client does not want the call any more."""


def asking(
    operations: Operations, mark: str, number: Number, required: Mapping[str, Any], go_on: GoOn
) -> Reply | None:
    """A stream that asks what is `required`, goes on with the call until it asks no more, and ends with its
    result, as the answer to the message `number`; or that ends once the client has cancelled what it marked
    so. None where no place is left for this key."""
    if not _places.take(operations.caller.key):
        return None
    return _places.stream(_events(operations, mark, number, required, go_on), operations.caller.key)


def heard(operations: Operations, number: Number | None, response: object) -> None:
    """Keeps an answer for the process that waits for it. Raises DomainError."""
    if not isinstance(number, str) or not _NUMBER.fullmatch(number):
        return
    written = msgspec.json.encode(response if isinstance(response, dict) else {})
    if len(written) > MAX_ANSWER_BYTES:
        raise DomainError("too_large", f"An answer has at most {MAX_ANSWER_BYTES // 1024} kB.", status=413)
    try:
        # An answer that no process waits for is not kept.
        redis_client.client().set(_key(operations, number), written, xx=True, keepttl=True)
    except redis.RedisError as error:
        message = "The answer could not be passed on. Send it again."
        raise DomainError("unavailable", message, status=503) from error


def cancel(operations: Operations, mark: str) -> None:
    """Ends the streams that ask for a call with this mark, in whichever process they are."""
    with suppress(redis.RedisError):
        redis_client.client().set(_cancelled_key(operations, mark), "1", ex=HEARD)


def _events(
    operations: Operations, mark: str, number: Number, required: Mapping[str, Any], go_on: GoOn
) -> Generator[bytes]:
    ends, result, state = time.monotonic() + LASTS, dict(required), None
    try:
        while result.get("resultType") == "input_required":
            state = result.get("requestState")
            # What is asked before there is a call has no other name.
            name = state or f"first-{uuid.uuid4().hex}"
            responses = yield from _answers(operations, mark, name, result["inputRequests"], ends)
            if responses is None:
                result = tools.unanswered(operations, state)
            else:
                named = {"requestState": state} if state else {}
                result = yield from go_on({**named, "inputResponses": responses})
        answer = wire.result(number, result)
    except _CancelledError:
        tools.give_up(operations, state)
        return
    except Exception as error:
        told = errors.of_error(error)
        if told is None:
            logger.exception("a call that asked its user failed")
            told = errors.our_fault()
        answer = messages.error(number, told)
    yield event(answer)


def _answers(
    operations: Operations, mark: str, asked: str, requests: Mapping[str, Any], ends: float
) -> Generator[bytes, None, dict[str, Any] | None]:
    # One after the other: clients put one form before their users.
    responses, kept = {}, int(LASTS) + 60
    for at, (name, request) in enumerate(requests.items()):
        number = f"{asked}-{at}"
        key, broker, pinged = _key(operations, number), redis_client.client(), time.monotonic()
        try:
            # A client that sends its call again has a second stream for the question, or an answer already.
            if not broker.set(key, "", ex=kept, nx=True):
                broker.expire(key, kept)
            yield event(wire.request(number, request["method"], request["params"]))
            while True:
                found, is_cancelled = broker.mget(key, _cancelled_key(operations, mark))
                if is_cancelled:
                    raise _CancelledError
                if found:
                    break
                if (now := time.monotonic()) > ends:
                    return None
                if now - pinged > PING_EVERY:
                    pinged = now
                    yield PING
                give_back()
                time.sleep(PAUSE)
            broker.expire(key, HEARD)
        except redis.RedisError:
            return None
        responses[name] = msgspec.json.decode(str(found))
    return responses


def _key(operations: Operations, number: str) -> str:
    # No other key answers for the one that called.
    return f"pegboard:asked:{operations.caller.key.pk}:{number}"


def _cancelled_key(operations: Operations, mark: str) -> str:
    return f"pegboard:asked:{operations.caller.key.pk}:cancelled:{mark}"
