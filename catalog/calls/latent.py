"""Calls that nothing runs for: the model that makes one gives its output, in the same call or afterwards.

“Latent execution”: https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9
"""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.calls import invocation, queue, results
from catalog.models import Call, ToolVersion
from catalog.protocols.base import Note, Outcome
from catalog.protocols.calls import outcomes
from core.errors import DomainError
from people import audit
from people.models import User

LATENT = outcomes.failed(
    "latent",
    "LATENT",
    "Nothing runs for this tool here: the model gives its output itself, as its schema has it.",
)
GIVEN = Note("MODEL_OUTPUT", "The model gave this output itself.")


def given(outputs: dict[str, Any]) -> Outcome:
    """What the model gave, by the names of the signature."""
    return Outcome("ok", outputs=outputs, notes=[GIVEN])


def request(version: ToolVersion, *, actor: User, output: Outcome | None = None, **wish: Any) -> Call:
    """The call as it is kept, or the one that was made with this `key` before; with an `output` it has ended.

    `wish` is as for `queue.request_call`, and so is what it raises. Raises DomainError for another output
    than the call was given before.
    """
    call = queue.request_call(version, actor=actor, ended=output or LATENT, **wish)
    invocation.tell_the_end(call)
    return answer(call, actor=actor, output=output) if output else call


def answer(call: Call, *, actor: User, output: Outcome, why: str = "") -> Call:
    """The call with its output. The same output may be given again. Raises DomainError for a call that waits
    for none, and for another output than it was given."""
    told = results.told(output, [])
    with transaction.atomic():
        waiting = Call.objects.filter(pk=call.pk, outcome="latent")
        if waiting.update(finished_at=Now(), **told):
            audit.record(actor, "give output", call.tool, after={"call": call.pk}, why=why, agent=call.agent)
    call.refresh_from_db()
    if all(note["code"] != GIVEN.code for note in call.decoded().notes):
        message = "This call waits for no output of a model: something ran for it."
        raise DomainError("not_latent", message, status=409)
    if call.result != told["result"]:
        message = "This call was given another output before, which stays. Make another call."
        raise DomainError("output_given", message, status=409)
    return call
