"""Lists on pages: the cursor of the next page, made safe to send back, and a guard against endless lists."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from core.outbound.errors import ProtocolViolationError, printable
from core.strict_json import PartialDocument
from protocols.base import Ending, Item, Note, Page, UnreadableItemError

# It goes into an address, which servers take up to 8 kB of.
MAX_CURSOR_LENGTH = 2048
MAX_TOOLS_PER_REPLY = 50_000
_CURSOR = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{0,{MAX_CURSOR_LENGTH}}}")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


# A vendor may cut its pages before it leaves out what the credential may not see.
MAX_PAGES_WITHOUT_A_NEW_TOOL = 20


class PageGuard:
    """Stops a list that returns to an earlier page, goes on without anything new, or holds more than `most`.

    Every list of pages goes through one, so no protocol has to guard itself. `way_out` says how more can be
    read.
    """

    def __init__(self, most: float = math.inf, way_out: str = "") -> None:
        self.number = 0
        self._most = most
        self._way_out = way_out
        self._seen = 0
        self._pages_without_a_new_tool = 0
        self._page_by_cursor: dict[str, int] = {}

    def check(self, page: Page, *, seen: int) -> None:
        """After each page; `seen` counts the different tools that were listed so far.

        Raises ProtocolViolationError: TOO_MANY_TOOLS, CURSOR_LOOP or NO_PROGRESS.
        """
        self.number += 1
        self._pages_without_a_new_tool = 0 if seen > self._seen else self._pages_without_a_new_tool + 1
        self._seen = seen
        if seen > self._most:
            raise ProtocolViolationError(
                "TOO_MANY_TOOLS", f"The list holds more than {self._most:,} tools. {self._way_out}".rstrip()
            )
        if page.next is None:
            return
        if page.next in self._page_by_cursor:
            raise ProtocolViolationError(
                "CURSOR_LOOP",
                f"Page {self.number} points back to page {self._page_by_cursor[page.next]}, "
                "so the listing never ends.",
            )
        if self._pages_without_a_new_tool >= MAX_PAGES_WITHOUT_A_NEW_TOOL:
            raise ProtocolViolationError(
                "NO_PROGRESS",
                f"{MAX_PAGES_WITHOUT_A_NEW_TOOL} pages in a row, up to page {self.number}, brought no tool "
                "that was not listed before, yet more pages are to follow.",
            )
        self._page_by_cursor[page.next] = self.number + 1


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry of a list that is no item; `number` counts from 1."""

    entry: Any
    number: int
    error: UnreadableItemError


def sort_entries(
    document: PartialDocument, listed: Sequence[Any], read_item: Callable[[Any], Item]
) -> tuple[list[Item], list[RefusedEntry]]:
    """Return the items of one reply, and the entries that cannot be read: each costs only itself.

    Raises ProtocolViolationError for too many entries.
    """
    items: list[Item] = []
    refused: list[RefusedEntry] = []
    for number, entry in enumerate(counted(listed), start=1):
        try:
            if problem := document.problem_in(entry):
                raise UnreadableItemError(problem[0], f"The item holds {problem[1]}.")
            items.append(read_item(entry))
        except UnreadableItemError as error:
            refused.append(RefusedEntry(entry, number, error))
    return items, refused


def note_on_ending(ending: Ending) -> Note | None:
    """Return what to note of a list that did not end by the sign of its protocol."""
    if ending is Ending.SIGN:
        return None
    why = {
        Ending.REPEATED: "When asked for more, the vendor sent what it had sent before",
        Ending.REFUSED: "When asked for more, the vendor refused the cursor that it had sent",
    }[ending]
    message = f"{why}. The list may not be complete, so tools that are missing in it were not withdrawn."
    return Note("LIST_END_UNKNOWN", message)


def counted(listed: Sequence[Any]) -> Sequence[Any]:
    """`listed` as it is, unless one reply lists more than is taken: then nothing of it is looked at."""
    if len(listed) > MAX_TOOLS_PER_REPLY:
        raise ProtocolViolationError(
            "TOO_MANY_TOOLS",
            f"One reply lists more than {MAX_TOOLS_PER_REPLY:,} tools; that is the limit. "
            "Ask the vendor to list them on pages.",
        )
    return listed


def cursor(value: object, member: str) -> str:
    """`value` as a cursor. Raises ProtocolViolationError, in which `member` says where it stood."""
    if isinstance(value, str) and _CURSOR.fullmatch(value):
        return value
    raise ProtocolViolationError(
        "BAD_CURSOR",
        f"“{member}” is not a cursor: it must be text of at most {MAX_CURSOR_LENGTH:,} characters, "
        "none of them a control character.",
    )


def cursor_of_url(value: str, parameter: str, root: str, member: str) -> str:
    # Some vendors send the next page's URL for its cursor. Theirs is fine, another server's is not.
    if not _ABSOLUTE.match(value):
        return value
    try:
        url = urlsplit(value)
        is_foreign = _origin(url) != _origin(urlsplit(root))
    except ValueError:
        return cursor(None, member)
    if is_foreign:
        where = printable(url.netloc.rpartition("@")[2]) or f"{url.scheme}:"
        raise ProtocolViolationError(
            "FOREIGN_NEXT", f"The list goes on at {where}; other servers are not asked."
        )
    return cursor(parse_qs(url.query).get(parameter, [None])[0], member)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
