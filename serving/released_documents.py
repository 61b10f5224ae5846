"""A cache of decoded releases in this process: the content of a digest never changes.

The release of a channel or number, and who may read it, can change, so the database is queried each time
(designer/releases/publishing.py).
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from designer import exports
from designer.exports import document as release_document
from designer.exports import transfers
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.wire import Wire
from designer.models import Release
from designer.signatures.effective import Effective

T = TypeVar("T")
# Characters of all documents together. A decoded document with derived data takes several times as much
# memory.
MAX_CHARACTERS = 32 * 1024 * 1024


class _Entry(NamedTuple):
    """One agent of a release, with its tools and its prompts and resources by name."""

    document: ReleaseDocument
    tools: dict[str, ReleasedTool]
    context: dict[str, ReleasedTool]


class SealedRelease:
    """The documents of one release as models see them, by agent of the tree, with tools by name."""

    def __init__(self, text: str) -> None:
        self.size = len(text)
        self.document = release_document.decode(text)
        self._derived: dict[Hashable, Any] = {}
        self._entries: dict[str, _Entry] = {}

    def visible_document(self, sub_agent: str) -> ReleaseDocument | None:
        """Return what a model sees of the agent ("") or of one of its sub-agents, with transfers as tools.

        None if the release has no such sub-agent.
        """
        entry = self._find_entry(sub_agent)
        return entry.document if entry else None

    def tool(self, name: str, sub_agent: str) -> ReleasedTool | None:
        entry = self._find_entry(sub_agent)
        return entry.tools.get(name) if entry else None

    def context_item(self, name: str, sub_agent: str) -> ReleasedTool | None:
        """Return the prompt or resource of this name."""
        entry = self._find_entry(sub_agent)
        return entry.context.get(name) if entry else None

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached with the release under `key`, so that one limit covers both.
        Exceptions are not cached.

        `key` contains the release's primary key if that matters: two agents with one slug may have published
        the same digest, if one was removed before.
        """
        if key not in self._derived:
            self._derived[key] = make()
        value: T = self._derived[key]
        return value

    def _find_entry(self, sub_agent: str) -> "_Entry | None":
        # A name without a sub-agent is not cached: callers may send any name.
        if sub_agent not in self._entries and (agent_document := self.document.for_agent(sub_agent)):
            shown_document = transfers.with_transfers_as_tools(agent_document)
            self._entries[sub_agent] = _Entry(
                shown_document,
                {tool.signature.name: tool for tool in shown_document.tools},
                {item.signature.name: item for item in shown_document.context},
            )
        return self._entries.get(sub_agent)


_lock = threading.Lock()
_cache: OrderedDict[str, SealedRelease] = OrderedDict()
_derived: dict[int, dict[Hashable, Any]] = {}


def load_sealed_release(release: Release) -> SealedRelease:
    with _lock:
        if cached := _cache.get(release.digest):
            _cache.move_to_end(release.digest)
            return cached
    cached = SealedRelease(release.document)
    with _lock:
        _cache[release.digest] = cached
        # The requested release stays, however large it is.
        while len(_cache) > 1 and sum(entry.size for entry in _cache.values()) > MAX_CHARACTERS:
            _cache.popitem(last=False)
    return cached


def derive_from_tool(tool: Effective, key: Hashable, make: Callable[[], T]) -> T:
    """Return the result of `make`, cached with the tool under `key` as long as the tool is in memory."""
    by_key = _derived.get(id(tool))
    if by_key is None:
        by_key = _derived[id(tool)] = {}
        # Before another object can get the same id.
        weakref.finalize(tool, _derived.pop, id(tool), None).atexit = False
    if key not in by_key:
        by_key[key] = make()
    value: T = by_key[key]
    return value


def wires(tool: Effective, format_: str) -> list[Wire]:
    """Return `exports.wires`, cached as long as the tool."""
    return derive_from_tool(tool, ("wires", format_), lambda: exports.wires(tool, format_))
