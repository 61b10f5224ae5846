"""How effective signatures are numbered for clients that know versions of a tool. Pure.

A change that lets every caller of the last version go on makes another version of the tool; any other change
makes another tool, where a protocol allows additions alone.
"""

import hashlib
from collections.abc import Container
from itertools import count
from typing import NamedTuple
from uuid import UUID, uuid5

import protocols
from catalog.rules import diff
from core.canonical_json import canonical
from designer.exports import a2t, base, oxp, transfers
from designer.exports.document import ReleasedAgent, ReleaseDocument, ReleasedTool
from protocols.base import UnreadableItemError

# The protocols whose clients know versions.
_FORMATS = (a2t.FORMAT, oxp.FORMAT)
_FIRST = "1.0.0"


class Key(NamedTuple):
    """A tool of one agent of a tree, whatever it is called: the agent and the tool, or for a transfer 0 and
    the sub-agent that it leads to."""

    node: int
    tool: int
    child: int = 0


class Number(NamedTuple):
    """As in `designer.models.EffectiveVersion`."""

    uuid: UUID
    number: int
    dotted_name: str
    semver: str


def shown(document: ReleaseDocument, root: int) -> dict[Key, ReleasedTool]:
    """All that the agents of a release show. `root` is the one that published it."""
    pks = {node.slug: node.id or root for node in document.nodes}
    return {
        key_of(tool, node=pks[node.slug], pks=pks): tool
        for node in document.nodes
        if (alone := document.at(node.slug))
        for tool in transfers.shown(alone).tools
    }


def key_of(tool: ReleasedTool, *, node: int, pks: dict[str, int]) -> Key:
    if tool.signature.kind == transfers.KIND:
        return Key(node, 0, pks[tool.tool_id])
    return Key(node, tool.id)


def digest_of(tool: ReleasedTool) -> str:
    """Another one for any other words, and for any other version of the vendor's."""
    return hashlib.sha256(canonical([tool.signature, tool.version.digest])).hexdigest()


def first(tool: ReleasedTool, *, uuids: Container[UUID], names: Container[str]) -> Number:
    """Of a tool that was never shown: by ids that no other tool of the agent has had, names in lower case."""
    wanted, name = UUID(a2t.identity(tool)), oxp.wanted_id(tool)
    others = (uuid5(wanted, f"{tool.id}/{times}") for times in count(1))
    numbered = (f"{name}_{times}" for times in count(2))
    return Number(
        wanted if wanted not in uuids else next(other for other in others if other not in uuids),
        1,
        name if name.lower() not in names else next(n for n in numbered if n.lower() not in names),
        _FIRST,
    )


def following(last: Number, old: ReleasedTool, new: ReleasedTool) -> Number:
    """Of a tool that was last shown as `old`."""
    changes = _changes(old, new)
    major, minor, patch = map(int, last.semver.split("."))
    if unsafe(changes):
        # One more id for each time, which only this tool can get.
        return Number(uuid5(last.uuid, str(last.number)), 1, last.dotted_name, f"{major + 1}.0.0")
    only_adds = any(change.effect == "compatible" for change in changes)
    semver = f"{major}.{minor + 1}.0" if only_adds else f"{major}.{minor}.{patch + 1}"
    return Number(last.uuid, last.number + 1, last.dotted_name, semver)


def breaks(old: ReleasedTool, new: ReleasedTool) -> list[str]:
    """A sentence for each change after which a caller of `old` may not go on."""
    return [change.sentence for change in unsafe(_changes(old, new))]


def unsafe(changes: list[diff.Change]) -> list[diff.Change]:
    # What cannot be decided counts among them: no user compares the two before clients are told.
    return [change for change in changes if change.effect not in diff.SAFE]


def _changes(old: ReleasedTool, new: ReleasedTool) -> list[diff.Change]:
    """What clients see change, read as Pegboard itself would read it: in the first protocol in which it
    breaks them, else in the one that carries the most."""
    found: list[diff.Change] = []
    for format_ in _FORMATS:
        alone = [_alone(tool) for tool in (old, new)]
        if not all(base.carried(each, format_.limits).is_whole for each in alone):
            continue
        reader = protocols.get(format_.name)()
        try:
            was, now = (reader.read(format_.write(each)["items"][0]) for each in alone)  # type: ignore[index]
        except UnreadableItemError:
            # A client that reads as strictly has never read it.
            continue
        found = list(diff.compare(was, now).changes)
        if unsafe(found):
            break
    return found


def _alone(tool: ReleasedTool) -> ReleaseDocument:
    agent = ReleasedAgent(slug="", name="", description="")
    return ReleaseDocument(schema="", agent=agent, number=1, tools=(tool,))
