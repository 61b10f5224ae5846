"""Run tools of a release for runtimes: by the names of the release, in exactly its versions.

`run` and `resume` serve every protocol; the protocol's server only formats an `Answer`.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.db import transaction
from msgspec import structs

from catalog.models import ActivityVersion, Call, Thread, ToolVersion
from catalog.models.calls import Mode, Result
from catalog.notifications.callbacks import Recipient
from catalog.rules import retries
from catalog.rules.retries import RetryTerms
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from designer.environments import bound_tools, environments
from designer.environments.bound_tools import Subject
from designer.exports import outputs, transfers, wire
from designer.exports.document import ReleasedTool
from designer.models import CallEnvironment, Release
from designer.releases import fresh_signatures
from execution.activities import kinds
from execution.calls import cancellation, continuing, invocation, latent, requesting
from execution.calls.call_keys import ClientCallId
from execution.calls.checks import ArgumentsError, ConfirmationError
from execution.calls.masking import VisibleCall, masked_call
from execution.calls.results import note_document
from execution.calls.runtime import USUAL, CallerSide, Runtime
from execution.threads import configurations, threads
from execution.user_grants import end_users
from execution.user_grants.end_users import OnBehalfOf
from people import audit
from people.models import ApiKey, User
from protocols.call_outcome import Outcome
from protocols.calls.arguments import UNKNOWN_INPUT
from protocols.server import UnknownToolError
from serving import names, stored_calls
from serving.outputs import parse_output
from serving.released_documents import load_sealed_release, wires


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a tool call request. Names in `result` are those of the format.

    call: None if nothing was sent.
    outcome: an outcome of a call, or `transfer`; None while the call is running.
    result: contains none of the vendor's headers or addresses.
    transfer_to: the slug of the sub-agent that takes over.
    output_schema: the schema of the output that a latent call waits for, by the names of `format_`.
    """

    tool: ReleasedTool
    call: Call | None = None
    outcome: str | None = None
    result: Result = field(default_factory=Result)
    transfer_to: str = ""
    output_schema: Mapping[str, Any] | None = None
    format_: str = ""


@dataclass(frozen=True, kw_only=True)
class CallRequest:
    """A request to run one tool of a release.

    tool: the name that the model sees.
    sub_agent: the slug of the sub-agent that has the tool, "" for the agent itself.
    arguments: by the names of the export format `format_`, or of any format if that is "".
    on_behalf_of: the agent's user for whom the tool runs.
    site: Pegboard's own address as the caller knows it.
    thread: the key of a thread of the caller, which the call continues.
    ordinal: the version that the caller saw, for a tool that follows its vendor; None for that of the
        release.
    configuration: for this call only, instead of the release's: a name
        (`configurations.find_configuration`) or values.
    reasoning, mark: stored with the call.
    environment: one of the agent's; "" for that of the key, or else the default one.
    activity: the `_activity` that the caller saw, None if not stated. The call is refused if another one runs
        now.
    output: the output of a model that answers itself. `is_a_models`: the model always sends one, and it is
        ignored if something runs.
    is_of_context: the name is that of a prompt or a resource and not of a tool.
    is_made_here: a thread of this process sends the call (streamed calls); otherwise a worker does.
    side: the capabilities that the waiting client has declared.
    """

    tool: str
    sub_agent: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    format_: str = ""
    deadline_seconds: int | None = None
    is_confirmed: bool = False
    call_id: ClientCallId | None = None
    on_behalf_of: OnBehalfOf | None = None
    site: str = ""
    mode: Mode = Mode.WAIT
    callback: Recipient | None = None
    thread: uuid.UUID | None = None
    ordinal: int | None = None
    configuration: str | Mapping[str, Any] | None = None
    reasoning: str = ""
    mark: str = ""
    environment: str = ""
    activity: str | None = None
    output: Any = None
    is_a_models: bool = False
    is_made_here: bool = False
    is_of_context: bool = False
    side: CallerSide = USUAL


