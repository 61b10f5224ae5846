"""Threads at vendors: created, read and removed. A run on a thread is a normal call.

A thread is created at its vendor before its row is stored. A thread that a dying process leaves at the vendor
is empty, and the same request finds it again.
"""

import math
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from catalog.credentials import circuit_breaker, sessions
from catalog.models import Call, Thread, ToolVersion
from catalog.models.calls import ACTIVE_CALLS, caller_name
from catalog.models.threads import ThreadStatus
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.limits import DEFAULT_LIMITS
from core.outbound.session import HttpSession
from core.postgresql.base import give_back
from execution.calls import call_keys, checks, results
from execution.calls.checks import MAX_ARGUMENTS_BYTES
from execution.calls.requesting import ThreadBusyError
from execution.calls.runtime import Runtime
from people import audit
from people.models import ApiKey, User
from protocols.base import Protocol, ThreadState

LIMITS = replace(DEFAULT_LIMITS, request=10.0, session=20.0, backoff=())

REMOVED_RETENTION, UNUSED_RETENTION = timedelta(days=7), timedelta(days=180)
BATCH_SIZE = 500
TOO_LONG = "The vendor's reply about this thread is too long."


class ThreadUnavailableError(DomainError):
    """The vendor did not answer a request about a thread. Nothing has changed."""

    def __init__(self, error: UnavailableError) -> None:
        message = f"The request to the vendor about the thread failed. {error.message}"
        super().__init__("thread_unavailable", message, status=503)
        self.retry_after = round(error.retry_after or 5)


def can_have(version: ToolVersion) -> bool:
    return version.tool.endpoint.build_protocol().has_threads(version.decoded())


