"""Releases for the server of OXP, whose ids consist of a toolkit and a tool, and whose versions have three
numbers.
"""

from collections.abc import Iterable

from designer.exports import oxp
from designer.models import EffectiveVersion, Release
from designer.releases import effective_versions
from serving.serve.versions import VersionedRelease


class OXPRelease(VersionedRelease):
    format_name = oxp.FORMAT.name

    @staticmethod
    def name_of(version: EffectiveVersion) -> tuple[str, str]:
        return version.dotted_name, version.semver

    @staticmethod
    def find(release: Release, node: int, tool_id: str, label: str) -> Iterable[EffectiveVersion]:
        return effective_versions.versions_by_dotted_name(release, node, tool_id, label)
