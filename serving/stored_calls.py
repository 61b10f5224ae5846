"""Calls and threads that were sent through a release before, and refusals of API keys."""

import uuid
from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone

from catalog.models import Call, Thread
from core.outbound.errors import printable
from designer.exports.document import ReleasedTool
from designer.models import Release
from designer.releases import fresh_signatures
from execution.calls import call_keys
from execution.calls.call_keys import ClientCallId
from execution.calls.masking import VisibleCall
from people import audit
from people.models import RUNTIME_SCOPES, ApiKey, AuditEntry, User
from serving.released_documents import load_sealed_release

# A key that keeps requesting tools that it may not run is recorded once an hour per tool, and for this many
# tools at most.
REFUSAL_INTERVAL = timedelta(hours=1)
MAX_REFUSALS_PER_INTERVAL = 50


def find_calls_with_ids(
    call_ids: Iterable[ClientCallId], rows: QuerySet[Call], *, actor: User, key: ApiKey | None
) -> QuerySet[Call]:
    """Return the calls of these rows that this caller has sent with these ids."""
    keys = [derived for call_id in call_ids for derived in keys_of_caller(call_id, actor=actor, key=key)]
    return rows.filter(key__in=keys, requested_by=actor, api_key=key)


def keys_of_caller(call_id: ClientCallId, *, actor: User, key: ApiKey | None) -> tuple[uuid.UUID, uuid.UUID]:
    """Return the key of this caller's call with this id, and the one that an earlier release gave it."""
    api_key = key.pk if key else None
    return (
        call_keys.key_of_client_call(call_id, user=actor.pk, api_key=api_key),
        call_keys.earlier_key(call_id, user=actor.pk, api_key=api_key),
    )


def find_release_and_tool(call: Call | Thread) -> tuple[Release, ReleasedTool]:
    """Return the release that a runtime's call or thread was sent through, and its tool in the version that
    ran.

    Raises Http404.
    """
    releases = Release.objects.select_related("agent").filter(agent=call.agent).defer("document")
    release = get_object_or_404(releases, number=call.release)
    tool = find_called_tool(release, call)
    if tool is None:
        raise Http404
    return release, tool


def with_releases_and_tools(
    call_rows: Iterable[VisibleCall],
) -> list[tuple[VisibleCall, Release, ReleasedTool]]:
    """Return each call with its release and its tool, except those that their release does not show."""

    rows_of_calls = list(call_rows)
    numbers = {(call.agent, call.release) for call in rows_of_calls}
    rows = Release.objects.select_related("agent").filter(
        agent__in={agent for agent, _ in numbers}, number__in={number for _, number in numbers}
    )
    releases = {(release.agent_id, release.number): release for release in rows.defer("document")}
    shown_calls = []
    for call in rows_of_calls:
        release = releases.get((call.agent or 0, call.release or 0))
        if release and (tool := find_called_tool(release, call)):
            shown_calls.append((call, release, tool))
    return shown_calls


def find_called_tool(release: Release, call: Call | Thread) -> ReleasedTool | None:
    """Return the tool of a call or thread of this release, in the version that ran; None if the release does
    not show it.
    """
    document = load_sealed_release(release).visible_document(call.sub_agent)
    items = (*document.tools, *document.context) if document else ()
    tool = next((row for row in items if row.id == call.tool_id), None)
    return fresh_signatures.tool_as_called(tool, call.version) if tool and call.version else tool


def threads_of(agent: int, key: ApiKey | None) -> QuerySet[Thread]:
    """Return the threads of this agent. A runtime's key finds only its own."""
    rows = Thread.objects.filter(agent=agent, removed_at=None)
    if key and set(key.scopes) <= RUNTIME_SCOPES:
        rows = rows.filter(api_key=key)
    return rows.select_related("version")


def record_refusal(key: ApiKey, *, actor: User, agent: str, tool: str) -> None:
    """Record that the key requested a tool that it does not reach, whether or not that tool exists."""
    request_facts = {"agent": printable(agent, 60), "tool": printable(tool, 100)}
    entries = AuditEntry.objects.filter(
        kind=key._meta.model_name, object_id=str(key.pk), action="refuse call"
    )
    recent_entries = entries.filter(at__gt=timezone.now() - REFUSAL_INTERVAL)
    recorded = list(
        recent_entries.order_by("-id").values_list("after", flat=True)[:MAX_REFUSALS_PER_INTERVAL]
    )
    if request_facts not in recorded and len(recorded) < MAX_REFUSALS_PER_INTERVAL:
        with transaction.atomic():
            reason = "This key does not reach such a tool. Nothing was sent."
            audit.record(actor, "refuse call", key, after=request_facts, why=reason)