def create(
    version: ToolVersion | None,
    *,
    actor: User,
    runtime: Runtime | None = None,
    api_key: ApiKey | None = None,
    key: uuid.UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Thread:
    """Create a thread for runs of this version, or return the caller's thread with this `key`.

    Without a version its first run creates it at the vendor (see `begin`). Raises DomainError.
    """
    thread = Thread(key=key or uuid.uuid4(), metadata=dict(metadata or {}))
    thread.requested_by, thread.requested_name, thread.api_key = actor, str(actor), api_key
    if runtime:
        thread.agent, thread.release, thread.api_key = runtime.agent, runtime.release, runtime.key
        thread.sub_agent, thread.requested_name = runtime.sub_agent, caller_name(actor, runtime.key)
    if len(canonical(thread.metadata)) > MAX_ARGUMENTS_BYTES:
        message = f"The metadata are larger than {MAX_ARGUMENTS_BYTES // 1024} kB."
        raise DomainError("too_large", message, fields={"metadata": message})
    if earlier := _find_earlier(thread, version):
        return earlier
    if version:
        checks.refuse_unfit(version, checks.review_states(version), runtime)
        _create_at_vendor(thread, version)
    try:
        with transaction.atomic():
            thread.save(force_insert=True)
            _record_audit("start thread", thread, actor, runtime.why if runtime else "")
    except IntegrityError:
        if earlier := _find_earlier(thread, version):
            return earlier
        raise
    return thread


def begin(thread: Thread, version: ToolVersion) -> Thread:
    """Return the thread for runs of this version. Raises DomainError if it belongs to another tool."""
    if thread.tool_id is None:
        draft = Thread(
            key=thread.key,
            agent=thread.agent,
            requested_by_id=thread.requested_by_id,
            metadata=thread.metadata,
        )
        _create_at_vendor(draft, version)
        facts = {name: getattr(draft, name) for name in ("tool", "version", "remote_id")}
        Thread.objects.filter(pk=thread.pk, tool=None).update(**facts)
        thread.refresh_from_db()
    if thread.tool_id != version.tool_id:
        message = "This thread belongs to another tool. Start one for this tool."
        raise DomainError("other_thread", message, fields={"thread": message}, status=409)
    if thread.removed_at:
        raise DomainError("thread_removed", "This thread was removed. Start another one.", status=409)
    return thread


def _find_earlier(thread: Thread, version: ToolVersion | None) -> Thread | None:
    rows = Thread.objects.filter(key=thread.key, agent=thread.agent)
    if thread.agent is None:
        rows = rows.filter(requested_by=thread.requested_by)
    earlier = rows.first()
    if earlier is None:
        return None
    columns = ("agent", "api_key_id", "requested_by_id", "sub_agent")
    is_same = all(getattr(earlier, column) == getattr(thread, column) for column in columns)
    is_of_tool = version is None or earlier.tool_id in (None, version.tool_id)
    if not is_same or not is_of_tool or earlier.removed_at:
        raise DomainError("key_taken", "Another thread has this id. Use a new one.", status=409)
    return begin(earlier, version) if version else earlier


def _create_at_vendor(thread: Thread, version: ToolVersion) -> None:
    if not can_have(version):
        message = f"“{version.tool}” does not support threads, as its vendor declares."
        raise DomainError("no_threads", message, fields={"thread": message}, status=409)
    # Not Pegboard's own id of the thread: the vendor may be another agent of this Pegboard, which stores the
    # thread as a row of its own. The owner keeps threads of other agents with the same id apart.
    owner = f"agent:{thread.agent}" if thread.agent else f"user:{thread.requested_by_id}"
    remote_key = call_keys.key_for(owner, str(thread.key), "at its vendor")
    with _open_session(version) as (session, protocol):
        thread.remote_id = protocol.create_thread(session, str(remote_key), thread.metadata)
    thread.tool, thread.version = version.tool, version


def state(thread: Thread) -> ThreadState:
    """Return the thread's current state at the vendor. Raises DomainError."""
    version = _find_version(thread)
    if version is None:
        return ThreadState(status=ThreadStatus.IDLE, metadata=thread.metadata)
    with _open_session(version) as (session, protocol):
        current_state = _check_size(protocol.thread_state(session, version.decoded(), thread.remote_id))
    if current_state.status:
        Thread.objects.filter(pk=thread.pk).update(status=current_state.status)
    return current_state


def history(thread: Thread, *, limit: int, before: str = "") -> list[ThreadState]:
    """Return the thread's earlier states, newest first. Raises DomainError."""
    version = _find_version(thread)
    if version is None:
        return []
    with _open_session(version) as (session, protocol):
        states = protocol.thread_history(session, version.decoded(), thread.remote_id, limit, before)
    return [_check_size(state) for state in states]


def remove(thread: Thread, *, actor: User, why: str = "") -> None:
    """Remove the thread, also at the vendor. Raises DomainError if a run is active or the vendor does not
    answer."""
    if thread.calls.filter(status__in=ACTIVE_CALLS).exists():
        raise ThreadBusyError
    if version := _find_version(thread):
        with _open_session(version) as (session, protocol):
            protocol.remove_thread(session, thread.remote_id)
    with transaction.atomic():
        if Thread.objects.filter(pk=thread.pk, removed_at=None).update(removed_at=Now()):
            _record_audit("remove thread", thread, actor, why)


def forget(*, ends: float = math.inf) -> bool:
    """Delete rows of removed threads, and of threads that were not used for a long time.

    Unused threads stay at their vendors. The calls on all these threads stay. ends: the time.monotonic()
    after which no batch starts. Returns whether more may be left.
    """
    now, active = Now(), Call.objects.filter(thread=OuterRef("pk"), status__in=ACTIVE_CALLS)
    old = Q(removed_at__lt=now - REMOVED_RETENTION) | Q(used_at__lt=now - UNUSED_RETENTION)
    old_threads = Thread.objects.filter(old).exclude(Exists(active)).order_by("pk")
    while pks := list(old_threads.values_list("pk", flat=True)[:BATCH_SIZE]):
        with transaction.atomic():
            # No run begins on a locked thread.
            locked = Thread.objects.select_for_update().filter(pk__in=pks).filter(old)
            deletable = [thread.pk for thread in locked]
            Call.objects.filter(thread__in=deletable).update(thread=None)
            Thread.objects.filter(pk__in=deletable).delete()
        if not deletable:
            return False
        if time.monotonic() > ends:
            return True
    return False


def _find_version(thread: Thread) -> ToolVersion | None:
    rows = ToolVersion.objects.select_related("tool__endpoint__vendor", "tool__endpoint__credential")
    return rows.filter(pk=thread.version_id or 0).first()


@contextmanager
def _open_session(version: ToolVersion) -> Iterator[tuple[HttpSession, Protocol]]:
    endpoint = version.tool.endpoint
    checks.refuse_removed(endpoint)
    try:
        circuit_breaker.admit(endpoint, LIMITS.session)
        with sessions.open_session(endpoint, None, LIMITS) as session:
            give_back()
            yield session, endpoint.build_protocol()
    except UnavailableError as error:
        raise ThreadUnavailableError(error) from error
    except ProtocolError as error:
        message = f"The request to the vendor about the thread failed. {error.message}"
        raise DomainError("thread_refused", message, status=409) from error


def _check_size(state: ThreadState) -> ThreadState:
    content = {"values": state.values, "messages": state.messages, "metadata": state.metadata}
    sound = results.sound(content)
    if len(canonical(sound)) > results.MAX_OUTPUTS_BYTES:
        raise DomainError("too_large", TOO_LONG, status=409)
    return replace(state, **sound)


def _record_audit(verb: str, thread: Thread, actor: User, why: str) -> None:
    facts = {"thread": str(thread.key), **({"tool": str(thread.tool)} if thread.tool else {})}
    audit.record(actor, verb, thread, after=facts, why=why, agent=thread.agent)
