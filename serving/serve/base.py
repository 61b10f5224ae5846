"""The operations that the servers of protocols use, for one caller and one agent of one release."""

import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import ClassVar

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from msgspec import structs

from catalog.models import Call
from catalog.models.calls import Mode
from core import rate_limits
from core.errors import DomainError
from designer.exports import transfers
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.wire import output_of_all
from designer.models import Release
from designer.releases import publishing
from execution.calls import invocation, places
from execution.calls.call_keys import client_call_id
from execution.calls.masking import masked_call
from execution.calls.places import Holder
from execution.calls.results import notes_on_inputs
from execution.calls.runtime import CallerSide
from execution.user_grants.end_users import OnBehalfOf
from people.models import ApiKey, KeyScope, User
from people.throttling import Kind, is_within_limit
from protocols.call_outcome import Ask
from protocols.server import (
    NOT_FOUND,
    DeclaredOutputs,
    FollowedCallEvent,
    Refusal,
    RetryAdvice,
    ThrottledError,
    ToolCallRequest,
    ToolCallResult,
    UnknownToolError,
)
from serving import calls, stored_calls, streams
from serving.calls import Answer, CallRequest, Continuation
from serving.released_documents import derive_from_tool, load_sealed_release, wires
from serving.streams import CallStream


def refusal_of(error: DomainError | Http404) -> Refusal:
    if isinstance(error, Http404):
        return NOT_FOUND
    # A wording is a text that msgspec does not encode.
    fields = {name: str(sentence) for name, sentence in error.fields.items()}
    return Refusal(error.status, error.code, str(error.message), fields)


def on_behalf_of(user: str) -> OnBehalfOf | None:
    return OnBehalfOf(user) if user else None


