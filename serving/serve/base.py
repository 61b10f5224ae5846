"""The operations that the servers of protocols use, for one caller and one agent of one release."""

import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from msgspec import structs

from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS, Mode
from catalog.notifications import callbacks
from core import rate_limits
from core.errors import DomainError
from designer.exports import transfers
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.wire import output_of_all
from designer.models import Release
from designer.releases import publishing
from execution.calls import cancellation, invocation
from execution.calls.call_keys import ClientCallId, client_call_id
from execution.calls.places import Holder
from execution.calls.results import notes_on_inputs
from execution.calls.runtime import USUAL, CallerSide
from execution.threads import threads as vendors_threads
from execution.user_grants import end_users
from execution.user_grants.end_users import OnBehalfOf
from people.models import ApiKey, Scope, User
from people.throttling import Kind, is_within_limit
from protocols.base import Ask
from protocols.server import (
    NOT_FOUND,
    CallEvent,
    DeclaredOutputs,
    Refusal,
    Retry,
    ThrottledError,
    ToolCallRequest,
    ToolCallResult,
    UnknownToolError,
)
from serving import calls, streams, threads
from serving.calls import Answer, Wish
from serving.released_documents import derived, sealed, wires
from serving.streams import CallStream


def refusal_of(error: DomainError | Http404) -> Refusal:
    if isinstance(error, Http404):
        return NOT_FOUND
    return Refusal(error.status, error.code, error.message, error.fields)


def on_behalf_of(user: str) -> OnBehalfOf | None:
    return OnBehalfOf(user) if user else None


def explain_failure(answer: Answer) -> tuple[str, str]:
    """Return a code and a message for every result that is not a success."""
    error = answer.result.error or {}
    if answer.outcome == "latent" and answer.call:
        names = f"?format={answer.format_}" if answer.format_ else ""
        message = (
            "Nothing runs for this tool here: answer it yourself, in the form of its output schema, and have "
            f"the answer sent to calls/{answer.call.pk}/output/{names} of the API."
        )
        return "LATENT", message
    if answer.outcome is None:
        message = "The tool is still running. Look for its effect before it is called again."
        return "STILL_RUNNING", message
    if answer.outcome == "ok" and answer.result.cut:
        return "TOO_LONG", "The tool has run, but its answer is too long to be passed on."
    return str(error.get("code", "")), str(error.get("message", "")) or "The tool did not answer."


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A key that may list the agent's tools. `may_not_run`: why it may not run them."""

    user: User
    key: ApiKey
    may_not_run: DomainError | None = None

    def spend(self, kind: Kind) -> None:
        """Count one more call of the key, as the API does. Raises ThrottledError."""
        now = time.time()
        if not is_within_limit(kind, self.user.pk, self.key.pk, now):
            raise ThrottledError(rate_limits.seconds_left(now))


