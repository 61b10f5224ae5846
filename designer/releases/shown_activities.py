"""What carries each tool out, written into an export of a format that says it, as an environment has it.

An export is written once, and what is bound may change at any time: so this is done when it is read.
"""

import hashlib
from typing import Any

import msgspec

from core.errors import DomainError
from core.outbound.errors import printable
from designer import environments
from designer.environments import Subject
from designer.exports import transfers
from designer.exports.base import Format
from designer.exports.document import ReleasedTool
from designer.exports.parts import at, tools_in
from designer.models import Place, Release
from designer.releases import publishing


def written(
    release: Release,
    format_: Format,
    body: bytes,
    place: Place | None,
    *,
    sub_agent: str = "",
    tool: str = "",
) -> bytes:
    """The export, or that of one `tool` of it, with what carries each tool out. Raises DomainError where that
    cannot be said: an activity that there is not."""
    if format_.resolve is None or format_.places is None:
        return body
    shown = transfers.shown(publishing.part_of(release, sub_agent)).tools
    tools = [each for each in shown if each.signature.kind != transfers.KIND]
    activities = _activities(release, place, [each for each in tools if tool in ("", each.signature.name)])
    if all(name == activity for name, activity in activities.items()):
        return body
    document: Any = msgspec.json.decode(body)
    for branch in [document] if tool else tools_in(document, format_.places):
        name = at(branch, format_.places.name)
        if name in activities:
            format_.resolve(branch, activities[name])
    return msgspec.json.encode(document)


def tag(published: str, body: bytes, composed: bytes) -> str:
    """The ETag of what is shown, by that of the export as it was published."""
    return published if composed == body else f"{published}.{hashlib.sha256(composed).hexdigest()[:16]}"


def _activities(release: Release, place: Place | None, tools: list[ReleasedTool]) -> dict[str, str]:
    subjects = [Subject.of(tool) for tool in tools]
    found = environments.resolve_all(place, subjects, agent=release.agent_id)
    shown = {}
    for tool in tools:
        name, resolution = tool.signature.name, found[Subject.of(tool)]
        if fault := resolution.fault:
            message = f"“{printable(name, 64)}”: {fault.message}"
            raise DomainError(fault.code, message, fields={name: fault.message}, status=409)
        shown[name] = resolution.shown_as(name)
    return shown
