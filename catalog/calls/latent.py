"""Calls that nothing runs for: the model that makes one gives its output, in the same call or afterwards.

“Latent execution”: https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9
"""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.calls import invocation, requesting, results
from catalog.models import Call, ToolVersion
from core.canonical_json import canonical
from core.errors import DomainError
from people import audit
from people.models import User
from protocols.base import Note, Outcome
from protocols.calls import outcomes

LATENT = outcomes.failed(
    "latent",
    "LATENT",
    "Nothing runs for this tool here: the model gives its output itself, as its schema has it.",
)
GIVEN = Note("MODEL_OUTPUT", "The model gave this output itself.")
GIVEN_BY_A_PERSON = Note("PERSON_OUTPUT", "A person gave this output on the page, in place of the model.")


def given(outputs: dict[str, Any], *, by: Note = GIVEN) -> Outcome:
    """What the model gave, or a person in its place, by the names of the signature."""
    return Outcome("ok", outputs=outputs, notes=[by])


def request(version: ToolVersion, *, actor: User, output: Outcome | None = None, **wish: Any) -> Call:
    """The call as it is kept, or the one that was made with this `key` before; with an `output` it has ended.

    `wish` is as for `requesting.request_call`, and so is what it raises. Raises DomainError for another
    output than the call was given before.
    """
    call = requesting.request_call(version, actor=actor, ended=output or LATENT, **wish)
    invocation.tell_the_end(call)
    return answer(call, actor=actor, output=output) if output and call.outcome != "unknown" else call


def answer(call: Call, *, actor: User, output: Outcome, why: str = "") -> Call:
    """The call with its output. The same output may be given again. Raises DomainError for a call that waits
    for none, and for another output than it was given."""
    told = results.told(output, [])
    with transaction.atomic():
        waiting = Call.objects.filter(pk=call.pk, outcome="latent")
        if waiting.update(finished_at=Now(), **told):
            audit.record(actor, "give output", call.tool, after={"call": call.pk}, why=why, agent=call.agent)
    call.refresh_from_db()
    kept = call.decoded()
    if not {note["code"] for note in kept.notes} & {GIVEN.code, GIVEN_BY_A_PERSON.code}:
        message = "This call waits for no output of a model: something ran for it."
        raise DomainError("not_latent", message, status=409)
    if canonical(kept.outputs) != canonical(output.outputs):
        message = "This call was given another output before, which stays. Make another call."
        raise DomainError("output_given", message, status=409)
    return call
