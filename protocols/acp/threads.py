"""Create, read and remove threads of ACP agents. Runs on them: protocols/acp/runs.py."""

from collections.abc import Mapping, Sequence
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolViolationError
from protocols.acp import wire
from protocols.acp.document import thread_state_schema
from protocols.base import Session, ThreadState
from protocols.calls import arguments, outcomes
from protocols.list_pages import Note
from protocols.signature import Parameter, Signature

MAX_ID_LENGTH = 255


def create(session: Session, thread_id: str, metadata: Mapping[str, Any]) -> str:
    # Repeating the request returns the same thread, so a lost reply does no harm.
    body = {"thread_id": thread_id, "metadata": dict(metadata), "if_exists": "do_nothing"}
    document = strict_json.require_answer(session.post(wire.THREADS, json=body, is_repeatable=True)).value
    vendor_id = document.get("thread_id") if isinstance(document, dict) else None
    if not isinstance(vendor_id, str) or not 0 < len(vendor_id) <= MAX_ID_LENGTH:
        raise ProtocolViolationError("SHAPE", "The reply has no id of the new thread.")
    return vendor_id


def state(session: Session, signature: Signature, thread_id: str) -> ThreadState:
    answer = strict_json.require_answer(session.get(wire.thread_path(thread_id)))
    if not isinstance(answer.value, dict):
        raise ProtocolViolationError("SHAPE", "The reply is not a thread.")
    return _read_state(answer.value, signature, outcomes.notes_on(answer))


def history(
    session: Session, signature: Signature, thread_id: str, limit: int, before: str
) -> list[ThreadState]:
    params = {"limit": str(limit), **({"before": before} if before else {})}
    answer = strict_json.require_answer(session.get(wire.thread_path(thread_id, wire.HISTORY), params=params))
    if not isinstance(answer.value, list):
        raise ProtocolViolationError("SHAPE", "The reply is not an array of states.")
    notes = outcomes.notes_on(answer)
    # Some servers ignore the limit.
    return [_read_state(entry, signature, notes) for entry in answer.value[:limit] if isinstance(entry, dict)]


def remove(session: Session, thread_id: str) -> None:
    session.delete(wire.thread_path(thread_id), accept=(200, 202, 204, 404, 410))


def _read_state(document: Mapping[str, Any], signature: Signature, notes: Sequence[Note]) -> ThreadState:
    status, values, metadata = (document.get(member) for member in ("status", "values", "metadata"))
    messages, checkpoint = document.get("messages"), document.get("checkpoint")
    checkpoint_id = checkpoint.get("checkpoint_id") if isinstance(checkpoint, dict) else checkpoint
    schema = thread_state_schema(signature)
    if schema is not None and values is not None:
        whole_output = Parameter(
            id="values", name="values", type="json", required=True, description="", schema=dict(schema)
        )
        if problem := arguments.value_problem(whole_output, values, {}):
            message = f"The state does not match the vendor's schema: it {problem}."
            notes = (*notes, Note("THREAD_STATE", message))
    return ThreadState(
        status=status if status in wire.THREAD_STATUSES else "",
        values=values,
        messages=messages if isinstance(messages, list) else None,
        metadata=metadata if isinstance(metadata, dict) else {},
        checkpoint=checkpoint_id if isinstance(checkpoint_id, str) else "",
        notes=tuple(notes),
    )
