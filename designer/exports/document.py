"""The structure of a release document. Pure: reading one needs no vendor and no database."""

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from catalog.rules import retries
from catalog.rules.retries import RetryPolicy
from core.canonical_json import canonical
from core.content_cache import ContentCache
from designer.signatures.effective import Effective
from designer.signatures.words import Words

SCHEMA = "pegboard.release/1"


class ReleasedAgent(msgspec.Struct, frozen=True, kw_only=True):
    slug: str
    name: str
    description: str


class ReleasedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version of a tool. `digest` is that of the vendor's document, as the catalog computed it."""

    ordinal: int
    label: str
    digest: str


class ReleasedConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that was chosen. Its values are the preset of a hidden input."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"


class ReleasedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool, or a vendor's prompt or resource, by the `kind` of its signature.

    id: the catalog's. tool_id: the vendor's. tuning: the changed texts by their source.
    retry: None is the default policy, as in releases from before policies could be set.
    mode: as in `designer.models.Pin`. configuration: None if none was chosen.
    """

    id: int
    tool_id: str
    vendor: str
    endpoint: str
    protocol: str
    version: ReleasedVersion
    signature: Effective
    tuning: Mapping[str, Words]
    retry: RetryPolicy | None = None
    mode: Literal["cached", "fresh"] = "cached"
    configuration: ReleasedConfiguration | None = None

    @property
    def follows_vendor(self) -> bool:
        return self.mode == "fresh"

    @property
    def retry_policy(self) -> RetryPolicy:
        return self.retry or retries.DEFAULT


class ReleasedReference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference in a procedure. `line` counts from 1 in `text`. `name` is that of a tool or a transfer;
    `member` is the name of an input, an output or an item."""

    line: int
    kind: str
    name: str = ""
    member: str = ""


class ReleasedProcedure(msgspec.Struct, frozen=True, kw_only=True):
    """A procedure. `text` is the markdown that a model reads, with the names of this release."""

    slug: str
    title: str
    text: str
    references: tuple[ReleasedReference, ...] = ()


class ReleasedTransfer(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer to the sub-agent whose slug is `agent`. Models see it as a tool without inputs."""

    agent: str
    name: str
    description: str


class ReleasedSubAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sub-agent. `id` is Pegboard's, `parent` the slug of the agent above; `context` are prompts and
    resources."""

    id: int
    slug: str
    name: str
    description: str
    parent: str
    # Written even when they are empty, as every release has them.
    tools: tuple[ReleasedTool, ...] = msgspec.field(default_factory=lambda: ())
    procedures: tuple[ReleasedProcedure, ...] = msgspec.field(default_factory=lambda: ())
    transfers: tuple[ReleasedTransfer, ...] = msgspec.field(default_factory=lambda: ())
    # Left out when it is empty, as in releases from before there were prompts and resources.
    context: tuple[ReleasedTool, ...] = ()


class ReleaseDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent and its sub-agents. `agents` contains each sub-agent after its parent."""

    schema: str
    agent: ReleasedAgent
    number: int
    tools: tuple[ReleasedTool, ...]
    # Written even when it is empty, as every release with this member has it. A factory's default is not
    # omitted.
    procedures: tuple[ReleasedProcedure, ...] = msgspec.field(default_factory=lambda: ())
    # Left out when they are empty, as in releases from before there were sub-agents, prompts and resources.
    transfers: tuple[ReleasedTransfer, ...] = ()
    agents: tuple[ReleasedSubAgent, ...] = ()
    context: tuple[ReleasedTool, ...] = ()

    @property
    def nodes(self) -> tuple[ReleasedSubAgent, ...]:
        """Return all agents of the tree. The first is the agent itself, which has no `parent` and no `id`."""
        root = ReleasedSubAgent(
            id=0,
            slug=self.agent.slug,
            name=self.agent.name,
            description=self.agent.description,
            parent="",
            tools=self.tools,
            procedures=self.procedures,
            transfers=self.transfers,
            context=self.context,
        )
        return (root, *self.agents)

    @property
    def is_empty(self) -> bool:
        """Return whether no agent of the tree has tools, procedures or context."""
        return not any(node.tools or node.procedures or node.context for node in self.nodes)

    @property
    def all_tools(self) -> list[ReleasedTool]:
        return [tool for node in self.nodes for tool in node.tools]

    @property
    def all_items(self) -> list[ReleasedTool]:
        """Return the tools, prompts and resources of vendors."""
        return [item for node in self.nodes for item in (*node.tools, *node.context)]

    def for_agent(self, slug: str) -> "ReleaseDocument | None":
        """Return the part of one agent as a release document; "" is the published agent. None if there is
        no such agent."""
        node = next((node for node in self.nodes if node.slug == slug), None) if slug else self.nodes[0]
        if node is None:
            return None
        return ReleaseDocument(
            schema=self.schema,
            agent=ReleasedAgent(slug=node.slug, name=node.name, description=node.description),
            number=self.number,
            tools=node.tools,
            procedures=node.procedures,
            transfers=node.transfers,
            context=node.context,
        )


_decoder = msgspec.json.Decoder(ReleaseDocument)
# The last documents that were read. Of a cached one, comparisons and tokens of its tools are cached as well.
_documents: ContentCache[ReleaseDocument] = ContentCache(size=8, max_bytes=16 * 1024 * 1024)
MAX_CACHED_LENGTH = 300_000


def encode(release: ReleaseDocument) -> bytes:
    return canonical(release)


def decode(document: str | bytes) -> ReleaseDocument:
    if len(document) > MAX_CACHED_LENGTH:
        return _decoder.decode(document)
    text = document.encode() if isinstance(document, str) else document
    key = hashlib.sha256(text).digest()
    return _documents.get(key, lambda: _decoder.decode(text), byte_count=4 * len(text))


def digest(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()
