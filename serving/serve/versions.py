"""Releases for protocols whose clients know versions: each tool in one version, with its older versions."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.http import Http404
from msgspec import structs

from designer import exports
from designer.exports.base import carried
from designer.exports.parts import tools_in
from designer.models import EffectiveVersion, Release
from designer.releases import effective_versions, numbering
from protocols.server import ServedTool, ServedVersion
from serving.released_documents import load_sealed_release
from serving.serve.base import ServedRelease


@dataclass(frozen=True)
class AgentTools:
    """The tools of a release's agent in a format, in its order. `node`: the agent's primary key."""

    node: int
    tools: tuple[ServedTool, ...]


class VersionedRelease(ServedRelease, ABC):
    """A release for clients of protocols with versions: `protocols.server.ServerRelease` for one client."""

    @staticmethod
    @abstractmethod
    def name_of(version: EffectiveVersion) -> tuple[str, str]:
        """Return the id and the label of a version, as the protocol names it."""

    @staticmethod
    @abstractmethod
    def find(release: Release, node: int, tool_id: str, label: str) -> Iterable[EffectiveVersion]:
        """Return the versions of the agent `node` up to a release, by id and label, the newest first."""

    def tools(self) -> Sequence[ServedTool]:
        return self._agent_tools.tools

    def versions(self, tool_id: str, label: str = "") -> list[ServedVersion]:
        rows = self.find(self.release, self._agent_tools.node, tool_id, label)
        return [self._served_version(row) for row in rows]

    def find_version(self, version: ServedVersion) -> tuple["VersionedRelease", ServedTool] | None:
        """Return this release if it contains the version, else the newest release before it that does."""
        row: EffectiveVersion = version.key
        if tool := _tool_of_version(row, self.tools()):
            return self, tool
        release = effective_versions.release_with(row, self.release)
        if release is None:
            return None
        nodes = load_sealed_release(release).document.nodes
        # A sub-agent may have had another slug then.
        slug = next(node.slug for node in nodes if (node.id or release.agent_id) == row.node)
        sub_agent = "" if row.node == release.agent_id else slug
        older = replace(self, release=release, sub_agent=sub_agent)
        tool = _tool_of_version(row, older.tools())
        return (older, tool) if tool else None

    @property
    def _agent_tools(self) -> AgentTools:
        """Return the tools of an agent. Raises Http404 if it does not exist."""
        key = ("shown", self.release.pk, self.sub_agent, self.format_name)
        return load_sealed_release(self.release).derived(key, self._load_agent_tools)

    def _load_agent_tools(self) -> AgentTools:
        document, format_ = load_sealed_release(self.release).document, exports.get(self.format_name)
        agent = document.for_agent(self.sub_agent)
        if agent is None:
            raise Http404
        pks = {node.slug: node.id or self.release.agent_id for node in document.nodes}
        node = pks[agent.agent.slug]
        fitting = carried(agent, format_.limits).fitting
        keys = [numbering.key_of(tool, node=node, pks=pks) for tool in fitting.tools]
        rows = effective_versions.versions_of_tools(self.release, node, zip(keys, fitting.tools, strict=True))
        versions = [self._served_version(rows[key]) for key in keys]
        # With our ids and versions, which the format writes like those of a vendor with the same rules.
        tools = tuple(
            structs.replace(
                tool,
                tool_id=version.tool_id,
                protocol=self.format_name,
                version=structs.replace(tool.version, label=version.label),
            )
            for tool, version in zip(fitting.tools, versions, strict=True)
        )
        document_text = format_.write(structs.replace(fitting, tools=tools))
        documents = tools_in(document_text, format_.places) if format_.places else []
        served_tools = (
            ServedTool(version, tool.signature.name, document)
            for version, tool, document in zip(versions, tools, documents, strict=True)
        )
        return AgentTools(node, tuple(served_tools))

    def _served_version(self, row: EffectiveVersion) -> ServedVersion:
        return ServedVersion(*self.name_of(row), row)


def _tool_of_version(row: EffectiveVersion, tools: Iterable[ServedTool]) -> ServedTool | None:
    return next((tool for tool in tools if tool.version.key.pk == row.pk), None)
