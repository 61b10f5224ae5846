"""Paged lists: cursors that are safe to send back, and a guard against endless lists."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from core.outbound.errors import ProtocolViolationError, printable
from core.strict_json import PartialDocument
from protocols.list_pages import Ending, Item, ItemPage, Note, RejectedItem, UnreadableItemError

# It is part of an address, which servers limit to about 8 kB.
MAX_CURSOR_LENGTH = 2048
MAX_TOOLS_PER_REPLY = 50_000
_CURSOR = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{0,{MAX_CURSOR_LENGTH}}}")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


# A vendor may build its pages before it removes tools that the credential may not see.
MAX_PAGES_WITHOUT_A_NEW_TOOL = 20


class PageGuard:
    """Stops a list that returns to an earlier page, continues without new tools, or exceeds `limit` tools.

    Every paged list is checked, so no protocol needs a guard of its own. remedy: a sentence for users about a
    list over the limit.
    """

    def __init__(self, limit: float = math.inf, remedy: str = "") -> None:
        self.number = 0
        self._limit = limit
        self._remedy = remedy
        self._tool_count = 0
        self._pages_without_a_new_tool = 0
        self._page_by_cursor: dict[str, int] = {}

    def check(self, page: ItemPage, *, tool_count: int) -> None:
        """Check a page. tool_count: the number of different tools on this and earlier pages.

        Raises ProtocolViolationError: TOO_MANY_TOOLS, CURSOR_LOOP or NO_PROGRESS.
        """
        self.number += 1
        self._pages_without_a_new_tool = (
            0 if tool_count > self._tool_count else self._pages_without_a_new_tool + 1
        )
        self._tool_count = tool_count
        if tool_count > self._limit:
            raise ProtocolViolationError(
                "TOO_MANY_TOOLS",
                f"The list contains more than {self._limit:,} tools. {self._remedy}".rstrip(),
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
                f"{MAX_PAGES_WITHOUT_A_NEW_TOOL} pages in a row, up to page {self.number}, contained no new "
                "tool, but the list continues.",
            )
        self._page_by_cursor[page.next] = self.number + 1


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An unreadable entry of a list. number: its position, from 1."""

    entry: Any
    number: int
    error: UnreadableItemError

    def as_rejected_item(self, read_id: Callable[[dict[str, Any]], str]) -> RejectedItem:
        """Return the entry under the id of its tool, so that a known tool is not withdrawn.

        read_id: returns the id, or raises UnreadableItemError.
        """
        try:
            tool = read_id(self.entry) if isinstance(self.entry, dict) else f"#{self.number}"
        except UnreadableItemError:
            tool = f"#{self.number}"
        return RejectedItem(tool, self.error.code, self.error.reason)


def sort_entries(
    document: PartialDocument, entries: Sequence[Any], read_item: Callable[[Any], Item]
) -> tuple[list[Item], list[RefusedEntry]]:
    """Return the items of one reply and its unreadable entries, which do not affect the others.

    Raises ProtocolViolationError for too many entries.
    """
    items: list[Item] = []
    refused: list[RefusedEntry] = []
    for number, entry in enumerate(check_item_count(entries), start=1):
        try:
            if problem := document.problem_in(entry):
                raise UnreadableItemError(problem[0], f"The item contains {problem[1]}.")
            items.append(read_item(entry))
        except UnreadableItemError as error:
            refused.append(RefusedEntry(entry, number, error))
    return items, refused


def note_on_ending(ending: Ending) -> Note | None:
    """Return the note on a list that ended without the sign of its protocol, or None."""
    if ending is Ending.SIGN:
        return None
    reason = {
        Ending.REPEATED: "For the next page the vendor repeated an earlier one",
        Ending.REFUSED: "For the next page the vendor refused its own cursor",
    }[ending]
    message = f"{reason}. The list may be incomplete, so tools that it lacks were not withdrawn."
    return Note("LIST_END_UNKNOWN", message)


def check_item_count(entries: Sequence[Any]) -> Sequence[Any]:
    """Return the entries of one reply unchanged. Raises ProtocolViolationError for too many."""
    if len(entries) > MAX_TOOLS_PER_REPLY:
        raise ProtocolViolationError(
            "TOO_MANY_TOOLS",
            f"One reply lists more than {MAX_TOOLS_PER_REPLY:,} tools; that is the limit. "
            "Ask the vendor to list them on pages.",
        )
    return entries


def cursor(value: object, member: str) -> str:
    """Return `value` if it is a valid cursor. Raises ProtocolViolationError, which names `member`."""
    if isinstance(value, str) and _CURSOR.fullmatch(value):
        return value
    raise ProtocolViolationError(
        "BAD_CURSOR",
        f"“{member}” is not a cursor: it must be text of at most {MAX_CURSOR_LENGTH:,} characters, "
        "none of them a control character.",
    )


def cursor_of_url(value: str, parameter: str, root: str, member: str) -> str:
    # Some vendors send the URL of the next page as its cursor. It must have the origin of the endpoint.
    if not _ABSOLUTE.match(value):
        return value
    try:
        url = urlsplit(value)
        is_foreign = _origin_of(url) != _origin_of(urlsplit(root))
    except ValueError:
        return cursor(None, member)
    if is_foreign:
        host = printable(url.netloc.rpartition("@")[2]) or f"{url.scheme}:"
        raise ProtocolViolationError(
            "FOREIGN_NEXT",
            f"The list continues at {host}. Pegboard does not follow a list to another server.",
        )
    return cursor(parse_qs(url.query).get(parameter, [None])[0], member)


def _origin_of(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
