"""An agent's runtime runs tools: by the names of a release, at exactly the versions that it holds.

`run` and `resume` stand behind every protocol that a release is served in, each of which only words an
`Answer`.

A model knows the names of a format and sees no hidden inputs. Its arguments become the vendor's in
executor/names.py: names are put back, presets are added, and what the release does not show is refused.
Then the call goes the way of every call (catalog/calls), which checks it against the pinned version's
own schema.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from msgspec import structs

from catalog.activities import kinds
from catalog.calls import call_keys, cancellation, invocation, latent, requesting, threads, versions
from catalog.calls.call_keys import ClientCallId
from catalog.calls.checks import ArgumentsError, ConfirmationError
from catalog.calls.results import note_document
from catalog.calls.runtime import USUAL, CallerSide, Runtime
from catalog.models import ActivityVersion, Call, Thread, ToolVersion
from catalog.models.calls import Mode, Result
from catalog.notifications.callbacks import Recipient
from catalog.rules.retries import Terms
from catalog.tools import configurations
from catalog.user_grants import end_users
from catalog.user_grants.end_users import OnBehalfOf
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.prepared_statements import run_prepared
from designer import environments
from designer.environments import Subject
from designer.exports import outputs, transfers, wire
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.models import Place, Release
from designer.releases import fresh_signatures
from executor import names
from executor.outputs import taken
from executor.released_documents import sealed, wires
from people import audit
from people.models import RUNTIME_SCOPES, ApiKey, AuditEntry, User
from protocols.base import Outcome
from protocols.calls.arguments import UNKNOWN_INPUT

# A key that asks all day for what is not its own is written down once an hour for each thing it asks for,
# and for so many things at most.
REFUSAL_RECORDED_EVERY = timedelta(hours=1)
MAX_REFUSALS_RECORDED = 50


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of asking for a tool, whatever it was; names in `result` are those of the format.

    `outcome` is a kind of outcome of a call, or `transfer`; None while the call is under way. `call` is None
    where nothing was sent. `result` has nothing of the vendor's headers or addresses. `transfer_to` is the
    slug of the sub-agent that takes over. `output_schema` is that of the output that a latent call waits for,
    by the names of `format_`.
    """

    tool: ReleasedTool
    call: Call | None = None
    outcome: str | None = None
    result: Result = field(default_factory=Result)
    transfer_to: str = ""
    output_schema: Mapping[str, Any] | None = None
    format_: str = ""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a caller asks for: a tool by the name that a model knows it by, and how it shall run.

    `sub_agent` is the slug of the one that shows the tool, "" for the agent itself. `arguments` go by the
    names of the export format, or of any where none is said. `on_behalf_of` is the user of the agent for whom
    it runs, and `site` our own address as the caller knows it. `thread` is the key of one that the caller has
    begun, on which a run of the tool goes on. `ordinal` is of the version that the caller was shown, of a
    tool that follows its vendor; None is that of the release. `configuration` is for this run alone, whatever
    the release has chosen: a name as in `configurations.named`, or values. `reasoning` and `mark` are kept
    with the call.

    `environment` is one of the agent's; "" is that of the key, or else the default one. `activity` is what
    the caller was shown as `_activity`, None where it does not say: the call is refused where another one
    runs by now. `output` is that of a model that answers itself; `is_a_models`: the model gives one whatever
    runs, and it is not looked at where something does.

    `is_of_context`: the name is that of a prompt or a resource and not of a tool.
    `is_made_here`: by a thread of this process and not by a worker, of a call that its caller streams.
    `side` is what the protocol tells of the program that waits.
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


class UnknownToolError(DomainError):
    """The release shows no tool of this name at this place."""

    def __init__(self, name: str) -> None:
        message = f"There is no tool “{printable(name, 100)}” here. List the tools of the release."
        super().__init__("not_found", message, status=404)


