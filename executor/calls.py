"""An agent's runtime runs tools: by the names of a release, at exactly the versions that it holds.

A model knows the names of a format and sees no hidden inputs. Its arguments become the vendor's here: names
are put back (designer/exports/wire.py), presets are added, and what the release does not show is refused.
Then the call goes the way of every call (catalog/calls), which checks it against the pinned version's
own schema.
"""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from msgspec import UNSET

from catalog.calls import queue
from catalog.calls.queue import ArgumentsError, ConfirmationError, Runtime
from catalog.models import Call, ToolVersion
from catalog.protocols.base import Outcome
from catalog.protocols.calls.arguments import given
from catalog.protocols.signature import Signature
from core.errors import DomainError
from core.outbound.errors import printable
from designer import exports
from designer.exports import document as release_document
from designer.exports import transfers, wire
from designer.exports.document import ReleasedTool
from designer.models import Release
from designer.signatures.effective import Effective, Hidden, Input
from people import audit
from people.models import ApiKey, AuditEntry, User

# A key that asks all day for what is not its own is written down once an hour for each thing it asks for,
# and for so many things at most.
REFUSAL_RECORDED_EVERY = timedelta(hours=1)
MAX_REFUSALS_RECORDED = 50


def find_tool(release: Release, name: str, sub_agent: str = "") -> ReleasedTool | None:
    """The tool or the transfer that a model knows by this name. `sub_agent` is the slug of the one that shows
    it, "" for the agent itself."""
    return next((tool for tool in shown_by(release, sub_agent) if tool.signature.name == name), None)


@transaction.atomic
def hand_over(
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
    wires = exports.wires(transfer.signature, format_)
    if given := wire.arguments_for_the_vendor(transfer.signature, wires, arguments):
        fields = dict.fromkeys(given, wire.UNKNOWN)
        said = {"code": "ARGUMENTS", "message": "A transfer takes no inputs.", "fields": fields}
        raise ArgumentsError(Outcome("invalid_arguments", error=said))
    facts = {"from": sub_agent or release.agent.slug, "to": transfer.tool_id, "as": transfer.signature.name}
    why = _runtime(release, key).why
    audit.record(actor, "hand over", release, after=facts, why=why, agent=release.agent_id)
    return transfer.tool_id


def call(
    release: Release,
    tool: ReleasedTool,
    *,
    sub_agent: str = "",
    actor: User,
    key: ApiKey | None,
    arguments: Mapping[str, Any],
    deadline_seconds: int = queue.DEADLINE,
    is_confirmed: bool = False,
    call_id: uuid.UUID | None = None,
    format_: str = "",
) -> Call:
    """A queued call, or the one that was made with this `call_id` before. `sub_agent` is as in `find_tool`.

    `arguments` go by the names of the export format, or of any where none is said. Raises ArgumentsError (by
    the same names), ConfirmationError, DomainError.
    """
    version = _released_version(tool)
    signature = version.decoded()
    theirs = for_the_vendor(tool.signature, signature, arguments, format_)
    if tool.signature.annotations.destructive and not signature.annotations.destructive and not is_confirmed:
        raise ConfirmationError(f"Its designer says that “{tool.signature.name}” may destroy something.")
    try:
        return queue.request_call(
            version,
            actor=actor,
            arguments=theirs,
            deadline_seconds=deadline_seconds,
            is_confirmed=is_confirmed,
            key=call_id,
            runtime=_runtime(release, key, sub_agent),
        )
    except ArgumentsError as error:
        told = for_the_caller(tool.signature, error.outcome.error, format_, arguments)
        raise ArgumentsError(replace(error.outcome, error=told)) from error


def continue_call(
    earlier: Call,
    release: Release,
    tool: ReleasedTool,
    *,
    actor: User,
    key: ApiKey | None,
    answers: Mapping[str, Any],
) -> Call:
    """Another call with the answers to what `earlier` asked, through the same release."""
    _released_version(tool)
    return queue.continue_call(
        earlier, actor=actor, answers=answers, runtime=_runtime(release, key, earlier.sub_agent)
    )


def for_the_vendor(
    tool: Effective, signature: Signature, arguments: Mapping[str, Any], format_: str = ""
) -> dict[str, Any]:
    """Arguments by the vendor's names, with the presets. Raises ArgumentsError for what is not shown."""
    wires = exports.wires(tool, format_)
    try:
        named = wire.arguments_for_the_vendor(tool, wires, arguments)
        hidden = {
            shown.parameter.name: f"takes one of: {', '.join(v.name for v in shown.parameter.allowed_values)}"
            for shown in tool.inputs
            if named.get(shown.parameter.name) in shown.hidden_values
        }
        if hidden:
            raise wire.UnfitError(wire.faults_for_the_caller(tool, wires, hidden, arguments))
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
        "fields": wire.faults_for_the_caller(tool, exports.wires(tool, format_), fields, arguments),
    }


def released_tool(release: Release, call: Call) -> ReleasedTool | None:
    return next((tool for tool in shown_by(release, call.sub_agent) if tool.id == call.tool_id), None)


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


def shown_by(release: Release, sub_agent: str = "") -> tuple[ReleasedTool, ...]:
    """The tools of the agent or of one of its sub-agents, and its transfers as tools."""
    shows = release_document.decode(release.document).at(sub_agent)
    return transfers.shown(shows).tools if shows else ()


def _released_version(tool: ReleasedTool) -> ToolVersion:
    """The catalog's row of the released version. Raises DomainError when it may not run as released."""
    rows = ToolVersion.objects.select_related("tool__endpoint__vendor", "tool__stopped")
    version = rows.filter(tool=tool.id, ordinal=tool.version.ordinal).first()
    name = tool.signature.name
    if version is None or version.digest != tool.version.digest:
        message = f"The catalog's version of “{name}” is not the one that was released, so it does not run."
        raise DomainError("release_damaged", message, status=409)
    if queue.waits_for_review(version):
        message = (
            f"“{name}” waits for review in Pegboard, so it does not run until an administrator accepts it."
        )
        raise DomainError("waits_for_review", message, status=409)
    return version


def _runtime(release: Release, key: ApiKey | None, sub_agent: str = "") -> Runtime:
    by = f"with the key “{key.name}”" if key else "from a browser"
    why = f"Release {release.number} of “{release.agent}”, {by}."
    return Runtime(agent=release.agent_id, release=release.number, key=key, why=why, sub_agent=sub_agent)