@dataclass(frozen=True, kw_only=True)
class Operations:
    """The operations of a served protocol, for one caller and one agent of one release.

    agent: the slug in the address.
    release_name: how the address names the release: a number, a digest or a channel.
    sub_agent: the slug of the served sub-agent, "" for the published agent.
    site: Pegboard's own address, where users authorize. `served_at`: the address for runtimes. Neither ends
        with a slash.
    """

    caller: Caller
    release: Release
    agent: str
    release_name: str
    protocol: str
    site: str
    served_at: str
    sub_agent: str = ""

    @property
    def holder(self) -> Holder:
        """Return the owner of the rooms that followed calls occupy."""
        return invocation.holder_for(self.caller.user.pk, self.release.agent_id, self.caller.key.pk)

    def visible_document(self) -> ReleaseDocument:
        """Return what a model sees: tools, with transfers among them, and procedures."""
        document = calls.visible_document(self.release, self.sub_agent)
        if document is None:
            raise Http404
        return document

    def full_document(self) -> ReleaseDocument:
        """Return the release with all agents of its tree."""
        return sealed(self.release).document

    @property
    def node(self) -> int:
        """Return the primary key of the served agent. Raises Http404 if the release does not contain it."""
        if not self.sub_agent:
            return self.release.agent_id
        sub_agent_ids = {agent.slug: agent.id for agent in self.full_document().agents}
        if self.sub_agent not in sub_agent_ids:
            raise Http404
        return sub_agent_ids[self.sub_agent]

    def exported(self, format_name: str) -> bytes:
        """Return what a model sees in an export format, without tools that it cannot carry. The bytes never
        change for a release. Raises DomainError if it can carry none.
        """
        return publishing.export(self.release, format_name, is_partial=True, sub_agent=self.sub_agent)[0]

    def address(self, sub_agent: str = "") -> str:
        """Return the address of this protocol for an agent of the release, by its number, so that a
        conversation stays within the release when channels move.
        """
        agent = f"agents/{sub_agent}/" if sub_agent else ""
        return f"{self.served_at}/serve/{self.agent}/{self.release.number}/{agent}{self.protocol}"

    def run(self, wish: Wish) -> Answer:
        """Run a tool as `serving.calls.run` does. Raises DomainError if the key may list tools but not run
        them.
        """
        self.spend_a_call()
        wish = replace(wish, sub_agent=self.sub_agent, site=self.site)
        try:
            answer = calls.run(self.release, wish, actor=self.caller.user, key=self.caller.key)
        except UnknownToolError:
            self.note_unknown(wish.tool)
            raise
        if answer.call and answer.call.removed_at:
            message = "The call with this id was deleted, and is not sent again. Choose a new id."
            raise DomainError("call_removed", message, status=409)
        return answer

    def run_request(self, request: ToolCallRequest, format_name: str) -> ToolCallResult:
        """Run a tool for a server that only knows its protocol. Names are those of the export format."""
        wish = Wish(
            tool=request.tool_name,
            arguments=request.arguments,
            format_=format_name,
            is_confirmed=request.is_confirmed,
            call_id=client_call_id(request.call_name) if request.call_name else None,
            on_behalf_of=on_behalf_of(request.user),
            mark=request.mark,
            mode=Mode.STREAM if request.is_followed else Mode.WAIT,
            is_made_here=request.is_followed,
            is_of_context=request.is_context,
            side=CallerSide(has_left=request.has_left, questions=request.questions),
        )
        return self.result_of(self.run(wish))

    def resume_request(self, call: int, request: ToolCallRequest, format_name: str) -> ToolCallResult:
        """Continue this key's call, which has to be for the same user of the agent, with the arguments as
        answers. Raises Http404 for any other call.
        """
        self.refuse_other_user(call, on_behalf_of(request.user))
        # Clients send one id with all steps of a call, and each step is a call of its own here.
        call_id = client_call_id(request.call_name, f"call-{call}") if request.call_name else None
        answer = self.resume(
            call,
            request.tool_name,
            request.arguments,
            format_=format_name,
            call_id=call_id,
            side=CallerSide(has_left=request.has_left, questions=request.questions),
            mark=request.mark,
            is_followed=request.is_followed,
        )
        return self.result_of(answer)

    def result_of(self, answer: Answer) -> ToolCallResult:
        """Return the result that a server may report."""
        result = answer.result
        code, message = explain_failure(answer)
        error = result.error or {}
        checks = (result.resume or {}).get("check_urls") or {}
        transfer = None
        if answer.outcome == transfers.KIND:
            transfer = {"agent": answer.transfer_to, "address": self.address(answer.transfer_to)}
        return ToolCallResult(
            outcome=answer.outcome,
            code=code,
            message=message,
            fields=error.get("fields") or {},
            unanswerable_kinds=str(error.get("kinds", "")),
            can_resume=result.resume is not None,
            outputs=result.outputs,
            is_too_long=bool(result.cut),
            beginning=result.cut,
            whole_output=result.whole_output,
            asks=[Ask(**structs.asdict(ask), check_url=checks.get(ask.id, "")) for ask in result.asks],
            retry=Retry(**structs.asdict(result.retry)) if result.retry else None,
            output_schema=answer.output_schema,
            transfer=transfer,
            protocol=answer.tool.protocol,
            tool_name=answer.tool.signature.name,
            declared=_declared_outputs(answer),
            duration_ms=(answer.call and answer.call.duration_ms) or 0,
            notes=notes_on_inputs(result),
            all_notes=result.notes,
            call=answer.call.pk if answer.call else None,
        )

    def read_call(
        self, call: uuid.UUID | int, *, format_: str = "", wait: float = 0.0, has_room: bool = False
    ) -> Answer:
        """Return the result of this key's call, at its end or after `wait` seconds; `has_room` if
        `streams.reserve_room` is open. Raises Http404 for any other call.
        """
        row, _, tool = self._own_call(call)
        return calls.answer_of(invocation.follow(row, wait, has_room=has_room), tool, format_)

    def follow(
        self,
        call: uuid.UUID | int,
        *,
        format_: str = "",
        after: str = "",
        place: ExitStack | None = None,
        alive_every: float = streams.KEEPALIVE_SECONDS,
    ) -> CallStream:
        """Stream this key's call, as `streams.follow` does."""
        row, _, tool = self._own_call(call)
        return streams.follow(row, tool, format_, after, place, alive_every)

    def callback_secret(self, call: uuid.UUID) -> str:
        """Return the secret that signs the callback of this key's call; "" once it was sent."""
        return callbacks.secret_of(self._own_call(call)[0])

    def cancel(self, call: uuid.UUID | int) -> None:
        """End this key's call, as `serving.calls.cancel` does."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        row, release, _ = self._own_call(call)
        calls.cancel(row, release, actor=self.caller.user, key=self.caller.key)

    def remove(self, call: uuid.UUID | int) -> None:
        """Delete this key's call, and end it if it is running."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        row, release, _ = self._own_call(call)
        reason = calls.runtime_of(release, self.caller.key).why
        cancellation.remove(row, actor=self.caller.user, why=reason)

    def cancel_marked(self, mark: str) -> None:
        """End this key's running calls with this mark."""
        marked = self._calls().filter(requested_by=self.caller.user, mark=mark, status__in=ACTIVE_CALLS)
        for call in marked.values_list("pk", flat=True):
            # A call that has ended in the meantime stays as it is.
            with suppress(DomainError):
                self.cancel(call)

    def give_up(self, call: int) -> None:
        """Notify the vendor that its question will not be answered, unless the call has continued."""
        row, _, _ = self._own_call(call)
        if not row.continued_by.exists():
            cancellation.abandon_question(row, row.decoded().resume)

    def resume(
        self,
        call: int,
        name: str,
        answers: Mapping[str, Any],
        *,
        format_: str = "",
        call_id: ClientCallId | None = None,
        side: CallerSide = USUAL,
        mark: str = "",
        is_followed: bool = False,
    ) -> Answer:
        """Continue this key's call of the tool `name` through its release, as `serving.calls.resume` does.
        If it `is_followed`, a thread of this process sends it. Answers to unknown questions are ignored.

        Raises Http404 for any other call.
        """
        self.spend_a_call()
        row, release, tool = self._own_call(call)
        if tool.signature.name != name:
            raise Http404
        question_ids = {ask.id for ask in row.decoded().asks}
        return calls.resume(
            row,
            release,
            tool,
            actor=self.caller.user,
            key=self.caller.key,
            answers={name: answer for name, answer in answers.items() if name in question_ids},
            format_=format_,
            call_id=call_id,
            site=self.site,
            side=side,
            mark=mark,
            mode=Mode.STREAM if is_followed else Mode.WAIT,
            is_made_here=is_followed,
        )

    def refuse_other_user(self, call: int, user: OnBehalfOf | None) -> None:
        """Raise Http404 if this key's call was not begun for this user of the agent."""
        first_call, _, _ = self._own_call(call)
        while first_call.continues:
            first_call = first_call.continues
        if first_call.on_behalf_of != (end_users.digest_of(self.release.agent_id, user.name) if user else ""):
            raise Http404

    def note_unknown(self, tool: str) -> None:
        """Record that the key requested a tool that does not exist or that it may not run."""
        note_refusal(self.caller, agent=self.agent, tool=tool)

    def has_made(self, call_id: ClientCallId | None) -> bool:
        """Return whether this key has sent a call with this id."""
        return call_id is not None and self.made_with(call_id) is not None

    def made_with(self, call_id: ClientCallId) -> Call | None:
        """Return this key's call with the id that its client chose."""
        caller = self.caller
        return calls.made_with([call_id], self._calls(), actor=caller.user, key=caller.key).first()

    def newest(self, call: uuid.UUID, thread: uuid.UUID | None = None) -> Call:
        """Return the newest continuation of this key's call, or the call itself. It has to be on `thread` if
        that is given. Raises Http404.
        """
        row = get_object_or_404(self._calls(), key=call, **({"thread__key": thread} if thread else {}))
        return threads.find_newest([row])[row.pk]

    def begin_thread(
        self, thread: uuid.UUID | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Thread:
        """Begin a thread for the tool that first runs on it, as `serving.threads.begin` does."""
        self.spend_a_call()
        return threads.begin(
            self.release,
            "",
            actor=self.caller.user,
            key=self.caller.key,
            sub_agent=self.sub_agent,
            thread_id=thread,
            metadata=metadata,
        )

    def threads(self) -> QuerySet[Thread]:
        """Return the threads that this key has begun through this agent."""
        rows = calls.threads_of(self.release.agent_id, self.caller.key)
        return rows.filter(api_key=self.caller.key, sub_agent=self.sub_agent)

    def thread(self, key: uuid.UUID) -> Thread:
        """Return one of these threads. Raises Http404."""
        return get_object_or_404(self.threads(), key=key)

    def remove_thread(self, key: uuid.UUID) -> None:
        """Remove a thread, as `execution.threads.threads.remove` does."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        vendors_threads.remove(self.thread(key), actor=self.caller.user)

    def _calls(self) -> QuerySet[Call]:
        return Call.objects.select_related("version__tool__endpoint__vendor", "thread").filter(
            api_key=self.caller.key,
            agent=self.release.agent_id,
            sub_agent=self.sub_agent,
            removed_at=None,
        )

    def _own_call(self, call: uuid.UUID | int) -> tuple[Call, Release, ReleasedTool]:
        row = get_object_or_404(self._calls(), **{"pk" if isinstance(call, int) else "key": call})
        return row, *calls.made_through(row)

    def spend_a_call(self) -> None:
        """Raises DomainError if the key may not run tools, and ThrottledError."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        self.caller.spend("invoke")


class FollowedCall:
    """The events of a call for a server. The server closes it, which frees the follower's room."""

    def __init__(self, call_stream: CallStream, result_of: Callable[[Answer], ToolCallResult]) -> None:
        self._call_stream, self._result_of = call_stream, result_of

    def __iter__(self) -> Generator[CallEvent]:
        for event in self._call_stream:
            has_ended = event.answer is not None and event.condition != "started"
            yield CallEvent(
                condition=event.condition,
                id=event.id,
                partial=event.partial,
                result=self._result_of(event.answer) if event.answer and has_ended else None,
            )

    def close(self) -> None:
        self._call_stream.close()


def _declared_outputs(answer: Answer) -> DeclaredOutputs:
    tool, format_ = answer.tool.signature, answer.format_

    def make() -> DeclaredOutputs:
        names, whole = wires(tool, format_)[0], output_of_all(tool)
        return DeclaredOutputs(
            names=[output.alias for output in tool.outputs],
            listed_names=names.outputs.keys(),
            simple_names={output.alias for output in tool.outputs if output.parameter.type != "json"},
            whole=whole.alias if whole else "",
            wrapper=names.whole_output,
            describes_object=tool.outputs_rest is not None,
        )

    return derived(tool, ("declared outputs", format_), make)


def note_refusal(caller: Caller, *, agent: str, tool: str) -> None:
    # A key that requests another agent's tools is recorded, and gets the same answer as for an agent that
    # does not exist.
    if Scope.INVOKE in caller.key.scopes:
        calls.note_refusal(caller.key, actor=caller.user, agent=agent, tool=tool)
