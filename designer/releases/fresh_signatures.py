"""The signature of a released tool as it is at its vendor now, where its designer lets it follow the vendor.

What is shown is decided anew each time, by one pure function (freshness.py), out of what the catalog holds.
So a version that review stops later is not shown any more, and no call of it runs.
"""

from django.db.models import Q

from catalog.calls import invocation
from catalog.calls.invocation import NoRoomError
from catalog.calls.places import Holder
from catalog.enumeration import one_tool
from catalog.models import Finding, Tool, ToolVersion
from catalog.models.findings import HELD, FindingState
from catalog.models.tools import ToolStatus
from catalog.review import holds, inspector
from catalog.rules import policy
from core.errors import DomainError
from designer.exports import transfers
from designer.exports.document import ReleasedTool, ReleasedVersion
from designer.releases import freshness
from designer.releases.freshness import Decision, Offered

_REVIEWED: dict[FindingState | None, freshness.Review] = {
    None: "offered",
    FindingState.OPEN: "held",
    FindingState.BLOCKED: "blocked",
}
_GONE = {"NOT_FOUND", "ENDPOINT_REMOVED"}


def now(released: ReleasedTool) -> Decision:
    """What a runtime is shown that asks now. The vendor is asked where the designer has chosen so, if it has
    not been within the interval. Waits for that no longer than `one_tool.SECONDS`, and outside of any
    transaction."""
    if not released.follows_vendor or released.signature.kind == transfers.KIND:
        return Decision(released, reason="not_followed")
    tool = _tool(released)
    if tool.status == ToolStatus.WITHDRAWN or not tool.endpoint.is_live:
        return Decision(released, reason="withdrawn")
    try:
        # Among the calls, because it holds a thread as they do.
        with invocation.room(Holder(None, f"endpoint {tool.endpoint_id}")):
            fetched = one_tool.read(tool)
    except NoRoomError:
        return Decision(released, reason="unreachable")
    if fetched.error_code == "VERSION_BACK":
        return Decision(released, reason="older")
    if fetched.error_code:
        return Decision(released, reason="withdrawn" if fetched.error_code in _GONE else "unreachable")
    tool.refresh_from_db(fields=["current", "stopped"])
    listed = tool.stopped or tool.current
    return _decided(released, tool, listed) if listed else Decision(released, reason="unreachable")


def in_version(released: ReleasedTool, ordinal: int) -> ReleasedTool:
    """The tool in the version that a runtime says it was shown. Nothing is sent anywhere. Raises DomainError
    for one that it would not be shown now."""
    if ordinal == released.version.ordinal:
        return released
    reason = "not_followed"
    if released.follows_vendor and released.signature.kind != transfers.KIND:
        tool = _tool(released)
        version = tool.versions.filter(ordinal=ordinal).first()
        decision = _decided(released, tool, version) if version else None
        if decision and decision.is_fresh:
            return decision.tool
        reason = decision.reason if decision else "unknown"
    why = freshness.REASONS.get(reason, "The catalog holds no such version of it.")
    message = (
        f"“{released.signature.name}” does not run in the version {ordinal}. {why} Ask for its signature "
        "again, or leave the version out: then the one of the release runs."
    )
    raise DomainError("version_not_shown", message, fields={"ordinal": why}, status=409)


def as_called(released: ReleasedTool, version: ToolVersion) -> ReleasedTool:
    """The tool as it was shown to the caller of this version, whatever has been decided about it since."""
    if version.ordinal == released.version.ordinal:
        return released
    return freshness.with_version(released, _released(version), version.decoded())


def _tool(released: ReleasedTool) -> Tool:
    rows = Tool.objects.select_related(
        "endpoint__vendor", "endpoint__credential", "endpoint__circuit", "current", "stopped"
    )
    return rows.get(pk=released.id)


def _decided(released: ReleasedTool, tool: Tool, offered: ToolVersion) -> Decision:
    sealed = tool.versions.filter(ordinal=released.version.ordinal, digest=released.version.digest).first()
    if sealed is None:
        name = released.signature.name
        message = f"The catalog's version of “{name}” is not the one that was released."
        raise DomainError("release_damaged", message, status=409)
    # Its run may not have been inspected yet.
    inspector.inspect_version(offered)
    about = Q(version=offered) | Q(subject=offered.digest)
    told = list(Finding.objects.filter(about, tool=tool).values_list("code", "severity", "state"))
    facts = Offered(
        version=_released(offered),
        signature=offered.decoded(),
        review=_REVIEWED[holds.review_state(offered)],
        alarms=[
            severity for code, severity, state in told if code != HELD and state != FindingState.ACCEPTED
        ],
        accepted={code for code, _, state in told if state == FindingState.ACCEPTED},
        is_older=offered.label_key < sealed.label_key,
    )
    return freshness.decide(released, sealed.decoded(), facts, policy.whole(tool.endpoint.policy))


def _released(version: ToolVersion) -> ReleasedVersion:
    return ReleasedVersion(ordinal=version.ordinal, label=version.label, digest=version.digest)
