"""Threads of ACP as they are served: begun, found, read and given up. Runs on them: executor/serve/acp.py.

A thread belongs to the tool that runs on it first, because the protocol names no agent before.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import Exists, OuterRef

from catalog.calls import threads as vendors_threads
from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS
from catalog.models.threads import ThreadStatus
from core.errors import DomainError
from executor import threads
from executor.serve.base import Operations
from protocols.acp.server import page_of
from protocols.base import ThreadState

IF_EXISTS = ("raise", "do_nothing")


def begun(operations: Operations, asked: Mapping[str, Any]) -> dict[str, Any]:
    named, metadata, if_exists = (asked.get(member) for member in ("thread_id", "metadata", "if_exists"))
    if metadata is not None and not isinstance(metadata, dict):
        raise DomainError("invalid", "“metadata” is no object.")
    if if_exists not in (None, *IF_EXISTS):
        raise DomainError("invalid", f"“if_exists” is one of: {', '.join(IF_EXISTS)}.")
    key = None if named is None else _uuid(named)
    if key and if_exists != "do_nothing" and operations.threads().filter(key=key).exists():
        message = "There is such a thread. Say “if_exists”: “do_nothing” to go on with it."
        raise DomainError("key_taken", message, status=409)
    return document(operations.begin_thread(key, metadata))


def found(operations: Operations, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(asked)
    rows = operations.threads().annotate(is_busy=Exists(_under_way()))
    if (metadata := asked.get("metadata")) is not None:
        if not isinstance(metadata, dict):
            raise DomainError("invalid", "“metadata” is no object.")
        rows = rows.filter(metadata__contains=metadata)
    if asked.get("values"):
        raise DomainError("invalid", "What threads hold is kept by their vendors, so it is not searched.")
    if (status := asked.get("status")) is not None:
        if status not in ThreadStatus.values:
            raise DomainError("invalid", f"“status” is one of: {', '.join(ThreadStatus.values)}.")
        is_busy = status == ThreadStatus.BUSY
        rows = rows.filter(is_busy=is_busy, **({} if is_busy else {"status": status}))
    return [document(each, is_busy=each.is_busy) for each in rows.order_by("-pk")[offset : offset + limit]]


def read(operations: Operations, key: uuid.UUID) -> dict[str, Any]:
    """With what it holds, as its vendor tells it now."""
    thread = operations.thread(key)
    state = vendors_threads.state(thread)
    thread.refresh_from_db(fields=["status"])
    (about,) = threads.shown([thread])
    told = threads.for_the_caller(state, about)
    is_busy = _under_way(thread.pk).exists()
    return {**document(thread, is_busy=is_busy), **_held(told)}


def history(operations: Operations, key: uuid.UUID, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, _ = page_of(asked, vendors_threads.MAX_HISTORY)
    thread = operations.thread(key)
    (about,) = threads.shown([thread])
    states = vendors_threads.history(thread, limit=limit, before=str(asked.get("before", ""))[:255])
    return [_state(threads.for_the_caller(each, about)) for each in states]


def document(thread: Thread, *, is_busy: bool = False) -> dict[str, Any]:
    return {
        "thread_id": str(thread.key),
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.used_at.isoformat(),
        "metadata": thread.metadata,
        "status": ThreadStatus.BUSY if is_busy else thread.status,
    }


def _state(found: ThreadState) -> dict[str, Any]:
    held = {"values": found.values, **_held(found)}
    return {"checkpoint": {"checkpoint_id": found.checkpoint}, "metadata": dict(found.metadata), **held}


def _held(found: ThreadState) -> dict[str, Any]:
    held = {"values": found.values, "messages": found.messages and list(found.messages)}
    return {member: value for member, value in held.items() if value is not None}


def _under_way(thread: Any = OuterRef("pk")) -> Any:  # noqa: B008 - a reference, and no state
    return Call.objects.filter(thread=thread, status__in=ACTIVE_CALLS)


def _uuid(named: object) -> uuid.UUID:
    try:
        return uuid.UUID(named if isinstance(named, str) else "")
    except ValueError:
        raise DomainError("invalid", "“thread_id” is a UUID.") from None
