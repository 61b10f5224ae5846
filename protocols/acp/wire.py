"""Paths and messages of ACP, for client and server."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

AGENTS, RUNS, THREADS = "/agents", "/runs", "/threads"
SEARCH, DESCRIPTOR, MANIFEST = "search", "descriptor", "manifest"
WAIT, STREAM, CANCEL, HISTORY = "wait", "stream", "cancel", "history"

RUN_STATUSES = ("pending", "error", "success", "timeout", "interrupted")
FAILED_STATUSES = ("error", "timeout")
ENDED_STATUSES = ("success", "interrupted", *FAILED_STATUSES)
THREAD_STATUSES = ("idle", "busy", "interrupted", "error")

# The name of an event on the stream of a run.
EVENT = "agent_event"
# The member with the kind of an interrupt, and of the answer to it.
INTERRUPT_TYPE = "interrupt_type"
# The `errcode` of a failed run by the outcome of its call. Pegboard defines these; the protocol has no list.
ERRORS = {
    "tool_error": 1,
    "unavailable": 2,
    "refused": 3,
    "needs_authorization": 4,
    "invalid_arguments": 5,
    "ok": 6,
    "needs_input": 7,
    "latent": 8,
    "unknown": 9,
}


def path(*parts: str) -> str:
    """Return a path below the first part, whose slashes are not encoded."""
    return "/".join([parts[0], *(quote(part, safe="") for part in parts[1:])])


def thread_path(thread_id: str, *parts: str) -> str:
    return path(THREADS, thread_id, *parts)


def runs_path(thread_id: str, *parts: str) -> str:
    """Return a path below the runs of a thread, or below the runs without a thread for ""."""
    return path(f"{thread_path(thread_id)}{RUNS}" if thread_id else RUNS, *parts)


def mark(text: str) -> dict[str, Any]:
    """Return metadata with which a client can find a run whose id it did not receive."""
    return {"call_id": text}


def mark_of(run: Mapping[str, Any]) -> str:
    metadata = run.get("metadata")
    text = metadata.get("call_id") if isinstance(metadata, dict) else None
    return text if isinstance(text, str) else ""


def result(values: object) -> dict[str, Any]:
    return {"type": "result", "values": values}


def interrupt(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "interrupt", "interrupt": {INTERRUPT_TYPE: kind, **payload}}


def error(run_id: str, number: int, description: str) -> dict[str, Any]:
    return {"type": "error", "run_id": run_id, "errcode": number, "description": description}


def run(
    *, run_id: str, agent_id: str, created_at: str, updated_at: str, status: str, thread_id: str = ""
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        **({"thread_id": thread_id} if thread_id else {}),
        "agent_id": agent_id,
        "created_at": created_at,
        "updated_at": updated_at,
        "status": status,
    }


def run_status(*, is_success: bool, can_resume: bool, questions: int) -> str:
    """Return the status of a run that has ended."""
    if is_success:
        return "success"
    # An interrupt has exactly one question.
    return "interrupted" if can_resume and questions == 1 else "error"


def update(output: Mapping[str, Any], run_id: str, status: str) -> dict[str, Any]:
    """Return an update on the stream of a run, where a result has the type `values`."""
    kind = {"result": "values"}.get(output["type"], output["type"])
    return {**output, "type": kind, "run_id": run_id, "status": status}
