"""Releases for protocols whose clients know versions: each tool in one version, with its older versions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from django.http import Http404
from msgspec import structs

from designer import exports
from designer.exports.base import carried
from designer.exports.document import ReleasedTool
from designer.exports.parts import tools_in
from designer.models import EffectiveVersion, Release
from designer.releases import effective_versions, numbering
from protocols.server import ServedTool, ToolCallRequest, ToolCallResult, ToolVersion
from serving.released_documents import sealed
from serving.serve.base import Operations


@dataclass(frozen=True)
class Form:
    """How a protocol writes the versions of tools.

    format_name: the export format of the documents.
    name: returns the id and the label of a version.
    find: returns the versions of the agent `node` up to a release, by id and label, the newest first.
    """

    format_name: str
    name: Callable[[EffectiveVersion], tuple[str, str]]
    find: Callable[[Release, int, str, str], Iterable[EffectiveVersion]]


@dataclass(frozen=True)
class AgentTools:
    """The tools of a release's agent in a format, in its order. `node`: the agent's primary key."""

    node: int
    tools: tuple[ServedTool, ...]


@dataclass(frozen=True)
class VersionedRelease:
    """`protocols.server.Release` for one client, by its `operations`."""

    operations: Operations
    form: Form

    @property
    def list_id(self) -> str:
        return f"{self.operations.release.digest} {self.operations.sub_agent}"

    def tools(self) -> Sequence[ServedTool]:
        return self._agent_tools.tools

    def versions(self, tool_id: str, label: str = "") -> list[ToolVersion]:
        rows = self.form.find(self.operations.release, self._agent_tools.node, tool_id, label)
        return [_version(row, self.form) for row in rows]

    def find_version(self, version: ToolVersion) -> tuple["VersionedRelease", ServedTool] | None:
        """Return this release if it contains the version, else the newest release before it that does."""
        row: EffectiveVersion = version.key
        if tool := _with(row, self.tools()):
            return self, tool
        release = effective_versions.release_with(row, self.operations.release)
        if release is None:
            return None
        nodes = sealed(release).document.nodes
        # A sub-agent may have had another slug then.
        slug = next(node.slug for node in nodes if (node.id or release.agent_id) == row.node)
        sub_agent = "" if row.node == release.agent_id else slug
        older = replace(self, operations=replace(self.operations, release=release, sub_agent=sub_agent))
        tool = _with(row, older.tools())
        return (older, tool) if tool else None

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        return self.operations.run_request(request, self.form.format_name)

    def report_unknown_tool(self, name: str) -> None:
        self.operations.note_unknown(name)

    @property
    def _agent_tools(self) -> AgentTools:
        """Raises Http404 if there is no such agent."""
        release, sub_agent = self.operations.release, self.operations.sub_agent
        key = ("shown", release.pk, sub_agent, self.form.format_name)
        return sealed(release).derived(key, lambda: _load_agent_tools(release, sub_agent, self.form))


def _load_agent_tools(release: Release, sub_agent: str, form: Form) -> AgentTools:
    document, format_ = sealed(release).document, exports.get(form.format_name)
    agent = document.for_agent(sub_agent)
    if agent is None:
        raise Http404
    pks = {node.slug: node.id or release.agent_id for node in document.nodes}
    node = pks[agent.agent.slug]
    fitting = carried(agent, format_.limits).fitting
    keys = [numbering.key_of(tool, node=node, pks=pks) for tool in fitting.tools]
    rows = effective_versions.versions_of_tools(release, node, zip(keys, fitting.tools, strict=True))
    versions = [_version(rows[key], form) for key in keys]
    tools = tuple(
        _numbered(tool, version, form) for tool, version in zip(fitting.tools, versions, strict=True)
    )
    document_text = format_.write(structs.replace(fitting, tools=tools))
    documents = tools_in(document_text, format_.places) if format_.places else []
    return AgentTools(
        node,
        tuple(
            ServedTool(version, tool.signature.name, document)
            for version, tool, document in zip(versions, tools, documents, strict=True)
        ),
    )


def _version(row: EffectiveVersion, form: Form) -> ToolVersion:
    return ToolVersion(*form.name(row), row)


def _numbered(tool: ReleasedTool, version: ToolVersion, form: Form) -> ReleasedTool:
    # With our ids and versions, which the format writes like those of a vendor with the same rules.
    return structs.replace(
        tool,
        tool_id=version.tool_id,
        protocol=form.format_name,
        version=structs.replace(tool.version, label=version.label),
    )


def _with(row: EffectiveVersion, tools: Iterable[ServedTool]) -> ServedTool | None:
    return next((tool for tool in tools if tool.version.key.pk == row.pk), None)
