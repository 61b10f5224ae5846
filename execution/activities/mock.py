"""Activities that invent their answers: they send nothing and use no credential."""

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec
import redis
from django.utils.translation import gettext_lazy as _

from core import redis_client
from execution.activities.base import ActivityKind, ActivityWork
from execution.activities.mocks import answers
from execution.activities.mocks.situations import Interrupt, Situation
from protocols.call_outcome import Outcome, is_withheld
from protocols.calls import outcomes
from protocols.signature import Signature

logger = logging.getLogger(__name__)
# After the last call of a caller.
COUNTED_SECONDS = 24 * 3600
TOO_SLOW = "The mock's delay is longer than the time limit of the call."


class MockKind(ActivityKind):
    name = "mock"
    label = _("A mock")
    summary = _("Answers from examples and situations, or generates an answer from the output schema.")
    acts = False

    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        return answers.check(config, interface)

    def may_ask(self, config: Mapping[str, Any]) -> bool:
        return any(
            isinstance(situation, Interrupt) and situation.is_on
            for situation in answers.read_mock(config).situations
        )

    def perform(self, work: ActivityWork) -> Outcome:
        call = work.call

        def count_call(situation: Situation) -> int:
            # Counted for all processes. If Valkey is unavailable, each call counts as the first.
            caller = f"key {call.api_key_id}" if call.api_key_id else f"user {call.requested_by_id}"
            encoded = msgspec.json.encode(situation, order="deterministic").decode()
            identity = f"{call.activity_id}/{caller}/{call.environment}/{encoded}"
            name = f"pegboard:mock:{hashlib.sha256(identity.encode()).hexdigest()}"
            try:
                with redis_client.client().pipeline() as pipe:
                    pipe.incr(name)
                    pipe.expire(name, COUNTED_SECONDS)
                    nth, _unused = pipe.execute()
            except (redis.RedisError, OSError):
                logger.exception("calls of a mock were not counted")
                return 1
            return int(nth)

        reply = answers.reply(
            answers.read_mock(work.config),
            work.signature,
            call.arguments,
            state=call.continues.decoded().resume if call.continues else None,
            is_declined=any(is_withheld(answer) for answer in call.answers.values()),
            nth=count_call,
        )
        seconds_left = max(work.seconds_left(), 0)
        if reply.seconds:
            work.sleep(min(reply.seconds, seconds_left))
        # The outcome of a call that was ended meanwhile is dropped.
        return (
            reply.outcome
            if reply.seconds <= seconds_left
            else outcomes.failed("unavailable", "DEADLINE", TOO_SLOW)
        )
