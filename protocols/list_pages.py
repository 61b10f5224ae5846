"""Pages of a vendor's list, the items on them, and the identity of an item."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal
from typing import Protocol as Interface

import msgspec

from core.canonical_json import digest
from core.outbound.reply import Reply
from protocols.signature import ContextKind


@dataclass(frozen=True, slots=True)
class Note:
    """A harmless deviation, shown on the page of the run.

    input: the path of the input that the note is about. proposal: the probably intended name.
    """

    code: str
    message: str
    input: str = ""
    proposal: str = ""


class WantedCredential(msgspec.Struct, frozen=True):
    """The credential that a vendor requires. kind: "" if Pegboard has no such kind. name: of the header or
    query parameter. words: the description for users."""

    words: str
    kind: Literal["", "bearer", "basic", "header", "query"] = ""
    name: str = ""


class Item(msgspec.Struct, frozen=True):
    """A listed tool with its identity and digest, not yet decoded.

    label: the vendor's version label, "" if the protocol has none. label_key: the sort key of labels of a
    tool.
    digest: SHA-256 (hex) of the canonical document. Different digests may be different spellings of the same
    content; see `Protocol.content_digest`.
    document: None for a page that is unchanged since an earlier run.
    """

    tool_id: str
    label: str
    label_key: tuple[int, ...]
    digest: str
    document: dict[str, Any] | None = None
    notes: tuple[Note, ...] = ()


UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def identity(tool_id: str) -> str:
    """Return the id for comparison: the case of a UUID does not matter."""
    # The vendor's spelling is stored as well, because it is part of URLs and a server may be strict.
    return tool_id.lower() if UUID.fullmatch(tool_id) else tool_id


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """An unreadable item. tool: the vendor's id, or `#n` for the n-th item of its page."""

    tool: str
    code: str
    reason: str


class Ending(StrEnum):
    """The reason why a page is the last one. Only the sign of the protocol proves that the list is
    complete."""

    SIGN = "sign"
    REPEATED = "repeated"  # the vendor repeated an earlier page
    REFUSED = "refused"  # the vendor refused its own cursor


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One page of a list.

    next: the cursor of the next page, None on the last one, for the reason in `ending`.
    is_known: the last complete run read the same bytes, so every item is unchanged.
    older: older versions of the items, if the list contains them; `Protocol.versions` returns them, too.
    unread_kinds: kinds of items whose list could not be read; known items of these kinds stay.
    """

    items: Sequence[Item]
    rejected: Sequence[RejectedItem] = ()
    next: str | None = None
    notes: Sequence[Note] = ()
    cursor: str = ""
    etag: str = ""
    body_digest: str = ""
    is_known: bool = False
    older: Sequence[Item] = ()
    ending: Ending = Ending.SIGN
    unread_kinds: Collection[ContextKind] = ()


class KnownPages(Interface):
    """The pages of the last complete run, so that an unchanged page is not parsed again."""

    count: int

    def etag(self, cursor: str) -> str: ...

    def recall(self, cursor: str, reply: Reply) -> ItemPage | None:
        """Return the page of an earlier run if `reply` is a 304 or has the same bytes, otherwise None."""
        ...


class NoKnownPages:
    """No known pages: for the first run, and for lists that are not cached."""

    count = 0

    def etag(self, cursor: str) -> str:
        return ""

    def recall(self, cursor: str, reply: Reply) -> ItemPage | None:
        return None


def recall_all(known_pages: KnownPages, reply: Reply) -> list[ItemPage]:
    """Return all pages of the last run if `reply` is unchanged; none if a page is missing."""
    pages: list[ItemPage] = []
    cursor: str | None = ""
    while cursor is not None and len(pages) < known_pages.count:
        page = known_pages.recall(cursor, reply)
        if page is None:
            return []
        pages.append(page)
        cursor = page.next
    return pages if cursor is None else []


class UnreadableItemError(Exception):
    """An item cannot be stored in the catalog. Other items are not affected."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def digest_as_read(document: str, revision: int) -> str:
    """Return the digest of a version that a reader of this revision read again from a stored document."""
    return digest({"document": document, "revision": revision})


def is_digest_of(version: str, document: str, revision: int) -> bool:
    """Return whether the digest of a version belongs to the digest of a document, at this or an older
    revision."""
    later = range(2, revision + 1)
    return version == document or version in [digest_as_read(document, number) for number in later]