def run(release: Release, wish: Wish, *, actor: User, key: ApiKey | None) -> Answer:
    """Run the tool that a model knows by this name, or hand over, and wait for what comes of it.

    In another mode a worker makes the call, the answer is how far it is, and the callback hears of the end.
    Arguments that do not fit are an answer like others. A call that was made with this id before is not made
    again.

    Raises UnknownToolError, ConfirmationError, TooManyCallsError, DomainError.
    """
    find = sealed(release).context_item if wish.is_of_context else sealed(release).tool
    tool = find(wish.tool, wish.sub_agent)
    if tool is None:
        raise UnknownToolError(wish.tool)
    if made := _made_before(release, tool, wish, actor=actor, key=key):
        return made
    if wish.ordinal is not None:
        tool = fresh_signatures.in_version(tool, wish.ordinal)
    try:
        if tool.signature.kind == transfers.KIND:
            to = _hand_over(release, tool, wish, actor=actor, key=key)
            return Answer(tool=tool, outcome=transfers.KIND, transfer_to=to)
        call = _call(release, tool, wish, actor=actor, key=key)
    except ArgumentsError as error:
        return _refused(tool, error)
    return answer_of(call, tool, wish.format_)


def _made_before(
    release: Release, tool: ReleasedTool, wish: Wish, *, actor: User, key: ApiKey | None
) -> Answer | None:
    # Its thread may be gone by now, and its version not shown any more: the outcome is told all the same.
    if wish.call_id is None or (wish.thread is None and wish.ordinal is None):
        return None
    rows = Call.objects.select_related("version__tool__endpoint__vendor", "thread")
    made = made_with([wish.call_id], rows, actor=actor, key=key).filter(tool=tool.id, continues=None)
    call = made.filter(agent=release.agent_id, sub_agent=wish.sub_agent).first()
    if call is None:
        return None
    user = end_users.digest_of(release.agent_id, wish.on_behalf_of.name) if wish.on_behalf_of else ""
    called = fresh_signatures.as_called(tool, call.version)
    theirs = names.for_the_vendor(called.signature, call.version.decoded(), wish.arguments, wish.format_)
    if wish.configuration is not None:
        theirs |= _configured(call.version, wish.configuration)
    asked = (wish.thread, wish.ordinal or called.version.ordinal, user, canonical(theirs))
    on = call.thread.key if call.thread else None
    if asked != (on, call.version.ordinal, call.on_behalf_of, canonical(call.arguments)):
        return None
    seconds = call.deadline_seconds if call.mode == Mode.WAIT else 0
    return answer_of(invocation.follow(call, seconds), called, wish.format_)


def made_with(
    call_ids: Iterable[ClientCallId], rows: QuerySet[Call], *, actor: User, key: ApiKey | None
) -> QuerySet[Call]:
    """Of these rows, the calls that this caller has made with these ids."""
    keys = [derived for call_id in call_ids for derived in keys_of(call_id, actor=actor, key=key)]
    return rows.filter(key__in=keys, requested_by=actor, api_key=key)


def keys_of(call_id: ClientCallId, *, actor: User, key: ApiKey | None) -> tuple[uuid.UUID, uuid.UUID]:
    """Return the key of this caller's call with this id, and the one that an earlier release gave it."""
    api_key = key.pk if key else None
    return (
        call_keys.key_of_client_call(call_id, user=actor.pk, api_key=api_key),
        call_keys.earlier_key(call_id, user=actor.pk, api_key=api_key),
    )


def resume(
    call: Call,
    release: Release,
    tool: ReleasedTool,
    *,
    actor: User,
    key: ApiKey | None,
    answers: Mapping[str, Any],
    format_: str = "",
    call_id: ClientCallId | None = None,
    site: str = "",
    side: CallerSide = USUAL,
    mark: str = "",
    mode: Mode = Mode.WAIT,
    is_made_here: bool = False,
) -> Answer:
    """Go on with `call`, which stopped to ask, through the release that it was made through. It becomes
    another call, or is the one that was made with this `call_id` before. `side`, `mark`, `mode` and
    `is_made_here` are as in a `Wish`.

    `release` and `tool` are those of `made_through`. Raises ConfirmationError, TooManyCallsError,
    DomainError.
    """
    released_version(tool)
    runtime = runtime_of(release, key, call.sub_agent, tool.signature.name, site=site, side=side)
    go_on: Callable[..., Call] = invocation.continue_now
    if is_made_here:
        go_on = invocation.continue_beside
    elif mode != Mode.WAIT:
        go_on = partial(requesting.continue_call, mode=mode)
    try:
        following = go_on(call, actor=actor, answers=answers, call_id=call_id, runtime=runtime, mark=mark)
    except ArgumentsError as error:
        return _refused(tool, error)
    return answer_of(following, tool, format_)