@dataclass(frozen=True)
class _Runner:
    """The runner of a call: an activity, the model itself, or the vendor."""

    activity: ActivityVersion | None = None
    is_latent: bool = False

    @property
    def acts(self) -> bool:
        if self.is_latent:
            return False
        return self.activity is None or kinds.get(self.activity.kind).acts


@dataclass(frozen=True)
class _RequestedCall:
    """A request of a caller to run a tool of a release."""

    release: Release
    request: CallRequest
    actor: User
    key: ApiKey | None

    def find_earlier_answer(self, tool: ReleasedTool) -> Answer | None:
        """Return the outcome of the call that was sent with this id before, even if its thread is gone or its
        version is no longer shown.
        """
        if self.request.call_id is None or (self.request.thread is None and self.request.ordinal is None):
            return None
        rows = Call.objects.select_related("version__tool__endpoint__vendor", "thread")
        earlier_calls = stored_calls.find_calls_with_ids(
            [self.request.call_id], rows, actor=self.actor, key=self.key
        ).filter(tool=tool.id, continues=None)
        call = earlier_calls.filter(agent=self.release.agent_id, sub_agent=self.request.sub_agent).first()
        if call is None:
            return None
        user = (
            end_users.digest_of(self.release.agent_id, self.request.on_behalf_of.name)
            if self.request.on_behalf_of
            else ""
        )
        called_tool = fresh_signatures.tool_as_called(tool, call.version)
        vendor_arguments = self.map_arguments(called_tool, call.version)
        request_facts = (
            self.request.thread,
            self.request.ordinal or called_tool.version.ordinal,
            user,
            canonical(vendor_arguments),
        )
        thread_key = call.thread.key if call.thread else None
        if request_facts != (thread_key, call.version.ordinal, call.on_behalf_of, canonical(call.arguments)):
            return None
        seconds = call.deadline_seconds if call.mode == Mode.WAIT else 0
        return answer_of(
            masked_call(invocation.follow(call, seconds), self.key), called_tool, self.request.format_
        )

    @transaction.atomic
    def hand_over(self, transfer: ReleasedTool) -> str:
        """Record the transfer and return the slug of the sub-agent. Sends nothing. Raises ArgumentsError."""
        format_wires = wires(transfer.signature, self.request.format_)
        if extra_arguments := wire.arguments_for_the_vendor(
            transfer.signature, format_wires, self.request.arguments
        ):
            fields = dict.fromkeys(extra_arguments, wire.UNKNOWN)
            error = {"code": "ARGUMENTS", "message": "A transfer takes no inputs.", "fields": fields}
            raise ArgumentsError(Outcome("invalid_arguments", error=error))
        facts = {
            "from": self.request.sub_agent or self.release.agent.slug,
            "to": transfer.tool_id,
            "as": transfer.signature.name,
        }
        reason = runtime_of(self.release, self.key).why
        audit.record(
            self.actor, "hand over", self.release, after=facts, why=reason, agent=self.release.agent_id
        )
        return transfer.tool_id

    def send(self, tool: ReleasedTool) -> Call:
        """Return a new call, or the one that was sent with this id before. Raises as `run`."""
        thread = self.find_thread()
        version = released_version(tool)
        place, runner = self.find_runner(tool)
        vendor_arguments = self.map_arguments(tool, version)
        self.check_options(tool, version, runner)
        send = self.choose_sender(tool, runner)
        try:
            return send(
                version,
                actor=self.actor,
                arguments=vendor_arguments,
                # A client that reads the stream of its own request also waits; progress extends its deadline.
                deadline_seconds=deadline_of(
                    Mode.WAIT if self.request.is_made_here else self.request.mode,
                    self.request.deadline_seconds,
                ),
                is_confirmed=self.request.is_confirmed,
                call_id=self.request.call_id,
                runtime=replace(
                    runtime_of(self.release, self.key, tool.signature.name, self.request.sub_agent),
                    on_behalf_of=self.request.on_behalf_of,
                    site=self.request.site,
                    side=self.request.side,
                ),
                terms=RetryTerms(policy=tool.retry or retries.DEFAULT, effects=tool.signature.annotations),
                thread=threads.begin(thread, version) if thread else None,
                reasoning=self.request.reasoning,
                mark=self.request.mark,
                activity=runner.activity,
                environment=place.name if place else "",
                # The model does not see a configuration, so it is validated with the vendor's whole schema.
                has_valid_arguments=self.request.configuration is None,
            )
        except ArgumentsError as error:
            caller_error = names.map_error_to_caller(
                tool.signature, error.outcome.error, self.request.format_, self.request.arguments
            )
            raise ArgumentsError(replace(error.outcome, error=caller_error)) from error

    def find_thread(self) -> Thread | None:
        """Return the thread that the call continues. Raises DomainError if the caller may not use it."""
        if not self.request.thread:
            return None
        rows = stored_calls.threads_of(self.release.agent_id, self.key)
        if thread := rows.filter(key=self.request.thread).first():
            return thread
        raise invalid(thread="There is no such thread of this agent that you may use.")

    def map_arguments(self, tool: ReleasedTool, version: ToolVersion) -> dict[str, Any]:
        """Return the arguments by the vendor's names, with the configuration. Raises ArgumentsError."""
        vendor_arguments = names.map_to_vendor(tool.signature, self.request.arguments, self.request.format_)
        configuration = self.request.configuration
        if configuration is None:
            return vendor_arguments
        # Checked with the other arguments, by the pinned version's schema.
        parameter = configurations.parameter_of(version)
        if parameter is None:
            raise invalid(configuration=f"“{version.tool}” has nothing to configure.")
        if isinstance(configuration, str):
            values = configurations.find_configuration(version.tool, configuration).values
        else:
            values = dict(configuration)
        return vendor_arguments | {parameter.name: values}

    def check_options(self, tool: ReleasedTool, version: ToolVersion, runner: _Runner) -> None:
        """Raise ConfirmationError for a tool that only its designer declares destructive, and DomainError for
        a callback that no one would send.
        """
        is_destructive = (
            tool.signature.annotations.destructive and not version.decoded().annotations.destructive
        )
        if is_destructive and runner.acts and not self.request.is_confirmed:
            raise ConfirmationError(f"Its designer says that “{tool.signature.name}” may destroy something.")
        if self.request.mode == Mode.WAIT and self.request.callback:
            message = "A call that is waited for calls no address back. Say “mode”: “async”."
            raise DomainError("invalid", message, fields={"callback": message})

    def choose_sender(self, tool: ReleasedTool, runner: _Runner) -> Callable[..., Call]:
        """Return the function that stores the call and sends it, at once or later."""
        if runner.is_latent:
            output_name, output = "_output" if self.request.is_a_models else "output", None
            if self.request.output is not None:
                output = latent.output_outcome(
                    parse_output(
                        tool.signature, self.request.output, self.request.format_, member_name=output_name
                    )
                )
            return partial(
                latent.request, output=output, mode=self.request.mode, callback=self.request.callback
            )
        if self.request.is_made_here:
            return invocation.call_in_thread
        if self.request.mode != Mode.WAIT:
            return partial(requesting.request_call, mode=self.request.mode, callback=self.request.callback)
        return invocation.call_now

    def find_runner(self, tool: ReleasedTool) -> tuple[CallEnvironment | None, _Runner]:
        place = environments.choose_environment(self.release, self.key, self.request.environment)
        subject = Subject.of_released(tool)
        resolution = bound_tools.resolve(place, subject, agent=self.release.agent_id)
        name = tool.signature.name
        if self.request.activity is not None and self.request.activity != (
            shown_activity := resolution.activity_shown_to_model(name)
        ):
            runner = (
                f"by “{printable(shown_activity, 100)}”"
                if shown_activity
                else "by none, so the model answers itself"
            )
            message = f"“{name}” is carried out {runner}, and not as the call has it. Read the tools again."
            raise DomainError("activity_mismatch", message, fields={"_activity": message}, status=409)
        if self.request.output is not None and resolution.runs != "latent" and not self.request.is_a_models:
            message = f"Something runs for “{name}” here, so it takes no output of a model. Nothing was run."
            raise DomainError("not_latent", message, fields={"output": message}, status=409)
        if resolution.unrecorded_name:
            bound_tools.record_named(self.release.agent_id, {subject: resolution})
        return place, _Runner(bound_tools.version_of(resolution), is_latent=resolution.runs == "latent")


