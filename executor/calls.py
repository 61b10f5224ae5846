"""An agent's runtime runs tools: by the names of a release, at exactly the versions that it holds.

`run` and `resume` stand behind every protocol that a release is served in, each of which only words an
`Answer`.

A model knows the names of a format and sees no hidden inputs. Its arguments become the vendor's here: names
are put back (designer/exports/wire.py), presets are added, and what the release does not show is refused.
Then the call goes the way of every call (catalog/calls), which checks it against the pinned version's
own schema.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from msgspec import UNSET, structs

from catalog.calls import cancellation, invocation, queue, versions
from catalog.calls.queue import ArgumentsError, ConfirmationError, Runtime
from catalog.models import Call, ToolVersion
from catalog.models.calls import Mode, Result
from catalog.protocols.base import Outcome
from catalog.protocols.calls.arguments import given
from catalog.protocols.signature import Signature
from catalog.rules.retries import Terms
from catalog.user_grants.end_users import OnBehalfOf
from core.errors import DomainError
from core.outbound.errors import printable
from designer.exports import transfers, wire
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Release
from designer.signatures.effective import Effective, Hidden, Input
from executor.released_documents import sealed, wires
from people import audit
from people.models import ApiKey, AuditEntry, User

# A key that asks all day for what is not its own is written down once an hour for each thing it asks for,
# and for so many things at most.
REFUSAL_RECORDED_EVERY = timedelta(hours=1)
MAX_REFUSALS_RECORDED = 50


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of asking for a tool, whatever it was; names in `result` are those of the format.

    `outcome` is a kind of outcome of a call, or `transfer`; None while the call is under way. `call` is None
    where nothing was sent. `result` has nothing of the vendor's headers or addresses. `transfer_to` is the
    slug of the sub-agent that takes over.
    """

    tool: ReleasedTool
    call: Call | None = None
    outcome: str | None = None
    result: Result = field(default_factory=Result)
    transfer_to: str = ""


class UnknownToolError(DomainError):
    """The release shows no tool of this name at this place."""

    def __init__(self, name: str) -> None:
        message = f"There is no tool “{printable(name, 100)}” here. List the tools of the release."
        super().__init__("not_found", message, status=404)


def run(
    release: Release,
    name: str,
    arguments: Mapping[str, Any],
    *,
    actor: User,
    key: ApiKey | None,
    sub_agent: str = "",
    format_: str = "",
    deadline_seconds: int | None = None,
    is_confirmed: bool = False,
    call_id: uuid.UUID | None = None,
    on_behalf_of: OnBehalfOf | None = None,
    site: str = "",
    mode: Mode = Mode.WAIT,
    callback: str = "",
) -> Answer:
    """Run the tool that a model knows by `name`, or hand over, and wait for what comes of it.

    In another `mode` a worker makes the call, the answer is how far it is, and `callback` is an address that
    hears of the end.

    `sub_agent` is the slug of the one that shows the tool, "" for the agent itself. `arguments` go by the
    names of the export format, or of any where none is said; those that do not fit are an answer like
    others. A call that was made with this `call_id` before is not made again. `on_behalf_of` is the user of
    the agent for whom it runs, and `site` our own address as the caller knows it.

    Raises UnknownToolError, ConfirmationError, TooManyCallsError, DomainError.
    """
    tool = sealed(release).tool(name, sub_agent)
    if tool is None:
        raise UnknownToolError(name)
    try:
        if tool.signature.kind == transfers.KIND:
            to = _hand_over(
                release,
                tool,
                actor=actor,
                key=key,
                arguments=arguments,
                sub_agent=sub_agent,
                format_=format_,
            )
            return Answer(tool=tool, outcome=transfers.KIND, transfer_to=to)
        call = _call(
            release,
            tool,
            sub_agent=sub_agent,
            actor=actor,
            key=key,
            arguments=arguments,
            deadline_seconds=deadline_seconds,
            is_confirmed=is_confirmed,
            call_id=call_id,
            format_=format_,
            on_behalf_of=on_behalf_of,
            site=site,
            mode=mode,
            callback=callback,
        )
    except ArgumentsError as error:
        return _refused(tool, error)
    return answer_of(call, tool, format_)


def resume(
    call: Call,
    release: Release,
    tool: ReleasedTool,
    *,
    actor: User,
    key: ApiKey | None,
    answers: Mapping[str, Any],
    format_: str = "",
    call_id: uuid.UUID | None = None,
    site: str = "",
) -> Answer:
    """Go on with `call`, which stopped to ask, through the release that it was made through. It becomes
    another call, or is the one that was made with this `call_id` before.

    `release` and `tool` are those of `made_through`. Raises ConfirmationError, TooManyCallsError,
    DomainError.
    """
    _released_version(tool)
    runtime = _runtime(release, key, call.sub_agent, tool.signature.name, site=site)
    try:
        following = invocation.continue_now(call, actor=actor, answers=answers, key=call_id, runtime=runtime)
    except ArgumentsError as error:
        return _refused(tool, error)
    return answer_of(following, tool, format_)