def resume_in_background(
    call: Call, release: Release, tool: ReleasedTool, *, actor: User, key: ApiKey | None, call_key: uuid.UUID
) -> Call:
    """The same for a call whose user has authorized what it asked for. A worker makes it."""
    released_version(tool)
    runtime = replace(
        runtime_of(release, key, call.sub_agent, tool.signature.name, site=call.site),
        why=f"The user has authorized what call {call.pk} asked for.",
    )
    return requesting.continue_call(call, actor=actor, answers={}, key=call_key, runtime=runtime)


def answer_of(call: Call, tool: ReleasedTool, format_: str = "") -> Answer:
    """What came of `call` so far, by the names of the format."""
    result, spoken = call.decoded(), wires(tool.signature, format_)[0]
    notes = names.notes_on_arguments(tool.signature, call.arguments, format_)
    told = structs.replace(
        result,
        # Those by the caller's names replace the ones by the vendor's.
        notes=[
            *map(note_document, notes),
            *(note for note in result.notes if note["code"] != UNKNOWN_INPUT),
        ],
        outputs=wire.outputs_for_the_caller(tool.signature, spoken, result.outputs),
        parsed=wire.outputs_for_the_caller(tool.signature, spoken, result.parsed, is_parsed=True),
        error=names.for_the_caller(tool.signature, result.error, format_),
        attempts=[],
    )
    is_latent = call.outcome == latent.LATENT.outcome
    return Answer(
        tool=tool,
        call=call,
        outcome=call.outcome or None,
        result=told,
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
    """What a model answers to a latent call, in place of what would run. `release` and `tool` are those of
    `made_through`. Raises DomainError for an output that does not fit, and for a second one."""
    given = latent.given(taken(tool.signature, output, format_))
    why = runtime_of(release, key).why
    return answer_of(latent.answer(call, actor=actor, output=given, why=why), tool, format_)


def _refused(tool: ReleasedTool, error: ArgumentsError) -> Answer:
    return Answer(
        tool=tool, outcome=error.outcome.outcome, result=Result(error=dict(error.outcome.error or {}))
    )


def shown(release: Release, sub_agent: str = "") -> ReleaseDocument | None:
    """What a model is shown of the agent or of one of its sub-agents, with transfers as tools.

    None where the release has no such sub-agent.
    """
    return sealed(release).at(sub_agent)


def made_through(call: Call | Thread) -> tuple[Release, ReleasedTool]:
    """The release that a runtime's call or thread was made through, and its tool in the version that ran.
    Raises Http404.
    """
    releases = Release.objects.select_related("agent").filter(agent=call.agent).defer("document")
    release = get_object_or_404(releases, number=call.release)
    tool = tool_within(release, call)
    if tool is None:
        raise Http404
    return release, tool


def with_their_releases(found: Iterable[Call]) -> list[tuple[Call, Release, ReleasedTool]]:
    """Return each call with its release and its tool, except those that their release does not show."""
    found = list(found)
    numbers = {(call.agent, call.release) for call in found}
    rows = Release.objects.select_related("agent").filter(
        agent__in={agent for agent, _ in numbers}, number__in={number for _, number in numbers}
    )
    releases = {(release.agent_id, release.number): release for release in rows.defer("document")}
    shown_calls = []
    for call in found:
        release = releases.get((call.agent or 0, call.release or 0))
        if release and (tool := tool_within(release, call)):
            shown_calls.append((call, release, tool))
    return shown_calls


def tool_within(release: Release, call: Call | Thread) -> ReleasedTool | None:
    """The tool of a call or thread that was made through this release, in the version that ran; None where
    the release does not show it."""
    shows = shown(release, call.sub_agent)
    items = (*shows.tools, *shows.context) if shows else ()
    tool = next((each for each in items if each.id == call.tool_id), None)
    return fresh_signatures.as_called(tool, call.version) if tool and call.version else tool


@transaction.atomic
def _hand_over(
    release: Release, transfer: ReleasedTool, wish: Wish, *, actor: User, key: ApiKey | None
) -> str:
    """The slug of the agent that takes over. Nothing is sent anywhere; raises ArgumentsError."""
    spoken = wires(transfer.signature, wish.format_)
    if given := wire.arguments_for_the_vendor(transfer.signature, spoken, wish.arguments):
        fields = dict.fromkeys(given, wire.UNKNOWN)
        said = {"code": "ARGUMENTS", "message": "A transfer takes no inputs.", "fields": fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said))
    facts = {
        "from": wish.sub_agent or release.agent.slug,
        "to": transfer.tool_id,
        "as": transfer.signature.name,
    }
    why = runtime_of(release, key).why
    audit.record(actor, "hand over", release, after=facts, why=why, agent=release.agent_id)
    return transfer.tool_id


