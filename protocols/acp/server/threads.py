"""The threads of ACP: created, found and read."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from core.errors import DomainError
from protocols.acp import wire
from protocols.acp.server.messages import page_of
from protocols.acp.server.release import AcpRelease, ServedThread
from protocols.base import MAX_HISTORY, ThreadState

IF_EXISTS = ("raise", "do_nothing")


def create_thread(release: AcpRelease, body: Mapping[str, Any]) -> dict[str, Any]:
    requested_id, metadata, if_exists = (
        body.get(member) for member in ("thread_id", "metadata", "if_exists")
    )
    if metadata is not None and not isinstance(metadata, dict):
        raise DomainError("invalid", "“metadata” is no object.")
    if if_exists not in (None, *IF_EXISTS):
        raise DomainError("invalid", f"“if_exists” is one of: {', '.join(IF_EXISTS)}.")
    key = None
    if requested_id is not None:
        try:
            key = UUID(requested_id if isinstance(requested_id, str) else "")
        except ValueError:
            raise DomainError("invalid", "“thread_id” is a UUID.") from None
    if key and if_exists != "do_nothing" and release.has_thread(key):
        message = "A thread with this id exists. Send “if_exists”: “do_nothing” to continue it."
        raise DomainError("key_taken", message, status=409)
    return _thread_document(release.begin_thread(key, metadata))


def search_threads(release: AcpRelease, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(body)
    metadata, status = body.get("metadata"), body.get("status")
    if metadata is not None and not isinstance(metadata, dict):
        raise DomainError("invalid", "“metadata” is no object.")
    if body.get("values"):
        raise DomainError(
            "invalid", "The values of threads are stored by vendors, so they cannot be searched."
        )
    if status is not None and status not in wire.THREAD_STATUSES:
        raise DomainError("invalid", f"“status” is one of: {', '.join(wire.THREAD_STATUSES)}.")
    threads = release.find_threads(metadata=metadata, status=status, offset=offset, limit=limit)
    return [_thread_document(thread) for thread in threads]


def read_thread(release: AcpRelease, key: UUID) -> dict[str, Any]:
    thread, state = release.read_thread(key)
    return {**_thread_document(thread), **_present_members(state)}


def history(release: AcpRelease, key: UUID, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, _ = page_of(query, MAX_HISTORY)
    states = release.history(key, limit=limit, before=str(query.get("before", ""))[:255])
    return [
        {
            "checkpoint": {"checkpoint_id": state.checkpoint},
            "metadata": dict(state.metadata),
            "values": state.values,
            **_present_members(state),
        }
        for state in states
    ]


def _thread_document(thread: ServedThread) -> dict[str, Any]:
    return {
        "thread_id": str(thread.thread_id),
        "created_at": thread.created_at.isoformat(),
        "updated_at": thread.used_at.isoformat(),
        "metadata": thread.metadata,
        "status": thread.status,
    }


def _present_members(state: ThreadState) -> dict[str, Any]:
    members = {"values": state.values, "messages": state.messages and list(state.messages)}
    return {member: value for member, value in members.items() if value is not None}
