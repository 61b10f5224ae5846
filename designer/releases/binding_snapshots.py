"""Reads which activity version runs for each tool of a release document, for the release's record."""

from typing import Any

from catalog.models import ActivityVersion
from designer.environments import bound_tools
from designer.environments.bound_tools import Subject
from designer.exports import transfers
from designer.exports.document import ReleaseDocument
from designer.models import Release
from designer.releases import recorded_bindings
from designer.releases.recorded_bindings import BindingDifference


def list_moved_bindings(
    agent: int, release: Release | None, document: ReleaseDocument
) -> list[BindingDifference]:
    """Return how the bindings of the document's tools differ from those that the release recorded."""
    if release is None or not release.bindings:
        return []
    return recorded_bindings.compare(release.bindings, read_bindings(agent, document))


def read_bindings(agent: int, document: ReleaseDocument, *, records_names: bool = False) -> dict[str, Any]:
    """Return the environment and, for each tool of the agent's document, the activity version that runs now.

    `records_names`: an activity that runs by its name keeps this version from now on.
    """
    place = bound_tools.default_place(agent)
    tools = [
        (node.slug, tool)
        for node in document.nodes
        for tool in node.tools
        if tool.signature.kind != transfers.KIND
    ]
    resolutions = bound_tools.resolve_all(
        place, [Subject.of_released(tool) for _, tool in tools], agent=agent
    )
    if records_names:
        bound_tools.record_named(agent, resolutions)
    keys = {resolution.version for resolution in resolutions.values() if resolution.version}
    rows = ActivityVersion.objects.select_related("activity").in_bulk(keys) if keys else {}
    recorded = []
    for slug, tool in tools:
        resolution = resolutions[Subject.of_released(tool)]
        version = rows.get(resolution.version or 0)
        recorded.append(
            {
                "agent": slug,
                "tool": tool.signature.name,
                "tool_id": tool.id,
                "runs": resolution.runs,
                "activity": version.activity_id if version else None,
                "activity_name": version.activity.name if version else "",
                "activity_version": version.number if version else None,
                "digest": version.digest if version else "",
            }
        )
    return {"environment": place.name if place else "", "tools": recorded}