def _call(release: Release, tool: ReleasedTool, wish: Wish, *, actor: User, key: ApiKey | None) -> Call:
    # Or the one that was made with this id before.
    thread = _own_thread(release, key, wish.thread) if wish.thread else None
    version = released_version(tool, key)
    signature = version.decoded()
    place, runs = _what_runs(release, tool, wish, key)
    theirs = names.for_the_vendor(tool.signature, signature, wish.arguments, wish.format_)
    if wish.configuration is not None:
        theirs |= _configured(version, wish.configuration)
    is_destructive = tool.signature.annotations.destructive and not signature.annotations.destructive
    if is_destructive and runs.acts and not wish.is_confirmed:
        raise ConfirmationError(f"Its designer says that “{tool.signature.name}” may destroy something.")
    if wish.mode == Mode.WAIT and wish.callback:
        message = "A call that is waited for calls no address back. Say “mode”: “async”."
        raise DomainError("invalid", message, fields={"callback": message})
    make: Callable[..., Call] = invocation.call_now
    if runs.is_latent:
        at, output = "_output" if wish.is_a_models else "output", None
        if wish.output is not None:
            output = latent.given(taken(tool.signature, wish.output, wish.format_, at=at))
        make = partial(
            latent.request,
            output=output,
            mode=wish.mode,
            callback=wish.callback,
        )
    elif wish.is_made_here:
        make = invocation.call_beside
    elif wish.mode != Mode.WAIT:
        make = partial(requesting.request_call, mode=wish.mode, callback=wish.callback)
    try:
        return make(
            version,
            actor=actor,
            arguments=theirs,
            # A client that reads the stream of its own request waits too; progress extends its deadline.
            deadline_seconds=deadline_of(
                Mode.WAIT if wish.is_made_here else wish.mode, wish.deadline_seconds
            ),
            is_confirmed=wish.is_confirmed,
            call_id=wish.call_id,
            runtime=runtime_of(
                release,
                key,
                wish.sub_agent,
                tool.signature.name,
                wish.on_behalf_of,
                wish.site,
                wish.side,
            ),
            terms=Terms(policy=tool.retry_policy, effects=tool.signature.annotations),
            thread=threads.begin(thread, version) if thread else None,
            reasoning=wish.reasoning,
            mark=wish.mark,
            activity=runs.activity,
            environment=place.name if place else "",
            # A configuration is not shown to the model, so it is validated with the vendor's whole schema.
            has_valid_arguments=wish.configuration is None,
        )
    except ArgumentsError as error:
        told = names.for_the_caller(tool.signature, error.outcome.error, wish.format_, wish.arguments)
        raise ArgumentsError(replace(error.outcome, error=told)) from error