def resume_in_background(
    call: Call, release: Release, tool: ReleasedTool, *, actor: User, key: ApiKey | None, call_id: uuid.UUID
) -> Call:
    """The same for a call whose user has authorized what it asked for. A worker makes it."""
    _released_version(tool)
    runtime = replace(
        _runtime(release, key, call.sub_agent, tool.signature.name, site=call.site),
        why=f"The user has authorized what call {call.pk} asked for.",
    )
    return queue.continue_call(call, actor=actor, answers={}, key=call_id, runtime=runtime)


def answer_of(call: Call, tool: ReleasedTool, format_: str = "") -> Answer:
    """What came of `call` so far, by the names of the format."""
    result, names = call.decoded(), wires(tool.signature, format_)[0]
    told = structs.replace(
        result,
        outputs=wire.outputs_for_the_caller(tool.signature, names, result.outputs),
        parsed=wire.outputs_for_the_caller(tool.signature, names, result.parsed, is_parsed=True),
        error=for_the_caller(tool.signature, result.error, format_),
        attempts=[],
    )
    return Answer(tool=tool, call=call, outcome=call.outcome or None, result=told)


def _refused(tool: ReleasedTool, error: ArgumentsError) -> Answer:
    return Answer(
        tool=tool, outcome=error.outcome.outcome, result=Result(error=dict(error.outcome.error or {}))
    )


def shown(release: Release, sub_agent: str = "") -> ReleaseDocument | None:
    """What a model is shown of the agent or of one of its sub-agents, with transfers as tools.

    None where the release has no such sub-agent.
    """
    return sealed(release).at(sub_agent)


def made_through(call: Call) -> tuple[Release, ReleasedTool]:
    """The release that a runtime's call was made through, and the tool of it that it ran. Raises Http404."""
    releases = Release.objects.select_related("agent").filter(agent=call.agent).defer("document")
    release = get_object_or_404(releases, number=call.release)
    shows = shown(release, call.sub_agent)
    tool = next((each for each in shows.tools if each.id == call.tool_id), None) if shows else None
    if tool is None:
        raise Http404
    return release, tool


@transaction.atomic
def _hand_over(
    release: Release,
    transfer: ReleasedTool,
    *,
    actor: User,
    key: ApiKey | None,
    arguments: Mapping[str, Any],
    sub_agent: str = "",
    format_: str = "",
) -> str:
    """The slug of the agent that takes over. Nothing is sent anywhere; raises ArgumentsError."""
    spoken = wires(transfer.signature, format_)
    if given := wire.arguments_for_the_vendor(transfer.signature, spoken, arguments):
        fields = dict.fromkeys(given, wire.UNKNOWN)
        said = {"code": "ARGUMENTS", "message": "A transfer takes no inputs.", "fields": fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said))
    facts = {"from": sub_agent or release.agent.slug, "to": transfer.tool_id, "as": transfer.signature.name}
    why = _runtime(release, key).why
    audit.record(actor, "hand over", release, after=facts, why=why, agent=release.agent_id)
    return transfer.tool_id


def _call(
    release: Release,
    tool: ReleasedTool,
    *,
    sub_agent: str = "",
    actor: User,
    key: ApiKey | None,
    arguments: Mapping[str, Any],
    deadline_seconds: int | None = None,
    is_confirmed: bool = False,
    call_id: uuid.UUID | None = None,
    format_: str = "",
    on_behalf_of: OnBehalfOf | None = None,
    site: str = "",
    mode: Mode = Mode.WAIT,
    callback: str = "",
) -> Call:
    # Or the one that was made with this `call_id` before.
    version = _released_version(tool)
    signature = version.decoded()
    theirs = for_the_vendor(tool.signature, signature, arguments, format_)
    if tool.signature.annotations.destructive and not signature.annotations.destructive and not is_confirmed:
        raise ConfirmationError(f"Its designer says that “{tool.signature.name}” may destroy something.")
    make = invocation.call_now
    if mode != Mode.WAIT:
        make = partial(queue.request_call, mode=mode, callback=callback)
    elif callback:
        message = "A call that is waited for calls no address back. Say “mode”: “async”."
        raise DomainError("invalid", message, fields={"callback": message})
    try:
        return make(
            version,
            actor=actor,
            arguments=theirs,
            deadline_seconds=deadline_of(mode, deadline_seconds),
            is_confirmed=is_confirmed,
            key=call_id,
            runtime=_runtime(release, key, sub_agent, tool.signature.name, on_behalf_of, site),
            terms=Terms(policy=tool.retry_policy, effects=tool.signature.annotations),
        )
    except ArgumentsError as error:
        told = for_the_caller(tool.signature, error.outcome.error, format_, arguments)
        raise ArgumentsError(replace(error.outcome, error=told)) from error