def run(release: Release, call_request: CallRequest, *, actor: User, key: ApiKey | None) -> Answer:
    """Run the tool or transfer that the model knows by this name, and wait for the result.

    In another mode a worker runs the call, the answer contains its state, and the callback is notified at the
    end. Arguments that do not fit are a normal answer. A call with an id that was used before is not sent
    again.
    Raises UnknownToolError, ConfirmationError, TooManyCallsError, DomainError.
    """
    sealed_release = load_sealed_release(release)
    find = sealed_release.context_item if call_request.is_of_context else sealed_release.tool
    tool = find(call_request.tool, call_request.sub_agent)
    if tool is None:
        raise UnknownToolError(call_request.tool)
    requested = _RequestedCall(release, call_request, actor, key)
    if earlier_answer := requested.find_earlier_answer(tool):
        return earlier_answer
    if call_request.ordinal is not None:
        tool = fresh_signatures.tool_in_version(tool, call_request.ordinal)
    try:
        if tool.signature.kind == transfers.KIND:
            target = requested.hand_over(tool)
            return Answer(tool=tool, outcome=transfers.KIND, transfer_to=target, format_=call_request.format_)
        call = requested.send(tool)
    except ArgumentsError as error:
        return _refuse_arguments(tool, error, call_request.format_)
    return answer_of(masked_call(call, key), tool, call_request.format_)


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """A request to continue a call that stopped to ask.

    answers: by question. The other members are as in a `CallRequest`.
    """

    answers: Mapping[str, Any]
    format_: str = ""
    call_id: ClientCallId | None = None
    site: str = ""
    side: CallerSide = USUAL
    mark: str = ""
    mode: Mode = Mode.WAIT
    is_made_here: bool = False


