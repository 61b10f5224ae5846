"""The tools of a release as clients that know versions see them: each in one version, and its older ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.http import Http404
from msgspec import structs

from core.errors import DomainError
from designer import exports
from designer.exports.base import carried
from designer.exports.document import ReleasedTool
from designer.models import EffectiveVersion, Release
from designer.releases import effective_versions, numbering
from executor.released_documents import sealed
from executor.serve import cursors
from executor.serve.base import Operations, Request


@dataclass(frozen=True)
class Form:
    """How a protocol writes a version: in an export format, by an id of its tool and a number."""

    format_name: str
    named: Callable[[EffectiveVersion], tuple[str, str]]


class Entry(NamedTuple):
    """A version of a tool, by which name a model knows the tool, and what the protocol lists of it."""

    version: EffectiveVersion
    name: str
    document: dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """What an agent of a release shows in a format, in its order. `node` is the agent's primary key."""

    node: int
    entries: tuple[Entry, ...]


def shown(operations: Operations, form: Form) -> Shown:
    """Without the tools that the format cannot carry. Raises Http404 where there is no such agent."""
    release, sub_agent = operations.release, operations.sub_agent
    key = ("shown", release.pk, sub_agent, form.format_name)
    return sealed(release).derived(key, lambda: _shown(release, sub_agent, form))


def _shown(release: Release, sub_agent: str, form: Form) -> Shown:
    document, format_ = sealed(release).document, exports.get(form.format_name)
    own = document.at(sub_agent)
    if own is None:
        raise Http404
    pks = {node.slug: node.id or release.agent_id for node in document.nodes}
    node = pks[own.agent.slug]
    fitting = carried(own, format_.limits).fitting
    keys = [numbering.key_of(tool, node=node, pks=pks) for tool in fitting.tools]
    held = effective_versions.held_by(release, node, zip(keys, fitting.tools, strict=True))
    tools = tuple(_numbered(tool, held[key], form) for key, tool in zip(keys, fitting.tools, strict=True))
    written: Any = format_.write(structs.replace(fitting, tools=tools))
    return Shown(
        node,
        tuple(
            Entry(held[key], tool.signature.name, item)
            for key, tool, item in zip(keys, tools, written["items"], strict=True)
        ),
    )


def _numbered(tool: ReleasedTool, version: EffectiveVersion, form: Form) -> ReleasedTool:
    # By our ids and versions, which the format writes as it writes those of a vendor who has the same rules.
    tool_id, label = form.named(version)
    return structs.replace(
        tool,
        tool_id=tool_id,
        protocol=form.format_name,
        version=structs.replace(tool.version, label=label),
    )


def through(operations: Operations, version: EffectiveVersion, form: Form) -> tuple[Operations, Entry] | None:
    """The version as it was released, and what runs it: this release if it holds it, else the newest before
    it. None where all that hold it are retired."""
    here = shown(operations, form)
    for entry in here.entries:
        if entry.version.pk == version.pk:
            return operations, entry
    release = effective_versions.release_with(version, operations.release)
    if release is None:
        return None
    nodes = sealed(release).document.nodes
    # A sub-agent may have been called otherwise then.
    slug = next(node.slug for node in nodes if (node.id or release.agent_id) == version.node)
    sub_agent = "" if version.node == release.agent_id else slug
    older = replace(operations, release=release, sub_agent=sub_agent)
    entries = shown(older, form).entries
    found = next((entry for entry in entries if entry.version.pk == version.pk), None)
    return (older, found) if found else None


def page(
    request: Request, rows: Sequence[Any], of: str, *, usual: int, most: int
) -> tuple[list[Any], int, str | None]:
    """One page by `pageLimit` and `pageCursor`: its rows, its limit, and the cursor of the next. `of` names
    the whole list: a cursor of another is refused."""
    asked = request.query.get("pageLimit", str(usual))
    if not (asked.isascii() and asked.isdigit() and 0 < len(asked) <= 6 and int(asked) > 0):
        raise DomainError("invalid_page_limit", "“pageLimit” is a whole number from 1 up.")
    limit, start = min(int(asked), most), 0
    if cursor := request.query.get("pageCursor", ""):
        found = cursors.read(cursor, of, len(rows))
        if found is None:
            raise DomainError("invalid_cursor", cursors.OF_NO_LIST)
        start = found
    end = start + limit
    after = cursors.written(of, end) if end < len(rows) else None
    return list(rows[start:end]), limit, after
