"""Calls without an activity: the model that sends a call writes its output, at once or later.

“Latent execution”: https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9
"""

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from catalog.models import Call, ToolVersion
from core.canonical_json import canonical
from core.errors import DomainError
from execution.calls import invocation, requesting, results
from people import audit
from people.models import User
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.list_pages import Note

LATENT = outcomes.failed(
    "latent",
    "LATENT",
    "This tool has no implementation: the model writes the output itself, by the output schema.",
)
BY_MODEL = Note("MODEL_OUTPUT", "The model wrote this output itself.")
BY_PERSON = Note("PERSON_OUTPUT", "A user entered this output on the page, in place of the model.")


def output_outcome(outputs: dict[str, Any], *, answerer: Note = BY_MODEL) -> Outcome:
    """Return the outcome with an output of the model, or of a user, by the names of the signature."""
    return Outcome("ok", outputs=outputs, notes=[answerer])


def request(version: ToolVersion, *, actor: User, output: Outcome | None = None, **options: Any) -> Call:
    """Store a call, or return the earlier call with the same `key`. With an `output` it has ended.

    options: those of `requesting.request_call`, which raises the same errors. Raises DomainError if the
    call has another output already.
    """
    call = requesting.request_call(version, actor=actor, outcome=output or LATENT, **options)
    invocation.report_end(call)
    return answer(call, actor=actor, output=output) if output and call.outcome != "unknown" else call


def answer(call: Call, *, actor: User, output: Outcome, why: str = "") -> Call:
    """Store the output of a call. Storing the same output again has no effect.

    Raises DomainError for a call that waits for no output, and for an output that differs from the stored
    one.
    """
    columns = results.result_columns(output, [])
    with transaction.atomic():
        waiting = Call.objects.filter(pk=call.pk, outcome="latent")
        if waiting.update(finished_at=Now(), **columns):
            audit.record(actor, "give output", call.tool, after={"call": call.pk}, why=why, agent=call.agent)
    call.refresh_from_db()
    result = call.decoded()
    if not {note["code"] for note in result.notes} & {BY_MODEL.code, BY_PERSON.code}:
        message = "This call waits for no output of a model, because the tool has an implementation."
        raise DomainError("not_latent", message, status=409)
    if canonical(result.outputs) != canonical(output.outputs):
        message = "This call has another output already, which stays. Send a new call."
        raise DomainError("output_given", message, status=409)
    return call
