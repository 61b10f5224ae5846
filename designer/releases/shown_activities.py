"""Write into an export which activity runs for each tool in an environment, if the format can express it.

An export is written once, and bindings may change at any time, so this happens when it is read.
"""

import hashlib
from typing import Any

import msgspec

from core.content_cache import ContentCache
from core.errors import DomainError
from core.outbound.errors import printable
from designer.environments import bound_tools
from designer.environments.bound_tools import Subject
from designer.exports.base import Format
from designer.exports.parts import tools_in, value_at
from designer.models import CallEnvironment, Release
from designer.releases import publishing

# The tools of an agent of a release, by name. A release never changes.
_SUBJECTS: ContentCache[dict[str, Subject]] = ContentCache(size=50)


def with_activities(
    release: Release,
    format_: Format,
    body: bytes,
    place: CallEnvironment | None,
    *,
    sub_agent: str = "",
    tool: str = "",
) -> bytes:
    """Return the export, or that of one `tool`, with the activity of each tool. Raises DomainError if an
    activity does not exist.
    """
    if format_.resolve is None or format_.places is None:
        return body
    key = f"{release.pk} {release.digest} {sub_agent}".encode()
    subjects = _SUBJECTS.get(
        key,
        lambda: {
            tool.signature.name: Subject.of_released(tool)
            for tool in publishing.part_of(release, sub_agent).tools
        },
    )
    if tool:
        subjects = {name: subject for name, subject in subjects.items() if name == tool}
    resolutions = bound_tools.resolve_all(place, list(subjects.values()), agent=release.agent_id)
    activities = {}
    for name, subject in subjects.items():
        if fault := resolutions[subject].fault:
            reason = str(fault.message)
            message = f"“{printable(name, 64)}”: {reason}"
            raise DomainError(fault.code, message, fields={name: reason}, status=409)
        activities[name] = resolutions[subject].activity_shown_to_model(name)
    if all(name == activity for name, activity in activities.items()):
        return body
    document: Any = msgspec.json.decode(body)
    for branch in [document] if tool else tools_in(document, format_.places):
        name = value_at(branch, format_.places.name)
        if name in activities:
            format_.resolve(branch, activities[name])
    return msgspec.json.encode(document)


def etag_with_activities(published_etag: str, body: bytes, composed: bytes) -> str:
    """Return the ETag of the composed export, derived from that of the published one."""
    return (
        published_etag
        if composed == body
        else f"{published_etag}.{hashlib.sha256(composed).hexdigest()[:16]}"
    )
