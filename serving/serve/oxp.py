"""Releases for the server of OXP, whose ids consist of a toolkit and a tool, and whose versions have three
numbers.
"""

from designer.exports import oxp
from designer.releases import effective_versions
from serving.serve.base import Operations
from serving.serve.versions import Form, VersionedRelease


def open_release(operations: Operations) -> VersionedRelease:
    return VersionedRelease(operations, FORM)


FORM = Form(
    oxp.FORMAT.name,
    lambda version: (version.dotted_name, version.semver),
    effective_versions.versions_by_dotted_name,
)
