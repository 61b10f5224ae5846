"""Number effective signatures for clients that know versions of a tool. Pure."""

import hashlib
from collections.abc import Container
from itertools import count
from typing import NamedTuple
from uuid import UUID, uuid5

import protocols
from catalog.rules import diff
from core.canonical_json import canonical
from core.content_cache import ContentCache
from core.content_cache import digest as content_digest
from designer.exports import a2t, base, oxp, transfers
from designer.exports.document import ReleasedAgent, ReleaseDocument, ReleasedTool
from protocols.list_pages import UnreadableItemError

# The protocols whose clients know versions.
_FORMATS = (a2t.FORMAT, oxp.FORMAT)
# Each view of a draft numbers the same changed tools.
_change_cache: ContentCache[list[diff.Change]] = ContentCache(size=4_000)
_FIRST = "1.0.0"


class NumberedToolKey(NamedTuple):
    """Identifies a tool of one agent of a tree under any name: by the agent and the tool, or for a transfer
    by 0 and the sub-agent.
    """

    node: int
    tool: int
    child: int = 0


class Number(NamedTuple):
    """The number of an effective version: `designer.models.EffectiveVersion`."""

    uuid: UUID
    number: int
    dotted_name: str
    semver: str


def tools_of_document(document: ReleaseDocument, root: int) -> dict[NumberedToolKey, ReleasedTool]:
    """Return all tools that the agents of a release show. `root` is the agent that published it."""
    pks = {node.slug: node.id or root for node in document.nodes}
    return {
        key_of(tool, node=pks[node.slug], pks=pks): tool
        for node in document.nodes
        if (agent_document := document.for_agent(node.slug))
        for tool in transfers.with_transfers_as_tools(agent_document).tools
    }


def key_of(tool: ReleasedTool, *, node: int, pks: dict[str, int]) -> NumberedToolKey:
    if tool.signature.kind == transfers.KIND:
        return NumberedToolKey(node, 0, pks[tool.tool_id])
    return NumberedToolKey(node, tool.id)


def digest_of(tool: ReleasedTool) -> str:
    """Return a digest that differs for any other text and any other version of the vendor's."""
    return hashlib.sha256(canonical([tool.signature, tool.version.digest])).hexdigest()


def first_number(tool: ReleasedTool, *, uuids: Container[UUID], names: Container[str]) -> Number:
    """Return the number of a tool that is published for the first time.

    uuids, names: all that tools of the agent have ever had; names in lower case. The number gets others.
    """
    preferred_id, name = UUID(a2t.identity(tool)), oxp.wanted_id(tool)
    other_ids = (uuid5(preferred_id, f"{tool.id}/{times}") for times in count(1))
    other_names = (f"{name}_{times}" for times in count(2))
    return Number(
        preferred_id
        if preferred_id not in uuids
        else next(other for other in other_ids if other not in uuids),
        1,
        name if name.lower() not in names else next(n for n in other_names if n.lower() not in names),
        _FIRST,
    )


def next_number(last: Number, old: ReleasedTool, new: ReleasedTool) -> Number:
    """Return the next number of a tool that was last shown as `old`."""
    changes = _cached_changes(old, new)
    major, minor, patch = map(int, last.semver.split("."))
    if unsafe(changes):
        # A new id each time, which only this tool can get.
        return Number(uuid5(last.uuid, str(last.number)), 1, last.dotted_name, f"{major + 1}.0.0")
    only_adds = any(change.effect == "compatible" for change in changes)
    semver = f"{major}.{minor + 1}.0" if only_adds else f"{major}.{minor}.{patch + 1}"
    return Number(last.uuid, last.number + 1, last.dotted_name, semver)


def list_breaks(old: ReleasedTool, new: ReleasedTool) -> list[str]:
    """Return a sentence for each change that may break a caller of `old`."""
    return [change.sentence for change in unsafe(_cached_changes(old, new))]


def unsafe(changes: list[diff.Change]) -> list[diff.Change]:
    # Undecided changes count too: no user compares the versions before clients are notified.
    return [change for change in changes if change.effect not in diff.SAFE]


def _cached_changes(old: ReleasedTool, new: ReleasedTool) -> list[diff.Change]:
    """Return the changes that clients see, read as Pegboard itself would read them: in the first protocol in
    which one breaks them, else in the one that carries the most.
    """

    def compare_once() -> list[diff.Change]:
        changes: list[diff.Change] = []
        agent = ReleasedAgent(slug="", name="", description="")
        documents = [ReleaseDocument(schema="", agent=agent, number=1, tools=(tool,)) for tool in (old, new)]
        for format_ in _FORMATS:
            if not all(base.carried(document, format_.limits).is_whole for document in documents):
                continue
            reader = protocols.get(format_.name)()
            try:
                old_signature, new_signature = (
                    reader.read(format_.write(document)["items"][0])  # type: ignore[index]
                    for document in documents
                )
            except UnreadableItemError:
                # A client that reads as strictly has never been able to read it.
                continue
            changes = list(diff.compare(old_signature, new_signature).changes)
            if unsafe(changes):
                break
        return changes

    return _change_cache.get(content_digest((old, new)), compare_once)
