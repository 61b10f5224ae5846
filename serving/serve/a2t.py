"""Releases for the server of A2T, whose ids are UUIDs and whose versions are numbers."""

from collections.abc import Iterable
from uuid import UUID

from designer.exports import a2t
from designer.models import EffectiveVersion, Release
from designer.releases import effective_versions
from serving.serve.versions import VersionedRelease


class A2TRelease(VersionedRelease):
    format_name = a2t.FORMAT.name

    @staticmethod
    def name_of(version: EffectiveVersion) -> tuple[str, str]:
        return str(version.uuid), str(version.number)

    @staticmethod
    def find(release: Release, node: int, tool_id: str, label: str) -> Iterable[EffectiveVersion]:
        try:
            rows = effective_versions.versions_by_uuid(release, node, UUID(tool_id))
        except ValueError:
            return []
        return [row for row in rows if label in ("", str(row.number))]
