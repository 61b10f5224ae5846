"""Continuations of calls that stopped to ask: a call of its own, which has the answers."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from catalog.models import Call
from catalog.models.calls import Mode
from core.canonical_json import canonical
from core.errors import DomainError
from execution.calls import checks, requesting
from execution.calls.call_keys import ClientCallId
from execution.calls.runtime import Runtime
from execution.user_grants import end_users
from execution.user_grants.context import USER
from people.models import ApiKey, User


def continue_call(
    call: Call,
    *,
    actor: User,
    answers: Mapping[str, Any],
    key: uuid.UUID | None = None,
    call_id: ClientCallId | None = None,
    api_key: ApiKey | None = None,
    runtime: Runtime | None = None,
    is_claimed: bool = False,
    mode: Mode = Mode.WAIT,
    mark: str = "",
    parent: Call | None = None,
) -> Call:
    """Store a call that continues where `call` stopped to ask.

    A call of a runtime is continued only in a runtime of the same agent. Each call has one continuation: the
    same answers return the first one, unless it had no effect.

    answers: by the id of the question. None declines, and CLOSED decides nothing. Questions without a schema
    need no answer.
    is_claimed: as for `request_call`. parent: the call that continues the parent of a step.
    """
    result = call.decoded()
    if parent:
        runtime = requesting.runtime_of_step(parent, call.version)
    if call.agent != (runtime.agent if runtime else None):
        message = "A runtime made this call. Continue it in that runtime."
        raise DomainError("call_of_a_runtime", message, status=409)
    if call.is_active or result.resume is None:
        message = "This call cannot be continued. Run the tool again."
        raise DomainError("nothing_to_continue", message, status=409)
    checks.refuse_too_large(answers)
    if call.activity_id is None:
        checks.refuse_unfit(call.version, checks.review_states(call.version), runtime)
    checks.refuse_answers(result.asks, answers)
    answers_by_id = {ask.id: answers.get(ask.id, {}) for ask in result.asks}
    following = call.continuation(answers=answers_by_id, api_key=api_key, mode=mode, mark=mark, parent=parent)
    if runtime and isinstance(name := following.answers.get(USER), str):
        # The answer names the user, and is stored as if the call had named the user.
        following.on_behalf_of = end_users.remember(runtime.agent, name)
        del following.answers[USER]

    def write() -> Call:
        with transaction.atomic():
            Call.objects.select_for_update(no_key=True).filter(pk=call.pk).first()
            if earlier := _find_continuation(call, following):
                return earlier
            return requesting.store(following, actor, runtime, key, call_id, is_claimed=is_claimed)

    return requesting.store_or_unknown(following, write)


def _find_continuation(call: Call, following: Call) -> Call | None:
    """Return the existing continuation with the same answers. Raises DomainError for other answers."""
    for earlier in call.continued_by.order_by("-pk"):
        if call.resumes_when_granted:
            if earlier.is_active or earlier.may_have_been_sent:
                return earlier
        elif earlier.is_active or earlier.has_used_its_answers:
            new_answers = (canonical(following.answers), following.on_behalf_of)
            if (canonical(earlier.answers), earlier.on_behalf_of) == new_answers:
                return earlier
            state = "is being continued" if earlier.is_active else "was continued"
            message = f"This call {state} with other answers, as call {earlier.pk}. Read its result."
            raise DomainError("already_continued", message, status=409)
    return None
