"""The threads of ACP: created, found, read and ended. Runs on them: serving/serve/acp.py."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import Exists, OuterRef

from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS
from catalog.models.threads import ThreadStatus
from core.errors import DomainError
from execution.threads import threads as vendors_threads
from protocols.acp.server import page_of
from protocols.base import ThreadState
from serving import threads
from serving.serve.base import Operations

IF_EXISTS = ("raise", "do_nothing")


def create_thread(operations: Operations, body: Mapping[str, Any]) -> dict[str, Any]:
    requested_id, metadata, if_exists = (
        body.get(member) for member in ("thread_id", "metadata", "if_exists")
    )
    if metadata is not None and not isinstance(metadata, dict):
        raise DomainError("invalid", "“metadata” is no object.")
    if if_exists not in (None, *IF_EXISTS):
        raise DomainError("invalid", f"“if_exists” is one of: {', '.join(IF_EXISTS)}.")
    key = None if requested_id is None else _uuid(requested_id)
    if key and if_exists != "do_nothing" and operations.threads().filter(key=key).exists():
        message = "A thread with this id exists. Send “if_exists”: “do_nothing” to continue it."
        raise DomainError("key_taken", message, status=409)
    return document(operations.begin_thread(key, metadata))


def search_threads(operations: Operations, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(body)
    rows = operations.threads().annotate(is_busy=Exists(_running_calls()))
    if (metadata := body.get("metadata")) is not None:
        if not isinstance(metadata, dict):
            raise DomainError("invalid", "“metadata” is no object.")
        rows = rows.filter(metadata__contains=metadata)
    if body.get("values"):
        raise DomainError(
            "invalid", "The values of threads are stored by vendors, so they cannot be searched."
        )
    if (status := body.get("status")) is not None:
        if status not in ThreadStatus.values:
            raise DomainError("invalid", f"“status” is one of: {', '.join(ThreadStatus.values)}.")
        is_busy = status == ThreadStatus.BUSY
        rows = rows.filter(is_busy=is_busy, **({} if is_busy else {"status": status}))
    rows = rows.order_by("-pk")[offset : offset + limit]
    return [document(thread, is_busy=thread.is_busy) for thread in rows]


def read_thread(operations: Operations, key: uuid.UUID) -> dict[str, Any]:
    """Return the thread with its state, as its vendor reports it now."""
    thread = operations.thread(key)
    state = vendors_threads.state(thread)
    thread.refresh_from_db(fields=["status"])
    (view,) = threads.view_threads([thread])
    visible_state = threads.hide_values(state, view)
    is_busy = _running_calls(thread.pk).exists()
    return {**document(thread, is_busy=is_busy), **_present_members(visible_state)}


def history(operations: Operations, key: uuid.UUID, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, _ = page_of(body, vendors_threads.MAX_HISTORY)
    thread = operations.thread(key)
    (view,) = threads.view_threads([thread])
    states = vendors_threads.history(thread, limit=limit, before=str(body.get("before", ""))[:255])
    return [_state(threads.hide_values(state, view)) for state in states]


def document(thread: Thread, *, is_busy: bool = False) -> dict[str, Any]:
    return {
        "thread_id": str(thread.key),
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.used_at.isoformat(),
        "metadata": thread.metadata,
        "status": ThreadStatus.BUSY if is_busy else thread.status,
    }


def _state(state_row: ThreadState) -> dict[str, Any]:
    members_ = {"values": state_row.values, **_present_members(state_row)}
    return {
        "checkpoint": {"checkpoint_id": state_row.checkpoint},
        "metadata": dict(state_row.metadata),
        **members_,
    }


def _present_members(state_row: ThreadState) -> dict[str, Any]:
    members_ = {"values": state_row.values, "messages": state_row.messages and list(state_row.messages)}
    return {member: value for member, value in members_.items() if value is not None}


def _running_calls(thread: Any = OuterRef("pk")) -> Any:  # noqa: B008 - a reference, and no state
    return Call.objects.filter(thread=thread, status__in=ACTIVE_CALLS)


def _uuid(thread_id: object) -> uuid.UUID:
    try:
        return uuid.UUID(thread_id if isinstance(thread_id, str) else "")
    except ValueError:
        raise DomainError("invalid", "“thread_id” is a UUID.") from None
