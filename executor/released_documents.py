"""Releases in this process's memory, decoded once: what a digest names never changes.

Which release a channel or a number leads to does change, and who may reach it, so both are asked of the
database each time (designer/releases/publishing.py).
"""

import threading
from collections import OrderedDict

from designer import exports
from designer.exports import document as release_document
from designer.exports import transfers
from designer.exports.document import ReleaseDocument, ReleasedTool
from designer.exports.wire import Wire
from designer.models import Release
from designer.signatures.effective import Effective

# Characters of all documents together; decoded, one takes a few times as much.
MAX_CHARACTERS = 32 * 1024 * 1024
MAX_WIRES = 4_000


class SealedRelease:
    """What models are shown of one release, by agent of the tree, and their tools by name."""

    def __init__(self, text: str) -> None:
        self.size = len(text)
        self._document = release_document.decode(text)
        self._shown: dict[str, tuple[ReleaseDocument, dict[str, ReleasedTool]]] = {}

    def at(self, sub_agent: str) -> ReleaseDocument | None:
        found = self._at(sub_agent)
        return found[0] if found else None

    def tool(self, name: str, sub_agent: str) -> ReleasedTool | None:
        found = self._at(sub_agent)
        return found[1].get(name) if found else None

    def _at(self, sub_agent: str) -> tuple[ReleaseDocument, dict[str, ReleasedTool]] | None:
        # A name that leads nowhere is not remembered: callers may ask for any.
        if sub_agent not in self._shown and (of_one := self._document.at(sub_agent)):
            shows = transfers.shown(of_one)
            self._shown[sub_agent] = shows, {tool.signature.name: tool for tool in shows.tools}
        return self._shown.get(sub_agent)


_lock = threading.Lock()
_kept: OrderedDict[str, SealedRelease] = OrderedDict()
_wires: dict[tuple[int, str], tuple[Effective, list[Wire]]] = {}


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


def wires(tool: Effective, format_: str) -> list[Wire]:
    """As `exports.wires` has it."""
    found = _wires.get((id(tool), format_))
    if found is None:
        if len(_wires) >= MAX_WIRES:
            _wires.clear()
        # The tool is kept beside them, so that no other one gets its number meanwhile.
        found = _wires[id(tool), format_] = tool, exports.wires(tool, format_)
    return found[1]
