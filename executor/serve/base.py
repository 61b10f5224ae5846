"""The operations that the servers of protocols are built on, for one caller and one agent of one release."""

import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from msgspec import structs

from catalog.calls import cancellation, invocation
from catalog.calls import threads as vendors_threads
from catalog.calls.call_keys import ClientCallId, client_call_id
from catalog.calls.places import Holder
from catalog.calls.results import notes_on_inputs
from catalog.calls.runtime import USUAL, CallerSide
from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS, Mode
from catalog.notifications import callbacks
from catalog.user_grants import end_users
from catalog.user_grants.end_users import OnBehalfOf
from core import rate_limits
from core.errors import DomainError
from designer.exports import transfers
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Release
from designer.releases import publishing
from executor import calls, streams, threads
from executor.calls import Answer, UnknownToolError, Wish
from executor.released_documents import sealed
from executor.streams import Followed
from people.models import ApiKey, Scope, User
from people.throttling import Kind, is_within_limit
from protocols.base import Ask
from protocols.server import NOT_FOUND, Refusal, Request, Retry, ToolCallRequest, ToolCallResult


def refusal_of(error: DomainError | Http404) -> Refusal:
    if isinstance(error, Http404):
        return NOT_FOUND
    return Refusal(error.status, error.code, error.message, error.fields)


def on_behalf_of(user: str) -> OnBehalfOf | None:
    return OnBehalfOf(user) if user else None


def read_call_id(request: Request, part: str = "") -> ClientCallId | None:
    """Return the id that the client has chosen for its call in a header; None without one."""
    return client_call_id(request.call_name, part) if request.call_name else None


def explained(answer: Answer) -> tuple[str, str]:
    """A code and a sentence for whatever is no success."""
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