def resume(
    call: Call,
    release: Release,
    tool: ReleasedTool,
    continuation: Continuation,
    *,
    actor: User,
    key: ApiKey | None,
) -> Answer:
    """Continue `call`, which stopped to ask, through the release that it was sent through.

    Returns a new call, or the one that was sent with this `call_id` before. `release` and `tool` are those
    of `stored_calls.find_release_and_tool`. Raises ConfirmationError, TooManyCallsError, DomainError.
    """
    released_version(tool)
    continue_call: Callable[..., Call] = invocation.continue_now
    if continuation.is_made_here:
        continue_call = invocation.continue_in_thread
    elif continuation.mode != Mode.WAIT:
        continue_call = partial(continuing.continue_call, mode=continuation.mode)
    try:
        following = continue_call(
            call,
            actor=actor,
            answers=continuation.answers,
            call_id=continuation.call_id,
            runtime=replace(
                runtime_of(release, key, tool.signature.name, call.sub_agent),
                site=continuation.site,
                side=continuation.side,
            ),
            mark=continuation.mark,
        )
    except ArgumentsError as error:
        return _refuse_arguments(tool, error, continuation.format_)
    return answer_of(masked_call(following, key), tool, continuation.format_)


def resume_in_background(
    call: Call, release: Release, tool: ReleasedTool, *, actor: User, key: ApiKey | None, call_key: uuid.UUID
) -> Call:
    """Continue a call whose user has granted the requested authorization. A worker runs it."""
    released_version(tool)
    runtime = replace(
        runtime_of(release, key, tool.signature.name, call.sub_agent),
        site=call.site,
        why=f"The user has authorized what call {call.pk} asked for.",
    )
    return continuing.continue_call(call, actor=actor, answers={}, key=call_key, runtime=runtime)


