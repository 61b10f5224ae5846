"""Threads of ACP agents: made, read, and given up. Runs on them: protocols/acp/runs.py."""

from collections.abc import Mapping, Sequence
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolViolationError
from protocols.acp import wire
from protocols.acp.document import thread_state_schema
from protocols.base import Note, Session, ThreadState
from protocols.calls import arguments, outcomes
from protocols.signature import Parameter, Signature

MAX_ID_LENGTH = 255


def create(session: Session, thread_id: str, metadata: Mapping[str, Any]) -> str:
    # Asked for twice, it is the same thread: a reply that got lost costs nothing.
    body = {"thread_id": thread_id, "metadata": dict(metadata), "if_exists": "do_nothing"}
    made = strict_json.require_answer(session.post(wire.THREADS, json=body, is_repeatable=True)).value
    found = made.get("thread_id") if isinstance(made, dict) else None
    if not isinstance(found, str) or not 0 < len(found) <= MAX_ID_LENGTH:
        raise ProtocolViolationError("SHAPE", "The vendor does not say which thread it has made.")
    return found


def state(session: Session, signature: Signature, thread_id: str) -> ThreadState:
    answer = strict_json.require_answer(session.get(wire.thread_path(thread_id)))
    if not isinstance(answer.value, dict):
        raise ProtocolViolationError("SHAPE", "The reply is no thread.")
    return _state(answer.value, signature, outcomes.notes_on(answer))


def history(
    session: Session, signature: Signature, thread_id: str, limit: int, before: str
) -> list[ThreadState]:
    params = {"limit": str(limit), **({"before": before} if before else {})}
    answer = strict_json.require_answer(session.get(wire.thread_path(thread_id, wire.HISTORY), params=params))
    if not isinstance(answer.value, list):
        raise ProtocolViolationError("SHAPE", "The reply is no array of states.")
    notes = outcomes.notes_on(answer)
    # Some servers ignore the limit.
    return [_state(each, signature, notes) for each in answer.value[:limit] if isinstance(each, dict)]


def remove(session: Session, thread_id: str) -> None:
    session.delete(wire.thread_path(thread_id), accept=(200, 202, 204, 404, 410))


def _state(document: Mapping[str, Any], signature: Signature, notes: Sequence[Note]) -> ThreadState:
    status, values, metadata = (document.get(member) for member in ("status", "values", "metadata"))
    messages, checkpoint = document.get("messages"), document.get("checkpoint")
    named = checkpoint.get("checkpoint_id") if isinstance(checkpoint, dict) else checkpoint
    return ThreadState(
        status=status if status in wire.THREAD_STATUSES else "",
        values=values,
        messages=messages if isinstance(messages, list) else None,
        metadata=metadata if isinstance(metadata, dict) else {},
        checkpoint=named if isinstance(named, str) else "",
        notes=(*notes, *_notes(values, signature)),
    )


def _notes(values: object, signature: Signature) -> tuple[Note, ...]:
    schema = thread_state_schema(signature)
    if schema is None or values is None:
        return ()
    whole = Parameter(
        id="values", name="values", type="json", required=True, description="", schema=dict(schema)
    )
    why = arguments.why_not(whole, values, {})
    return (
        (Note("THREAD_STATE", f"The state is not as the vendor's schema has it: it {why}."),) if why else ()
    )
