"""A release for the server of ACP: `protocols.acp.server.release.Release` for one client."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import Exists, OuterRef
from django.http import Http404

from catalog.models import Call
from catalog.models import Thread as ThreadRow
from catalog.models.calls import ACTIVE_CALLS, Mode
from catalog.models.threads import ThreadStatus
from catalog.notifications.callbacks import Recipient
from core.errors import DomainError
from designer.exports import mcp as exported
from designer.exports import transfers
from designer.releases import effective_versions, numbering
from execution.calls.call_keys import ClientCallId, client_call_id
from execution.calls.runtime import CallerSide
from execution.threads import threads as vendors_threads
from protocols.acp.server.release import Abilities, Agent, Run, RunRequest, Thread
from protocols.acp.server.runs import MAX_MARK_LENGTH
from protocols.base import ThreadState
from serving import streams, threads
from serving.calls import Answer, Wish
from serving.released_documents import sealed
from serving.serve import acp_abilities
from serving.serve.base import FollowedCall, Operations, on_behalf_of

FORMAT = exported.FORMAT.name


@dataclass(frozen=True)
class ACPRelease:
    operations: Operations

    @property
    def address(self) -> str:
        return self.operations.address(self.operations.sub_agent)

    @property
    def root_address(self) -> str:
        return self.operations.address()

    def agents(self) -> Sequence[Agent]:
        release, sub_agent = self.operations.release, self.operations.sub_agent
        return sealed(release).derived(("acp", release.pk, sub_agent), self._load_agents)

    def _load_agents(self) -> list[Agent]:
        operations = self.operations
        documents, node = msgspec.json.decode(operations.exported(FORMAT))["tools"], operations.node
        document_tools = numbering.tools_of_document(operations.full_document(), operations.release.agent_id)
        tools = {key: tool for key, tool in document_tools.items() if key.node == node}
        versions = effective_versions.versions_of_tools(operations.release, node, tools.items())
        rows = {
            tool.signature.name: (versions[key], tool)
            for key, tool in tools.items()
            if tool.signature.kind != transfers.KIND
        }
        agents = []
        for document in documents:
            if document["name"] in rows:
                version, tool = rows[document["name"]]
                agent_id = str(version.uuid)
                agents.append(Agent(agent_id=agent_id, version=version.semver, document=document, key=tool))
        return agents

    def abilities(self, agent: Agent) -> Abilities:
        return acp_abilities.abilities_of(agent.key, self.operations)

    def report_unknown_tool(self, name: str) -> None:
        self.operations.note_unknown(name)

    def start(self, request: RunRequest) -> Run:
        operations, thread, mark = self.operations, request.thread, request.mark
        call_id = client_call_id(request.call_name) if request.call_name else _id_of_marked(mark)
        if thread and not self.has_thread(thread):
            if request.creates_thread:
                operations.begin_thread(thread)
            elif not operations.has_made(call_id):
                raise Http404
        recipient = Recipient(request.webhook, run_of=request.agent.agent_id) if request.webhook else None
        wish = Wish(
            tool=request.tool_name,
            arguments=request.arguments,
            format_=FORMAT,
            is_confirmed=request.is_confirmed,
            call_id=call_id,
            on_behalf_of=on_behalf_of(request.user),
            mode=Mode(request.mode),
            callback=recipient,
            thread=thread,
            configuration=request.configuration,
            mark=mark if len(mark) <= MAX_MARK_LENGTH else "",
            side=CallerSide(has_left=request.has_left),
        )
        return self._run_of(operations.run(wish))

    def find_run(self, mark: str) -> Run | None:
        call_id = _id_of_marked(mark)
        call = self.operations.made_with(call_id) if call_id else None
        try:
            return self.read_run(call.key) if call else None
        except Http404:
            return None

    def read_run(
        self, run: uuid.UUID, thread: uuid.UUID | None = None, *, wait: float = 0.0, has_room: bool = False
    ) -> Run:
        call = self.operations.newest(run, thread)
        return self._run_of(self.operations.read_call(call.pk, format_=FORMAT, wait=wait, has_room=has_room))

    def resume(
        self,
        run: uuid.UUID,
        thread: uuid.UUID | None,
        call_name: str,
        answers: Callable[[Sequence[str]], dict[str, Any]],
    ) -> Run:
        call = self.operations.newest(run, thread)
        if call.continues and call_name and self._is_repeated(call, call.continues, call_name, answers):
            call = call.continues
        before = self.operations.read_call(call.pk, format_=FORMAT)
        if not self._agent_id(before):
            raise Http404
        answer = self.operations.resume(
            call.pk,
            before.tool.signature.name,
            answers([ask.id for ask in before.result.asks]),
            format_=FORMAT,
            call_id=_id_of_step(call, call_name) if call_name else None,
        )
        return self._run_of(answer)

    def _is_repeated(
        self, call: Call, before: Call, call_name: str, answers: Callable[[Sequence[str]], dict[str, Any]]
    ) -> bool:
        """Return whether the request repeats the answer that created `call`: its client did not get the
        reply."""
        question_ids = [ask.id for ask in before.decoded().asks]
        repeated = self.operations.made_with(_id_of_step(before, call_name))
        return repeated == call and call.answers == answers(question_ids)

    def runs(self, thread: uuid.UUID, *, offset: int, limit: int) -> Sequence[Run]:
        row = self.operations.thread(thread)
        rows = threads.runs(row, offset=offset, limit=limit, format_=FORMAT)
        return [self._run_of(answer, first) for first, answer in rows]

    def cancel(self, run: uuid.UUID, thread: uuid.UUID | None = None) -> None:
        self.operations.cancel(self.operations.newest(run, thread).pk)

    def remove(self, run: uuid.UUID, thread: uuid.UUID | None = None) -> None:
        self.operations.remove(self.operations.newest(run, thread).pk)

    def callback_secret(self, run: uuid.UUID) -> str:
        return self.operations.callback_secret(run)

    def follow(
        self,
        run: uuid.UUID,
        thread: uuid.UUID | None = None,
        *,
        after: str = "",
        room: ExitStack | None = None,
        alive_every: float | None = None,
    ) -> FollowedCall:
        call, seconds = self.operations.newest(run, thread).pk, alive_every or streams.KEEPALIVE_SECONDS
        stream = self.operations.follow(call, format_=FORMAT, after=after, place=room, alive_every=seconds)
        return FollowedCall(stream, self._run_of)

    def reserve_room(self) -> ExitStack:
        return streams.reserve_room(self.operations.holder)

    def has_thread(self, thread: uuid.UUID) -> bool:
        return self.operations.threads().filter(key=thread).exists()

    def begin_thread(self, thread: uuid.UUID | None, metadata: Mapping[str, Any] | None = None) -> Thread:
        return _thread(self.operations.begin_thread(thread, metadata), is_busy=False)

    def threads(
        self, *, metadata: Mapping[str, Any] | None, status: str | None, offset: int, limit: int
    ) -> Sequence[Thread]:
        rows = self.operations.threads().annotate(is_busy=Exists(_running_calls()))
        if metadata is not None:
            rows = rows.filter(metadata__contains=metadata)
        if status is not None:
            is_busy = status == ThreadStatus.BUSY
            rows = rows.filter(is_busy=is_busy, **({} if is_busy else {"status": status}))
        rows = rows.order_by("-pk")[offset : offset + limit]
        return [_thread(row, is_busy=row.is_busy) for row in rows]

    def thread(self, thread: uuid.UUID) -> tuple[Thread, ThreadState]:
        row = self.operations.thread(thread)
        state = vendors_threads.state(row)
        row.refresh_from_db(fields=["status"])
        (view,) = threads.view_threads([row])
        visible_state = threads.hide_values(state, view)
        return _thread(row, is_busy=_running_calls(row.pk).exists()), visible_state

    def history(self, thread: uuid.UUID, *, limit: int, before: str) -> Sequence[ThreadState]:
        row = self.operations.thread(thread)
        (view,) = threads.view_threads([row])
        states = vendors_threads.history(row, limit=limit, before=before)
        return [threads.hide_values(state, view) for state in states]

    def remove_thread(self, thread: uuid.UUID) -> None:
        self.operations.remove_thread(thread)

    def _run_of(self, answer: Answer, first: Call | None = None) -> Run:
        """Return a run. Raises DomainError if nothing was sent, so that there is no run.

        For its client a run that was answered is the same run; `first` is the call that it began with.
        """
        call, result = answer.call, self.operations.result_of(answer)
        if call is None:
            raise DomainError(result.code or "refused", result.message, fields=dict(result.fields))
        first = first or call
        while first.continues:
            first = first.continues
        return Run(
            **vars(result),
            run_id=first.key,
            thread_id=call.thread.key if call.thread else None,
            agent_id=self._agent_id(answer),
            created_at=first.queued_at,
            updated_at=call.finished_at or call.queued_at,
            mark=first.mark,
            question_kind=acp_abilities.question_kind(call) if result.asks else "",
        )

    def _agent_id(self, answer: Answer) -> str:
        # "" if the served release no longer has such a tool.
        name = answer.tool.signature.name
        agent_ids = (agent.agent_id for agent in self.agents() if agent.document["name"] == name)
        return next(agent_ids, "")


def _id_of_marked(mark: str) -> ClientCallId | None:
    # This id differs from an Idempotency-Key with the same text.
    return ClientCallId(mark, part="run") if mark else None


def _id_of_step(call: Call, call_name: str) -> ClientCallId:
    # Clients send one name with each step of a run, and each step is a call here.
    return client_call_id(call_name, str(call.key))


def _thread(row: ThreadRow, *, is_busy: bool) -> Thread:
    return Thread(
        thread_id=row.key,
        created_at=row.created_at,
        used_at=row.used_at,
        metadata=row.metadata,
        status=ThreadStatus.BUSY if is_busy else row.status,
    )


def _running_calls(thread: Any = OuterRef("pk")) -> Any:  # noqa: B008 - a reference, and no state
    return Call.objects.filter(thread=thread, status__in=ACTIVE_CALLS)