@dataclass(frozen=True)
class _Runs:
    """What runs for a call: an activity, or the model itself, or else the vendor."""

    activity: ActivityVersion | None = None
    is_latent: bool = False

    @property
    def acts(self) -> bool:
        if self.is_latent:
            return False
        return self.activity is None or kinds.get(self.activity.kind).acts


def _what_runs(
    release: Release, tool: ReleasedTool, wish: Wish, key: ApiKey | None
) -> tuple[Place | None, _Runs]:
    place = environments.chosen(release, key, wish.environment)
    subject = Subject.of(tool)
    found = environments.resolve(place, subject, agent=release.agent_id)
    name = tool.signature.name
    shown = found.shown_as(name)
    if wish.activity is not None and wish.activity != shown:
        now = f"by “{printable(shown, 100)}”" if shown else "by none, so the model answers itself"
        message = f"“{name}” is carried out {now}, and not as the call has it. Read the tools again."
        raise DomainError("activity_mismatch", message, fields={"_activity": message}, status=409)
    if wish.output is not None and found.runs != "latent" and not wish.is_a_models:
        message = f"Something runs for “{name}” here, so it takes no output of a model. Nothing was run."
        raise DomainError("not_latent", message, fields={"output": message}, status=409)
    if found.unrecorded_name:
        environments.record_named(release.agent_id, {subject: found})
    return place, _Runs(environments.version_of(found), is_latent=found.runs == "latent")


def _configured(version: ToolVersion, configuration: str | Mapping[str, Any]) -> dict[str, Any]:
    # Judged with the other arguments, as the pinned version has it.
    parameter = configurations.parameter_of(version)
    if parameter is None:
        raise invalid(configuration=f"“{version.tool}” has nothing to configure.")
    if isinstance(configuration, str):
        return {parameter.name: configurations.named(version.tool, configuration).values}
    return {parameter.name: dict(configuration)}


def threads_of(agent: int, key: ApiKey | None) -> QuerySet[Thread]:
    """Those that were begun for this agent: a key of a runtime finds its own alone."""
    rows = Thread.objects.filter(agent=agent, removed_at=None)
    if key and set(key.scopes) <= RUNTIME_SCOPES:
        rows = rows.filter(api_key=key)
    return rows.select_related("version")


def _own_thread(release: Release, key: ApiKey | None, thread: uuid.UUID) -> Thread:
    found = threads_of(release.agent_id, key).filter(key=thread).first()
    if found is None:
        raise invalid(thread="There is no such thread of this agent that you may use.")
    return found


def deadline_of(mode: Mode, asked: int | None) -> int | None:
    """None: as long as its policy allows. Raises DomainError for more than a call of this mode may take."""
    most = requesting.MAX_DEADLINE_SECONDS if mode == Mode.WAIT else requesting.MAX_LONG_DEADLINE_SECONDS
    if asked is not None and not 1 <= asked <= most:
        why = f"takes 1 to {most:,} with the mode `{mode}`"
        message = f"A call of this mode may take {most:,} seconds at most."
        raise DomainError("invalid", message, fields={"deadline_seconds": why})
    return requesting.LONG_DEADLINE if asked is None and mode != Mode.WAIT else asked


def cancel(call: Call, release: Release, *, actor: User, key: ApiKey | None) -> Call:
    """End a call that was made through this release. Raises DomainError for one that has ended."""
    return cancellation.cancel(call, actor=actor, why=runtime_of(release, key).why)


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


def released_version(tool: ReleasedTool, key: ApiKey | None = None) -> ToolVersion:
    """The catalog's row of the released version. Raises DomainError when it may not run as released."""
    version = versions.find(tool.id, tool.version.ordinal, key.ask if key else run_prepared)
    name = tool.signature.name
    if version is None or version.digest != tool.version.digest:
        message = f"The catalog's version of “{name}” is not the one that was released, so it does not run."
        raise DomainError("release_damaged", message, status=409)
    return version


def runtime_of(
    release: Release,
    key: ApiKey | None,
    sub_agent: str = "",
    tool: str = "",
    on_behalf_of: OnBehalfOf | None = None,
    site: str = "",
    side: CallerSide = USUAL,
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
        side=side,
    )
