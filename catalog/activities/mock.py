"""Activities that make their answers up: nothing is sent, and no credential is opened."""

from collections.abc import Mapping
from typing import Any

from catalog.activities.base import Kind, Work
from catalog.activities.mocks import answers
from catalog.protocols.base import Outcome
from catalog.protocols.calls import outcomes
from catalog.protocols.signature import Signature

TOO_SLOW = "The mock was told to be slower than the call may last."


class Mock(Kind):
    name = "mock"
    label = "A mock"
    summary = "Answers from examples, from situations, or by a seed from the output schema."
    acts = False

    def check(self, config: Mapping[str, Any], interface: Signature | None) -> dict[str, Any]:
        return answers.check(config, interface)

    def perform(self, work: Work) -> Outcome:
        call = work.call
        reply = answers.reply(
            answers.read(work.config),
            work.signature,
            call.arguments,
            state=call.continues.decoded().resume if call.continues else None,
            is_declined=any(answer is None for answer in call.answers.values()),
        )
        left = max(work.seconds_left(), 0)
        if reply.seconds:
            work.rest(min(reply.seconds, left))
        # Of a call that was ended meanwhile, what is said here is dropped.
        return (
            reply.outcome if reply.seconds <= left else outcomes.failed("unavailable", "DEADLINE", TOO_SLOW)
        )
