"""Threads that runtimes begin: by the names of a release, for the tools whose vendor keeps them."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.calls import threads
from catalog.models import Call, Thread
from designer.exports import transfers
from designer.exports.document import ReleasedTool
from designer.models import Release
from executor.calls import Answer, UnknownToolError, answer_of, released_version, runtime_of, tool_within
from executor.released_documents import sealed
from people.models import ApiKey, User
from protocols.acp.document import thread_state_schema
from protocols.base import Note, ThreadState

HIDDEN = Note("HIDDEN", "A designer hid outputs of this tool, so what its threads hold is not told.")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A thread for its caller. `tool` is None where it has none yet, or its release shows it no more."""

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
    """A thread for runs of the tool that a model knows by `name`; without one, of the tool that runs on it
    first. Raises UnknownToolError, DomainError."""
    tool = sealed(release).tool(name, sub_agent) if name else None
    if name and (tool is None or tool.signature.kind == transfers.KIND):
        raise UnknownToolError(name)
    return threads.create(
        released_version(tool) if tool else None,
        actor=actor,
        runtime=runtime_of(release, key, sub_agent, name),
        key=thread_id,
        metadata=metadata,
    )


def shown(threads_of_one_agent: Sequence[Thread]) -> list[Shown]:
    """In their order."""
    begun = [thread for thread in threads_of_one_agent if thread.tool_id and thread.version]
    asked = {"agent__in": {thread.agent for thread in begun}, "number__in": {each.release for each in begun}}
    rows = Release.objects.select_related("agent").filter(**asked).defer("document") if begun else ()
    releases = {release.number: release for release in rows}
    found = []
    for thread in threads_of_one_agent:
        release = releases.get(thread.release or 0) if thread.tool_id and thread.version else None
        tool = tool_within(release, thread) if release else None
        schema = thread_state_schema(thread.version.decoded()) if tool and thread.version else None
        found.append(Shown(thread=thread, tool=tool, state_schema=schema))
    return found


def runs(thread: Thread, *, offset: int, limit: int, format_: str) -> list[tuple[Call, Answer]]:
    """The calls on it that go on from no other and were not removed, the newest first, and each as it stands
    now."""
    rows_of = thread.calls.filter(continues=None, removed_at=None).select_related("version").order_by("-pk")
    begun = list(rows_of[offset : offset + limit])
    latest = newest(begun)
    numbers = {call.release or 0 for call in begun}
    rows = Release.objects.select_related("agent").filter(agent=thread.agent, number__in=numbers)
    releases = {release.number: release for release in rows.defer("document")}
    told = []
    for call in begun:
        release, now = releases.get(call.release or 0), latest[call.pk]
        now.thread = thread
        if release and (tool := tool_within(release, now)):
            told.append((call, answer_of(now, tool, format_)))
    return told


def newest(begun: Iterable[Call]) -> dict[int, Call]:
    """By the primary key of each: the newest call that goes on from it with answers, or the call itself."""
    found = {call.pk: call for call in begun}
    first = {pk: pk for pk in found}
    asked: Sequence[int] = list(found)
    while asked:
        rows = Call.objects.filter(continues__in=asked).select_related("version").order_by("pk")
        asked = []
        for row in rows:
            root = first[row.pk] = first[row.continues_id]  # type: ignore[index]
            found[root] = max(found[root], row, key=lambda call: call.pk)
            asked.append(row.pk)
    return found


def for_the_caller(found: ThreadState, about: Shown) -> ThreadState:
    # A thread holds what runs have told, in words of the vendor that no one here can match to outputs.
    if about.tool is None or not about.tool.signature.hidden_outputs:
        return found
    return replace(found, values=None, messages=None, notes=(*found.notes, HIDDEN))