def side_of(request: ToolCallRequest) -> CallerSide:
    return CallerSide(
        has_left=request.has_left, questions=request.questions, wants_progress=request.wants_progress
    )


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
class ServedRelease:
    """One agent of one release for one caller. Each protocol has a subclass for its server.

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
    # The export format whose names and documents the protocol uses.
    format_name: ClassVar[str] = ""

    @property
    def list_id(self) -> str:
        return f"{self.release.digest} {self.sub_agent}"

    @property
    def holder(self) -> Holder:
        """Return the owner of the rooms that followed calls occupy."""
        return places.holder_for(self.caller.user.pk, self.release.agent_id, self.caller.key.pk)

    def visible_document(self) -> ReleaseDocument:
        """Return what a model sees: tools, with transfers among them, and procedures."""
        document = load_sealed_release(self.release).visible_document(self.sub_agent)
        if document is None:
            raise Http404
        return document

    def full_document(self) -> ReleaseDocument:
        """Return the release with all agents of its tree."""
        return load_sealed_release(self.release).document

    @property
    def node(self) -> int:
        """Return the primary key of the served agent. Raises Http404 if the release does not contain it."""
        if not self.sub_agent:
            return self.release.agent_id
        sub_agent_ids = {agent.slug: agent.id for agent in self.full_document().agents}
        if self.sub_agent not in sub_agent_ids:
            raise Http404
        return sub_agent_ids[self.sub_agent]

    def exported(self) -> bytes:
        """Return what a model sees in the export format, without tools that it cannot carry. The bytes never
        change for a release. Raises DomainError if it can carry none.
        """
        return publishing.export(self.release, self.format_name, is_partial=True, sub_agent=self.sub_agent)[0]

    def address(self, sub_agent: str = "") -> str:
        """Return the address of this protocol for an agent of the release, by its number, so that a
        conversation stays within the release when channels move.
        """
        agent = f"agents/{sub_agent}/" if sub_agent else ""
        return f"{self.served_at}/serve/{self.agent}/{self.release.number}/{agent}{self.protocol}"

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        """Run a tool. Raises DomainError if no call was sent."""
        call_request = CallRequest(
            tool=request.tool_name,
            arguments=request.arguments,
            format_=self.format_name,
            is_confirmed=request.is_confirmed,
            call_id=client_call_id(request.call_name) if request.call_name else None,
            on_behalf_of=on_behalf_of(request.user),
            mark=request.mark,
            mode=Mode.STREAM if request.is_followed else Mode.WAIT,
            is_made_here=request.is_followed,
            is_of_context=request.is_context,
            side=side_of(request),
        )
        return self.result_of(self.send(call_request))

    def send(self, call_request: CallRequest) -> Answer:
        """Run a tool as `serving.calls.run` does. Raises DomainError if the key may list tools but not run
        them.
        """
        self.spend_a_call()
        call_request = replace(call_request, sub_agent=self.sub_agent, site=self.site)
        try:
            answer = calls.run(self.release, call_request, actor=self.caller.user, key=self.caller.key)
        except UnknownToolError:
            self.report_unknown_tool(call_request.tool)
            raise
        if answer.call and answer.call.removed_at:
            message = "The call with this id was deleted, and is not sent again. Choose a new id."
            raise DomainError("call_removed", message, status=409)
        return answer

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
            retry=RetryAdvice(**structs.asdict(result.retry)) if result.retry else None,
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

    def answer_of(self, call: int, *, wait: float = 0.0, has_room: bool = False) -> Answer:
        """Return the result of this key's call, at its end or after `wait` seconds; `has_room` if
        `reserve_room` is open. Raises Http404 for any other call.
        """
        row, _, tool = self.own_call(call)
        followed_call = invocation.follow(row, wait, has_room=has_room)
        return calls.answer_of(masked_call(followed_call, self.caller.key), tool, self.format_name)

    def reserve_room(self) -> ExitStack:
        return streams.reserve_room(self.holder)

    def cancel(self, call: int) -> None:
        """End this key's call, as `serving.calls.cancel` does."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        row, release, _ = self.own_call(call)
        calls.cancel(row, release, actor=self.caller.user, key=self.caller.key)

    def resume_call(
        self,
        call: int,
        name: str,
        continuation: Continuation,
        *,
        is_followed: bool = False,
    ) -> Answer:
        """Continue this key's call of the tool `name` through its release, as `serving.calls.resume` does.
        If it `is_followed`, a thread of this process sends it. Answers to unknown questions are ignored.

        Raises Http404 for any other call.
        """
        self.spend_a_call()
        row, release, tool = self.own_call(call)
        if tool.signature.name != name:
            raise Http404
        question_ids = {ask.id for ask in row.decoded().asks}
        continuation = replace(
            continuation,
            answers={id_: answer for id_, answer in continuation.answers.items() if id_ in question_ids},
            format_=self.format_name,
            site=self.site,
            mode=Mode.STREAM if is_followed else Mode.WAIT,
            is_made_here=is_followed,
        )
        return calls.resume(row, release, tool, continuation, actor=self.caller.user, key=self.caller.key)

    def report_unknown_tool(self, name: str) -> None:
        """Record that the key requested a tool that does not exist or that it may not run."""
        note_refusal(self.caller, agent=self.agent, tool=name)

    def calls(self) -> QuerySet[Call]:
        return Call.objects.select_related("version__tool__endpoint__vendor", "thread").filter(
            api_key=self.caller.key,
            agent=self.release.agent_id,
            sub_agent=self.sub_agent,
            removed_at=None,
        )

    def own_call(self, call: uuid.UUID | int) -> tuple[Call, Release, ReleasedTool]:
        row = get_object_or_404(self.calls(), **{"pk" if isinstance(call, int) else "key": call})
        return row, *stored_calls.find_release_and_tool(row)

    def spend_a_call(self) -> None:
        """Count a call of the key. Raises DomainError if the key may not run tools, and ThrottledError."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        self.caller.spend("invoke")


class FollowedCall:
    """The events of a call for a server. The server closes it, which frees the follower's room."""

    def __init__(self, call_stream: CallStream, result_of: Callable[[Answer], ToolCallResult]) -> None:
        self._call_stream, self._result_of = call_stream, result_of

    def __iter__(self) -> Generator[FollowedCallEvent]:
        for event in self._call_stream:
            has_ended = event.answer is not None and event.condition != "started"
            yield FollowedCallEvent(
                condition=event.condition,
                id=event.id,
                partial=event.partial,
                result=self._result_of(event.answer) if event.answer and has_ended else None,
            )

    def close(self) -> None:
        self._call_stream.close()


def _declared_outputs(answer: Answer) -> DeclaredOutputs:
    tool, format_ = answer.tool.signature, answer.format_

    def find_outputs() -> DeclaredOutputs:
        names, whole_output = wires(tool, format_)[0], output_of_all(tool)
        return DeclaredOutputs(
            names=[output.alias for output in tool.outputs],
            listed_names=names.outputs.keys(),
            simple_names={output.alias for output in tool.outputs if output.parameter.type != "json"},
            whole=whole_output.alias if whole_output else "",
            wrapper=names.whole_output,
            describes_object=tool.outputs_rest is not None,
        )

    return derive_from_tool(tool, ("declared outputs", format_), find_outputs)


def note_refusal(caller: Caller, *, agent: str, tool: str) -> None:
    # A key that requests another agent's tools is recorded, and gets the same answer as for an agent that
    # does not exist.
    if KeyScope.INVOKE in caller.key.scopes:
        stored_calls.record_refusal(caller.key, actor=caller.user, agent=agent, tool=tool)