class ThrottledError(DomainError):
    def __init__(self, seconds: int) -> None:
        message = f"Too many calls in this minute. Go on in {seconds} seconds."
        super().__init__("throttled", message, status=429)
        self.retry_after = seconds


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A key that may list the tools of the agent; `may_not_run` says why it may not run them."""

    user: User
    key: ApiKey
    may_not_run: DomainError | None = None

    def spend(self, kind: Kind) -> None:
        """Counts one more call with the key, as the API does. Raises ThrottledError."""
        now = time.time()
        if not is_within_limit(kind, self.user.pk, self.key.pk, now):
            raise ThrottledError(rate_limits.seconds_left(now))


@dataclass(frozen=True, kw_only=True)
class Operations:
    """What a served protocol may do: for one caller, with one agent of one release.

    `agent` is the slug in the address, and `named` how the address names the release: by a number, a digest
    or a channel. `sub_agent` is the slug of the agent of the tree that is served, "" for the one that was
    published. `site` is our own address, where users authorize us, and `served_at` the one that runtimes
    reach; both without a slash at their end.
    """

    caller: Caller
    release: Release
    agent: str
    named: str
    protocol: str
    site: str
    served_at: str
    sub_agent: str = ""

    @property
    def holder(self) -> Holder:
        """Who holds the places of calls that are followed."""
        return invocation.holder_for(self.caller.user.pk, self.release.agent_id, self.caller.key.pk)

    def shown(self) -> ReleaseDocument:
        """What a model is shown: tools, transfers among them, and procedures."""
        shown = calls.shown(self.release, self.sub_agent)
        if shown is None:
            raise Http404
        return shown

    def whole(self) -> ReleaseDocument:
        """The release with all agents of its tree."""
        return sealed(self.release).document

    @property
    def node(self) -> int:
        """The primary key of the agent that is served. Raises Http404 where the release has no such."""
        if not self.sub_agent:
            return self.release.agent_id
        below = {each.slug: each.id for each in self.whole().agents}
        if self.sub_agent not in below:
            raise Http404
        return below[self.sub_agent]

    def exported(self, format_name: str) -> bytes:
        """What a model is shown in an export format, without the tools that it cannot carry: the same bytes
        for as long as the release is kept. Raises DomainError where it can carry none."""
        return publishing.export(self.release, format_name, is_partial=True, sub_agent=self.sub_agent)[0]

    def address(self, sub_agent: str = "") -> str:
        """Where this protocol is served for an agent of the same release, by its number: a conversation
        that goes on there stays within the release, whichever way channels move."""
        agent = f"agents/{sub_agent}/" if sub_agent else ""
        return f"{self.served_at}/serve/{self.agent}/{self.release.number}/{agent}{self.protocol}"

    def run(self, wish: Wish) -> Answer:
        """As `executor.calls.run`, of the agent that is served. Raises DomainError where the key may list
        tools and not run them."""
        self._spend_a_call()
        wish = replace(wish, sub_agent=self.sub_agent, site=self.site)
        try:
            answer = calls.run(self.release, wish, actor=self.caller.user, key=self.caller.key)
        except UnknownToolError:
            self.note_unknown(wish.tool)
            raise
        if answer.call and answer.call.removed_at:
            message = "The call with this id was deleted, and is not made again. Take a new id."
            raise DomainError("call_removed", message, status=409)
        return answer

    def run_request(self, request: ToolCallRequest, format_name: str) -> ToolCallResult:
        """The same for a server that knows no more than its protocol. Names are those of the export
        format."""
        wish = Wish(
            tool=request.tool_name,
            arguments=request.arguments,
            format_=format_name,
            is_confirmed=request.is_confirmed,
            call_id=client_call_id(request.call_name) if request.call_name else None,
            on_behalf_of=on_behalf_of(request.user),
        )
        return self.result_of(self.run(wish))

    def result_of(self, answer: Answer) -> ToolCallResult:
        """Return what a server may report of a call."""
        result = answer.result
        code, message = explained(answer)
        checks = (result.resume or {}).get("check_urls") or {}
        transfer = None
        if answer.outcome == transfers.KIND:
            transfer = {"agent": answer.transfer_to, "address": self.address(answer.transfer_to)}
        return ToolCallResult(
            outcome=answer.outcome,
            code=code,
            message=message,
            fields=(result.error or {}).get("fields") or {},
            outputs=result.outputs,
            is_too_long=bool(result.cut),
            asks=[Ask(**structs.asdict(ask), check_url=checks.get(ask.id, "")) for ask in result.asks],
            retry=Retry(**structs.asdict(result.retry)) if result.retry else None,
            output_schema=answer.output_schema,
            transfer=transfer,
            protocol=answer.tool.protocol,
            declares_outputs=bool(answer.tool.signature.outputs),
            duration_ms=(answer.call and answer.call.duration_ms) or 0,
            notes=notes_on_inputs(result),
        )

    def made(
        self, call: uuid.UUID | int, *, format_: str = "", wait: float = 0.0, has_room: bool = False
    ) -> Answer:
        """What became of a call that this key made through this agent, at its end or after so many seconds;
        `has_room` where `streams.placed` is held. Raises Http404 for any other call."""
        found, _, tool = self._own_call(call)
        return calls.answer_of(invocation.follow(found, wait, has_room=has_room), tool, format_)

    def follow(
        self,
        call: uuid.UUID | int,
        *,
        format_: str = "",
        after: str = "",
        place: ExitStack | None = None,
        alive_every: float = streams.ALIVE_EVERY,
    ) -> Followed:
        """Such a call as it goes, as `streams.follow` tells it."""
        found, _, tool = self._own_call(call)
        return streams.follow(found, tool, format_, after, place, alive_every)

    def callback_secret(self, call: uuid.UUID) -> str:
        """What signs the callback of such a call; "" once it was sent."""
        return callbacks.secret_of(self._own_call(call)[0])

    def cancel(self, call: uuid.UUID | int) -> None:
        """Ends such a call, as `executor.calls.cancel` does."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        found, release, _ = self._own_call(call)
        calls.cancel(found, release, actor=self.caller.user, key=self.caller.key)

    def remove(self, call: uuid.UUID | int) -> None:
        """Such a call is found here no more, and ends if it is under way."""
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        found, release, _ = self._own_call(call)
        why = calls.runtime_of(release, self.caller.key).why
        cancellation.remove(found, actor=self.caller.user, why=why)

    def cancel_marked(self, mark: str) -> None:
        """Ends such calls as carry this mark and are under way."""
        marked = self._calls().filter(requested_by=self.caller.user, mark=mark, status__in=ACTIVE_CALLS)
        for call in marked.values_list("pk", flat=True):
            # One that has ended meanwhile is left as it is.
            with suppress(DomainError):
                self.cancel(call)

    def give_up(self, call: int) -> None:
        """Tells the vendor of such a call that no answer comes to what it asked, unless one has come."""
        found, _, _ = self._own_call(call)
        if not found.continued_by.exists():
            cancellation.tell_of_no_answer(found, found.decoded().resume)

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
        """Goes on with a call of the tool `name` that this key made through this agent, in the release that
        it was made through, as `executor.calls.resume` does; one that `is_followed` is made by a thread of
        this process. Answers to what was not asked are left out.
        Raises Http404 for any other call."""
        self._spend_a_call()
        found, release, tool = self._own_call(call)
        if tool.signature.name != name:
            raise Http404
        asked = {ask.id for ask in found.decoded().asks}
        return calls.resume(
            found,
            release,
            tool,
            actor=self.caller.user,
            key=self.caller.key,
            answers={name: answer for name, answer in answers.items() if name in asked},
            format_=format_,
            call_id=call_id,
            site=self.site,
            side=side,
            mark=mark,
            mode=Mode.STREAM if is_followed else Mode.WAIT,
            is_made_here=is_followed,
        )

    def refuse_other_user(self, call: int, user: OnBehalfOf | None) -> None:
        """Raises Http404 where such a call was not begun for this user of the agent."""
        begun, _, _ = self._own_call(call)
        while begun.continues:
            begun = begun.continues
        if begun.on_behalf_of != (end_users.digest_of(self.release.agent_id, user.name) if user else ""):
            raise Http404

    def note_unknown(self, tool: str) -> None:
        """Notes that the key asked to run what is not there, or is not its own."""
        note_refusal(self.caller, agent=self.agent, tool=tool)

    def has_made(self, call_id: ClientCallId | None) -> bool:
        """Whether there is such a call by this id."""
        return call_id is not None and self.made_with(call_id) is not None

    def made_with(self, call_id: ClientCallId) -> Call | None:
        """Return such a call by the id that its client has chosen."""
        caller = self.caller
        return calls.made_with([call_id], self._calls(), actor=caller.user, key=caller.key).first()

    def newest(self, call: uuid.UUID, thread: uuid.UUID | None = None) -> Call:
        """The call that goes on where such a call stopped to ask, or that call itself; made on the `thread`
        where one is named. Raises Http404."""
        found = get_object_or_404(self._calls(), key=call, **({"thread__key": thread} if thread else {}))
        return threads.newest([found])[found.pk]

    def begin_thread(
        self, thread: uuid.UUID | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Thread:
        """A thread for the tool that runs on it first, as `executor.threads.begin` has it."""
        self._spend_a_call()
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
        """Those that this key has begun through this agent."""
        rows = calls.threads_of(self.release.agent_id, self.caller.key)
        return rows.filter(api_key=self.caller.key, sub_agent=self.sub_agent)

    def thread(self, key: uuid.UUID) -> Thread:
        """Raises Http404."""
        return get_object_or_404(self.threads(), key=key)

    def remove_thread(self, key: uuid.UUID) -> None:
        """As `catalog.calls.threads.remove`."""
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
        found = get_object_or_404(self._calls(), **{"pk" if isinstance(call, int) else "key": call})
        return found, *calls.made_through(found)

    def _spend_a_call(self) -> None:
        if self.caller.may_not_run:
            raise self.caller.may_not_run
        self.caller.spend("invoke")


def note_refusal(caller: Caller, *, agent: str, tool: str) -> None:
    # A key that asks for another agent's tools is noted, and hears what it would of one that is not there.
    if Scope.INVOKE in caller.key.scopes:
        calls.note_refusal(caller.key, actor=caller.user, agent=agent, tool=tool)
