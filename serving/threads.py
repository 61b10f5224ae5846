"""Threads that runtimes begin, by the names of a release, for tools whose vendor stores them."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.models import Call, Thread
from designer.exports import transfers
from designer.exports.document import ReleasedTool
from designer.models import Release
from execution.calls import masking
from execution.threads import threads
from people.models import ApiKey, User
from protocols.acp.document import thread_state_schema
from protocols.base import ThreadState
from protocols.list_pages import Note
from protocols.server import UnknownToolError
from serving.calls import Answer, answer_of, released_version, runtime_of
from serving.released_documents import load_sealed_release
from serving.stored_calls import find_called_tool

HIDDEN = Note("HIDDEN", "A designer hid outputs of this tool, so what its threads hold is not told.")
SENSITIVE = Note(
    "SENSITIVE", "The tool has sensitive values, so only the key that began the thread reads its contents."
)


@dataclass(frozen=True, kw_only=True)
class ThreadView:
    """A thread for its caller. `tool` is None if it has none yet, or if its release no longer shows it."""

    thread: Thread
    tool: ReleasedTool | None
    state_schema: Mapping[str, Any] | None = None


def begin(
    release: Release,
    name: str,
    *,
    actor: User,
    key: ApiKey | None,
    sub_agent: str = "",
    thread_id: uuid.UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Thread:
    """Begin a thread for runs of the tool with this name; without a name, of the tool that first runs on it.

    Raises UnknownToolError, DomainError.
    """
    tool = load_sealed_release(release).tool(name, sub_agent) if name else None
    if name and (tool is None or tool.signature.kind == transfers.KIND):
        raise UnknownToolError(name)
    return threads.create(
        released_version(tool) if tool else None,
        actor=actor,
        runtime=runtime_of(release, key, name, sub_agent),
        key=thread_id,
        metadata=metadata,
    )


def view_threads(threads_of_one_agent: Sequence[Thread]) -> list[ThreadView]:
    """Return the threads with their tools, in the same order."""
    with_tool = [thread for thread in threads_of_one_agent if thread.tool_id and thread.version]
    condition = {
        "agent__in": {thread.agent for thread in with_tool},
        "number__in": {thread.release for thread in with_tool},
    }
    rows = Release.objects.select_related("agent").filter(**condition).defer("document") if with_tool else ()
    releases = {release.number: release for release in rows}
    views = []
    for thread in threads_of_one_agent:
        release = releases.get(thread.release or 0) if thread.tool_id and thread.version else None
        tool = find_called_tool(release, thread) if release else None
        schema = thread_state_schema(thread.version.decoded()) if tool and thread.version else None
        views.append(ThreadView(thread=thread, tool=tool, state_schema=schema))
    return views


def runs(thread: Thread, *, key: ApiKey, offset: int, limit: int, format_: str) -> list[tuple[Call, Answer]]:
    """Return the thread's runs as the key may read them, the newest first, each with its current answer.
    Removed runs and continuations are left out.
    """
    first_calls = (
        thread.calls.filter(continues=None, removed_at=None).select_related("version").order_by("-pk")
    )
    page_calls = list(first_calls[offset : offset + limit])
    latest = find_newest(page_calls)
    numbers = {call.release or 0 for call in page_calls}
    rows = Release.objects.select_related("agent").filter(agent=thread.agent, number__in=numbers)
    releases = {release.number: release for release in rows.defer("document")}
    runs_with_answers = []
    for call in page_calls:
        release, latest_call = releases.get(call.release or 0), latest[call.pk]
        latest_call.thread = thread
        if release and (tool := find_called_tool(release, latest_call)):
            runs_with_answers.append((call, answer_of(masking.masked_call(latest_call, key), tool, format_)))
    return runs_with_answers


def find_newest(first_calls: Iterable[Call]) -> dict[int, Call]:
    """Return, by primary key of each call, its newest continuation, or the call itself."""
    newest_by_id = {call.pk: call for call in first_calls}
    first_by_id = {pk: pk for pk in newest_by_id}
    open_ids: Sequence[int] = list(newest_by_id)
    while open_ids:
        rows = Call.objects.filter(continues__in=open_ids).select_related("version").order_by("pk")
        open_ids = []
        for row in rows:
            root = first_by_id[row.pk] = first_by_id[row.continues_id]  # type: ignore[index]
            newest_by_id[root] = max(newest_by_id[root], row, key=lambda call: call.pk)
            open_ids.append(row.pk)
    return newest_by_id


def hide_values(state: ThreadState, view: ThreadView) -> ThreadState:
    # The state of a thread may contain hidden outputs, in the vendor's form, which cannot be matched to
    # outputs.
    if view.tool is None or not view.tool.signature.hidden_outputs:
        return state
    return replace(state, values=None, messages=None, notes=(*state.notes, HIDDEN))


def hide_from_people(state: ThreadState, view: ThreadView, key: ApiKey | None) -> ThreadState:
    """Return the state for users, without its contents if the tool has sensitive values.

    They are in the vendor's form, which cannot be matched to inputs and outputs. The key of the thread gets
    them.
    """
    state = hide_values(state, view)
    if not hides_contents(view.thread, key):
        return state
    return replace(state, values=None, messages=None, metadata={}, notes=(*state.notes, SENSITIVE))


def hides_contents(thread: Thread, key: ApiKey | None) -> bool:
    """Return whether this key, or a person, sees neither the contents of the thread nor its metadata."""
    return bool(
        not thread.was_started_by(key) and thread.tool_id and masking.has_sensitive_values(thread.tool_id)
    )