def deadline_of(mode: Mode, asked: int | None) -> int | None:
    """None: as long as its policy allows. Raises DomainError for more than a call of this mode may take."""
    most = queue.MAX_DEADLINE_SECONDS if mode == Mode.WAIT else queue.MAX_LONG_DEADLINE_SECONDS
    if asked is not None and not 1 <= asked <= most:
        why = f"takes 1 to {most:,} with the mode `{mode}`"
        message = f"A call of this mode may take {most:,} seconds at most."
        raise DomainError("invalid", message, fields={"deadline_seconds": why})
    return queue.LONG_DEADLINE if asked is None and mode != Mode.WAIT else asked


def cancel(call: Call, release: Release, *, actor: User, key: ApiKey | None) -> Call:
    """End a call that was made through this release. Raises DomainError for one that has ended."""
    return cancellation.cancel(call, actor=actor, why=_runtime(release, key).why)


def for_the_vendor(
    tool: Effective, signature: Signature, arguments: Mapping[str, Any], format_: str = ""
) -> dict[str, Any]:
    """Arguments by the vendor's names, with the presets. Raises ArgumentsError for what is not shown."""
    spoken = wires(tool, format_)
    try:
        named = wire.arguments_for_the_vendor(tool, spoken, arguments)
        hidden = {
            shown.parameter.name: f"takes one of: {', '.join(v.name for v in shown.parameter.allowed_values)}"
            for shown in tool.inputs
            if named.get(shown.parameter.name) in shown.hidden_values
        }
        if hidden:
            raise wire.UnfitError(wire.faults_for_the_caller(tool, spoken, hidden, arguments))
    except wire.UnfitError as error:
        said = {"code": "ARGUMENTS", "message": "Some inputs do not fit.", "fields": error.fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said)) from error
    held: list[Input | Hidden] = [*tool.inputs, *tool.hidden]
    presets = {each.parameter.name: each.preset for each in held if each.preset is not UNSET}
    return {**presets, **given(signature, named)}


def for_the_caller(
    tool: Effective,
    error: Mapping[str, Any] | None,
    format_: str = "",
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """What is wrong, with the inputs by the names that the caller knows."""
    if error is None or not (fields := error.get("fields")):
        return None if error is None else dict(error)
    return {
        **error,
        "fields": wire.faults_for_the_caller(tool, wires(tool, format_), fields, arguments),
    }


def note_refusal(key: ApiKey, *, actor: User, agent: str, tool: str) -> None:
    # A key that runs tools asked for one that it does not reach, whether or not there is such a tool.
    asked = {"agent": printable(agent, 60), "tool": printable(tool, 100)}
    entries = AuditEntry.objects.filter(
        kind=key._meta.model_name, object_id=str(key.pk), action="refuse call"
    )
    lately = entries.filter(at__gt=timezone.now() - REFUSAL_RECORDED_EVERY)
    told = list(lately.order_by("-id").values_list("after", flat=True)[:MAX_REFUSALS_RECORDED])
    if asked not in told and len(told) < MAX_REFUSALS_RECORDED:
        with transaction.atomic():
            why = "This key does not reach such a tool. Nothing was sent."
            audit.record(actor, "refuse call", key, after=asked, why=why)


def _released_version(tool: ReleasedTool) -> ToolVersion:
    """The catalog's row of the released version. Raises DomainError when it may not run as released."""
    version = versions.find(tool.id, tool.version.ordinal)
    name = tool.signature.name
    if version is None or version.digest != tool.version.digest:
        message = f"The catalog's version of “{name}” is not the one that was released, so it does not run."
        raise DomainError("release_damaged", message, status=409)
    return version


def _runtime(
    release: Release,
    key: ApiKey | None,
    sub_agent: str = "",
    tool: str = "",
    on_behalf_of: OnBehalfOf | None = None,
    site: str = "",
) -> Runtime:
    by = f"with the key “{key.name}”" if key else "from a browser"
    why = f"Release {release.number} of “{release.agent}”, {by}."
    return Runtime(
        agent=release.agent_id,
        release=release.number,
        key=key,
        why=why,
        sub_agent=sub_agent,
        tool=tool,
        on_behalf_of=on_behalf_of,
        site=site,
    )
