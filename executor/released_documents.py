"""Releases in this process's memory, decoded once: what a digest names never changes.

Which release a channel or a number leads to does change, and who may reach it, so both are asked of the
database each time (designer/releases/publishing.py).
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
# Characters of all documents together; decoded, and with what follows from it, one takes a few times as much.
MAX_CHARACTERS = 32 * 1024 * 1024


class _Shown(NamedTuple):
    """One agent of a release, with its tools and its prompts and resources by name."""

    document: ReleaseDocument
    tools: dict[str, ReleasedTool]
    context: dict[str, ReleasedTool]


class SealedRelease:
    """What models are shown of one release, by agent of the tree, and their tools by name."""

    def __init__(self, text: str) -> None:
        self.size = len(text)
        self.document = release_document.decode(text)
        self._derived: dict[Hashable, Any] = {}
        self._shown: dict[str, _Shown] = {}

    def at(self, sub_agent: str) -> ReleaseDocument | None:
        found = self._at(sub_agent)
        return found.document if found else None

    def tool(self, name: str, sub_agent: str) -> ReleasedTool | None:
        found = self._at(sub_agent)
        return found.tools.get(name) if found else None

    def context_item(self, name: str, sub_agent: str) -> ReleasedTool | None:
        """Return the prompt or resource of this name."""
        found = self._at(sub_agent)
        return found.context.get(name) if found else None

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` makes of the release, which is the same each time. It goes when the release goes, so
        that one bound holds both. What it raises is not remembered.

        `key` names the release's primary key where that matters: a digest does not say which agent of one
        slug published it, when another one was removed before.
        """
        if key not in self._derived:
            self._derived[key] = make()
        found: T = self._derived[key]
        return found

    def _at(self, sub_agent: str) -> "_Shown | None":
        # A name that leads nowhere is not remembered: callers may ask for any.
        if sub_agent not in self._shown and (of_one := self.document.at(sub_agent)):
            shows = transfers.shown(of_one)
            self._shown[sub_agent] = _Shown(
                shows,
                {tool.signature.name: tool for tool in shows.tools},
                {item.signature.name: item for item in shows.context},
            )
        return self._shown.get(sub_agent)


_lock = threading.Lock()
_kept: OrderedDict[str, SealedRelease] = OrderedDict()
_derived: dict[int, dict[Hashable, Any]] = {}


def sealed(release: Release) -> SealedRelease:
    with _lock:
        if found := _kept.get(release.digest):
            _kept.move_to_end(release.digest)
            return found
    found = SealedRelease(release.document)
    with _lock:
        _kept[release.digest] = found
        # The one that is asked for stays, however large it is.
        while len(_kept) > 1 and sum(each.size for each in _kept.values()) > MAX_CHARACTERS:
            _kept.popitem(last=False)
    return found


def derived(tool: Effective, key: Hashable, make: Callable[[], T]) -> T:
    """Return what `make` derives from a tool, stored under `key` for as long as the tool is in memory."""
    by_key = _derived.get(id(tool))
    if by_key is None:
        by_key = _derived[id(tool)] = {}
        # Before another tool can get its number.
        weakref.finalize(tool, _derived.pop, id(tool), None).atexit = False
    if key not in by_key:
        by_key[key] = make()
    found: T = by_key[key]
    return found


def wires(tool: Effective, format_: str) -> list[Wire]:
    """As `exports.wires` has it; kept for as long as the tool is."""
    return derived(tool, ("wires", format_), lambda: exports.wires(tool, format_))
