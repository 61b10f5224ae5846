"""The current signature of a released tool at its vendor, if its designer lets it follow the vendor.

One pure function (freshness.py) decides each time from the catalog's data. So a version that review stops
later is not shown any more, and no call of it runs.
"""

from django.db.models import Q

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
from designer.releases.freshness import CatalogVersion, Decision
from execution.calls import places
from execution.calls.places import Holder, NoRoomError

_REVIEW_STATES: dict[FindingState | None, freshness.Review] = {
    None: "offered",
    FindingState.OPEN: "held",
    FindingState.BLOCKED: "blocked",
}
_GONE = {"NOT_FOUND", "ENDPOINT_REMOVED"}


def read_fresh(released: ReleasedTool) -> Decision:
    """Decide which signature a runtime sees now. If the designer has chosen so, the vendor is requested,
    unless it was within the interval. Waits at most `one_tool.SECONDS`, outside of any transaction.
    """
    if not released.follows_vendor or released.signature.kind == transfers.KIND:
        return Decision(released, reason="not_followed")
    tool = _find_tool(released)
    if tool.status == ToolStatus.WITHDRAWN or not tool.endpoint.is_live:
        return Decision(released, reason="withdrawn")
    try:
        # Counted among the calls, because it occupies a thread as they do.
        with places.room(Holder(None, f"endpoint {tool.endpoint_id}")):
            read_result = one_tool.fetch(tool)
    except NoRoomError:
        return Decision(released, reason="unreachable")
    if read_result.error_code == "VERSION_BACK":
        return Decision(released, reason="older")
    if read_result.error_code:
        return Decision(released, reason="withdrawn" if read_result.error_code in _GONE else "unreachable")
    tool.refresh_from_db(fields=["current", "stopped"])
    offered = tool.stopped or tool.current
    return _decide_for(released, tool, offered) if offered else Decision(released, reason="unreachable")


def tool_in_version(released: ReleasedTool, ordinal: int) -> ReleasedTool:
    """Return the tool in the version that a runtime saw. Nothing is sent. Raises DomainError for a version
    that would not be shown now.
    """
    if ordinal == released.version.ordinal:
        return released
    reason = "not_followed"
    if released.follows_vendor and released.signature.kind != transfers.KIND:
        tool = _find_tool(released)
        version = tool.versions.filter(ordinal=ordinal).first()
        decision = _decide_for(released, tool, version) if version else None
        if decision and decision.is_fresh:
            return decision.tool
        reason = decision.reason if decision else "unknown"
    explanation = freshness.REASONS.get(reason, "The catalog has no such version of it.")
    message = (
        f"“{released.signature.name}” does not run in the version {ordinal}. {explanation} Ask for its"
        " signature again, or leave the version out: then the one of the release runs."
    )
    raise DomainError("version_not_shown", message, fields={"ordinal": explanation}, status=409)


def tool_as_called(released: ReleasedTool, version: ToolVersion) -> ReleasedTool:
    """Return the tool as it was shown to the caller of this version, whatever was decided about it since."""
    if version.ordinal == released.version.ordinal:
        return released
    return freshness.with_version(released, _released_version(version), version.decoded())


def _find_tool(released: ReleasedTool) -> Tool:
    rows = Tool.objects.select_related(
        "endpoint__vendor", "endpoint__credential", "endpoint__circuit", "current", "stopped"
    )
    return rows.get(pk=released.id)


def _decide_for(released: ReleasedTool, tool: Tool, offered_version: ToolVersion) -> Decision:
    released_row = tool.versions.filter(
        ordinal=released.version.ordinal, digest=released.version.digest
    ).first()
    if released_row is None:
        name = released.signature.name
        message = f"The catalog's version of “{name}” is not the one that was released."
        raise DomainError("release_damaged", message, status=409)
    # The version's run may not have been inspected yet.
    inspector.inspect_version(offered_version)
    is_about_version = Q(version=offered_version) | Q(subject=offered_version.digest)
    finding_rows = list(
        Finding.objects.filter(is_about_version, tool=tool).values_list("code", "severity", "state")
    )
    facts = CatalogVersion(
        version=_released_version(offered_version),
        signature=offered_version.decoded(),
        review=_REVIEW_STATES[holds.review_state(offered_version)],
        alarms=[
            severity
            for code, severity, state in finding_rows
            if code != HELD and state != FindingState.ACCEPTED
        ],
        accepted={code for code, _, state in finding_rows if state == FindingState.ACCEPTED},
        is_older=offered_version.label_key < released_row.label_key,
    )
    return freshness.decide(
        released, released_row.decoded(), facts, policy.with_defaults(tool.endpoint.policy)
    )


def _released_version(version: ToolVersion) -> ReleasedVersion:
    return ReleasedVersion(ordinal=version.ordinal, label=version.label, digest=version.digest)