def answer_of(call: VisibleCall, tool: ReleasedTool, format_: str = "") -> Answer:
    """Return the result of `call` so far, by the names of the format."""
    result, names_of_format = call.decoded(), wires(tool.signature, format_)[0]
    notes = names.notes_on_arguments(tool.signature, call.arguments, format_)
    visible_result = structs.replace(
        result,
        # Notes with the caller's names replace those with the vendor's.
        notes=[
            *map(note_document, notes),
            *(note for note in result.notes if note["code"] != UNKNOWN_INPUT),
        ],
        outputs=wire.outputs_for_the_caller(tool.signature, names_of_format, result.outputs),
        parsed=wire.outputs_for_the_caller(tool.signature, names_of_format, result.parsed, is_parsed=True),
        error=names.map_error_to_caller(tool.signature, result.error, format_),
        attempts=[],
    )
    is_latent = call.outcome == latent.LATENT.outcome
    return Answer(
        tool=tool,
        call=call,
        outcome=call.outcome or None,
        result=visible_result,
        output_schema=outputs.schema_of(tool.signature, format_) if is_latent else None,
        format_=format_,
    )


def give_output(
    call: Call,
    release: Release,
    tool: ReleasedTool,
    *,
    actor: User,
    key: ApiKey | None,
    output: object,
    format_: str,
) -> Answer:
    """Store the model's own output for a call of a simulated tool. `release` and `tool` are those of
    `stored_calls.find_release_and_tool`. Raises DomainError if the output does not fit or was given before.
    """
    parsed_output = latent.output_outcome(parse_output(tool.signature, output, format_))
    reason = runtime_of(release, key).why
    answered_call = latent.answer(call, actor=actor, output=parsed_output, why=reason)
    return answer_of(masked_call(answered_call, key), tool, format_)


def _refuse_arguments(tool: ReleasedTool, error: ArgumentsError, format_: str) -> Answer:
    result = Result(error=dict(error.outcome.error or {}))
    return Answer(tool=tool, outcome=error.outcome.outcome, result=result, format_=format_)


def deadline_of(mode: Mode, requested_seconds: int | None) -> int | None:
    """Return the deadline; None means as long as the policy allows. Raises DomainError beyond the mode's
    maximum.
    """
    max_seconds = (
        requesting.MAX_DEADLINE_SECONDS if mode == Mode.WAIT else requesting.MAX_LONG_DEADLINE_SECONDS
    )
    if requested_seconds is not None and not 1 <= requested_seconds <= max_seconds:
        reason = f"takes 1 to {max_seconds:,} with the mode `{mode}`"
        message = f"A call of this mode may take {max_seconds:,} seconds at most."
        raise DomainError("invalid", message, fields={"deadline_seconds": reason})
    return requesting.LONG_DEADLINE if requested_seconds is None and mode != Mode.WAIT else requested_seconds


def cancel(call: Call, release: Release, *, actor: User, key: ApiKey | None) -> Call:
    """End a call of this release. Raises DomainError if it has ended."""
    return cancellation.cancel(call, actor=actor, why=runtime_of(release, key).why)


def released_version(tool: ReleasedTool) -> ToolVersion:
    """Return the catalog's row of the released version. Raises DomainError if it may not run as released."""
    version = requesting.find_version(tool.id, tool.version.ordinal)
    name = tool.signature.name
    if version is None or version.digest != tool.version.digest:
        message = f"The catalog's version of “{name}” is not the one that was released, so it does not run."
        raise DomainError("release_damaged", message, status=409)
    return version


def runtime_of(release: Release, key: ApiKey | None, tool: str = "", sub_agent: str = "") -> Runtime:
    """Return the runtime that calls this tool of the release, by its name."""
    source = f"with the key “{key.name}”" if key else "from a browser"
    reason = f"Release {release.number} of “{release.agent.name}”, {source}."
    agent, number = release.agent_id, release.number
    return Runtime(agent=agent, release=number, key=key, why=reason, sub_agent=sub_agent, tool=tool)
