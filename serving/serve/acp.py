"""A release for the server of ACP: `protocols.acp.server.release.Release` for one client."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404

from catalog.models import Call
from catalog.models import Thread as ThreadRow
from catalog.models.calls import ACTIVE_CALLS, Mode
from catalog.models.threads import ThreadStatus
from catalog.notifications import callbacks
from catalog.notifications.callbacks import Recipient
from core.errors import DomainError
from designer.exports import mcp as exported
from designer.exports import transfers
from designer.releases import effective_versions, numbering
from execution.calls import cancellation
from execution.calls.call_keys import ClientCallId, client_call_id
from execution.calls.runtime import CallerSide
from execution.threads import threads as vendors_threads
from protocols.acp.server.release import Abilities, RunRequest, ServedAgent, ServedRun, ServedThread
from protocols.acp.server.runs import MAX_MARK_LENGTH
from protocols.base import ThreadState
from serving import streams, threads
from serving.calls import Answer, CallRequest, Continuation, runtime_of
from serving.released_documents import load_sealed_release
from serving.serve import acp_abilities
from serving.serve.base import FollowedCall, ServedRelease, on_behalf_of
from serving.stored_calls import find_calls_with_ids, threads_of

FORMAT = exported.FORMAT.name


class ACPRelease(ServedRelease):
    format_name = FORMAT

    def agents(self) -> Sequence[ServedAgent]:

        def load_agents() -> list[ServedAgent]:
            documents, node = msgspec.json.decode(self.exported())["tools"], self.node
            document_tools = numbering.tools_of_document(self.full_document(), self.release.agent_id)
            tools = {key: tool for key, tool in document_tools.items() if key.node == node}
            versions = effective_versions.versions_of_tools(self.release, node, tools.items())
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
                    agents.append(
                        ServedAgent(agent_id=agent_id, version=version.semver, document=document, key=tool)
                    )
            return agents

        key = ("acp", self.release.pk, self.sub_agent)
        return load_sealed_release(self.release).derived(key, load_agents)

    def abilities(self, agent: ServedAgent) -> Abilities:
        return acp_abilities.abilities_of(agent.key, self.release, self.caller.key)

    def start(self, request: RunRequest) -> ServedRun:
        thread, mark = request.thread, request.mark
        call_id = client_call_id(request.call_name) if request.call_name else _id_of_marked(mark)
        if thread and not self.has_thread(thread):
            if request.creates_thread:
                self.begin_thread(thread)
            elif call_id is None or self._find_call_with(call_id) is None:
                raise Http404
        recipient = Recipient(request.webhook, run_of=request.agent.agent_id) if request.webhook else None
        call_request = CallRequest(
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
        return self._run_of(self.send(call_request))

    def find_run(self, mark: str) -> ServedRun | None:
        call_id = _id_of_marked(mark)
        call = self._find_call_with(call_id) if call_id else None
        try:
            return self.read_run(call.key) if call else None
        except Http404:
            return None

    def read_run(
        self, run: uuid.UUID, thread: uuid.UUID | None = None, *, wait: float = 0.0, has_room: bool = False
    ) -> ServedRun:
        call = self._newest_of(run, thread)
        return self._run_of(self.answer_of(call.pk, wait=wait, has_room=has_room))

    def resume_run(
        self,
        run: uuid.UUID,
        thread: uuid.UUID | None,
        call_name: str,
        answers: Callable[[Sequence[str]], dict[str, Any]],
    ) -> ServedRun:
        call = self._newest_of(run, thread)
        if call.continues and call_name:
            # A client that did not get the reply repeats the answer that created this call.
            question_ids = [ask.id for ask in call.continues.decoded().asks]
            repeated = self._find_call_with(_id_of_step(call.continues, call_name))
            if repeated == call and call.answers == answers(question_ids):
                call = call.continues
        before = self.answer_of(call.pk)
        if not self._agent_id(before):
            raise Http404
        answer = self.resume_call(
            call.pk,
            before.tool.signature.name,
            Continuation(
                answers=answers([ask.id for ask in before.result.asks]),
                call_id=_id_of_step(call, call_name) if call_name else None,
            ),
        )
        return self._run_of(answer)

    def runs(self, thread: uuid.UUID, *, offset: int, limit: int) -> Sequence[ServedRun]:
        rows = threads.runs(
            self._thread_row(thread), key=self.caller.key, offset=offset, limit=limit, format_=FORMAT
        )
        return [self._run_of(answer, first) for first, answer in rows]

    def follow_run(
        self,
        run: uuid.UUID,
        thread: uuid.UUID | None = None,
        *,
        after: str = "",
        room: ExitStack | None = None,
        alive_every: float | None = None,
    ) -> FollowedCall:
        row, _, tool = self.own_call(self._newest_of(run, thread).pk)
        seconds = alive_every or streams.KEEPALIVE_SECONDS
        streamed_call = streams.StreamedCall(row, tool, self.caller.key, FORMAT)
        call_stream = streams.follow(streamed_call, after=after, place=room, alive_every=seconds)
        return FollowedCall(call_stream, self._run_of)

    def cancel_run(self, run: uuid.UUID, thread: uuid.UUID | None = None) -> None:
        self.cancel(self._newest_of(run, thread).pk)

    def remove_run(self, run: uuid.UUID, thread: uuid.UUID | None = None) -> None:
        self._refuse_reader()
        row, release, _ = self.own_call(self._newest_of(run, thread).pk)
        cancellation.remove(row, actor=self.caller.user, why=runtime_of(release, self.caller.key).why)

    def callback_secret(self, run: uuid.UUID) -> str:
        return callbacks.secret_of(self.own_call(run)[0])

    def has_thread(self, thread: uuid.UUID) -> bool:
        return self._own_threads().filter(key=thread).exists()

    def begin_thread(
        self, thread: uuid.UUID | None, metadata: Mapping[str, Any] | None = None
    ) -> ServedThread:
        self.spend_a_call()
        row = threads.begin(
            self.release,
            "",
            actor=self.caller.user,
            key=self.caller.key,
            sub_agent=self.sub_agent,
            thread_id=thread,
            metadata=metadata,
        )
        return _served_thread(row, is_busy=False)

    def find_threads(
        self, *, metadata: Mapping[str, Any] | None, status: str | None, offset: int, limit: int
    ) -> Sequence[ServedThread]:
        rows = self._own_threads().annotate(is_busy=Exists(_running_calls()))
        if metadata is not None:
            rows = rows.filter(metadata__contains=metadata)
        if status is not None:
            is_busy = status == ThreadStatus.BUSY
            rows = rows.filter(is_busy=is_busy, **({} if is_busy else {"status": status}))
        rows = rows.order_by("-pk")[offset : offset + limit]
        return [_served_thread(row, is_busy=row.is_busy) for row in rows]

    def read_thread(self, thread: uuid.UUID) -> tuple[ServedThread, ThreadState]:
        row = self._thread_row(thread)
        state = vendors_threads.state(row)
        row.refresh_from_db(fields=["status"])
        (view,) = threads.view_threads([row])
        visible_state = threads.hide_values(state, view)
        return _served_thread(row, is_busy=_running_calls(row.pk).exists()), visible_state

    def history(self, thread: uuid.UUID, *, limit: int, before: str) -> Sequence[ThreadState]:
        row = self._thread_row(thread)
        (view,) = threads.view_threads([row])
        states = vendors_threads.history(row, limit=limit, before=before)
        return [threads.hide_values(state, view) for state in states]

    def remove_thread(self, thread: uuid.UUID) -> None:
        self._refuse_reader()
        vendors_threads.remove(self._thread_row(thread), actor=self.caller.user)

    def _own_threads(self) -> QuerySet[ThreadRow]:
        """Return the threads that this key has begun through this agent."""
        rows = threads_of(self.release.agent_id, self.caller.key)
        return rows.filter(api_key=self.caller.key, sub_agent=self.sub_agent)

    def _thread_row(self, key: uuid.UUID) -> ThreadRow:
        return get_object_or_404(self._own_threads(), key=key)

    def _find_call_with(self, call_id: ClientCallId) -> Call | None:
        """Return this key's call with the id that its client chose."""
        return find_calls_with_ids(
            [call_id], self.calls(), actor=self.caller.user, key=self.caller.key
        ).first()

    def _newest_of(self, call: uuid.UUID, thread: uuid.UUID | None = None) -> Call:
        """Return the newest continuation of this key's call, or the call itself. It has to be on `thread` if
        that is given. Raises Http404.
        """
        row = get_object_or_404(self.calls(), key=call, **({"thread__key": thread} if thread else {}))
        return threads.find_newest([row])[row.pk]

    def _refuse_reader(self) -> None:
        if self.caller.may_not_run:
            raise self.caller.may_not_run

    def _run_of(self, answer: Answer, first: Call | None = None) -> ServedRun:
        """Return a run. Raises DomainError if nothing was sent, so that there is no run.

        For its client a run that was answered is the same run; `first` is the call that it began with.
        """
        call, result = answer.call, self.result_of(answer)
        if call is None:
            raise DomainError(result.code or "refused", result.message, fields=dict(result.fields))
        first = first or call
        while first.continues:
            first = first.continues
        return ServedRun(
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


def _served_thread(row: ThreadRow, *, is_busy: bool) -> ServedThread:
    return ServedThread(
        thread_id=row.key,
        created_at=row.created_at,
        used_at=row.used_at,
        metadata=row.metadata,
        status=ThreadStatus.BUSY if is_busy else row.status,
    )


def _running_calls(thread: Any = OuterRef("pk")) -> Any:  # noqa: B008 - a reference, and no state
    return Call.objects.filter(thread=thread, status__in=ACTIVE_CALLS)
