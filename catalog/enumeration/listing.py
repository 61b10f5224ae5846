"""Reads one endpoint to the end and sorts every item: unchanged, new, changed, refused.

Nothing here writes to the catalog. New and changed tools go to the staging table chunk by chunk, so
memory stays flat however long the listing is. A listing that loops, never ends or changes while it is
read raises, and the catalog is left as it was.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from typing import Any

from django.utils import timezone
from msgspec import structs

from catalog import bounds
from catalog.enumeration import known_pages, store
from catalog.enumeration.assessing import assess_changes
from catalog.enumeration.current_tools import CurrentTool, read_current_tools
from catalog.enumeration.deadline import Deadline
from catalog.enumeration.kept_replies import Replies
from catalog.enumeration.known_pages import FirstPage, RememberedPages
from catalog.enumeration.staging import Harvest, Stage, StagedTool, staged_tool
from catalog.models import Finding, KnownPage, Rejection, Run, ToolVersion
from catalog.models.findings import Severity
from catalog.pictures.addresses import image_address
from catalog.rules.diff import compare
from core import canonical_json
from core.canonical_json import parse_document
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError, UnavailableError
from core.translatable import mark
from protocols import base, list_pages, signature
from protocols.base import Protocol
from protocols.list_pages import Ending, Item, ItemPage, Note, UnreadableItemError, identity
from protocols.paging import PageGuard, note_on_ending

# A list that changes while it is read gives no one moment. After so many tries it is left for later.
MAX_PASSES = 3
# Tools that are decoded and compared together: few enough that a long list never lies in memory as a whole.
CHUNK = 250
AT_ONCE = 25  # about 100 kB: less than a socket buffer, so that no write blocks

REST_CHANGED = Note(
    "REST_CHANGED",
    "The vendor changed what no model sees and no call needs. The newest document is stored; there is no new "
    "version.",
)

Progress = Callable[[int, int, int], None]
OpenSession = Callable[[], AbstractContextManager[base.Session]]


def read(
    run: Run,
    protocol: Protocol,
    open_session: OpenSession,
    replies: Replies,
    progress: Progress,
    *,
    ends: float = math.inf,
) -> Harvest:
    """Read the whole list of an endpoint. `progress` receives the numbers of pages, tools and refused tools.

    It resumes where the last enumeration stopped, as far as `replies` has stored it. A list that seems to
    change while
    it is read is read until two passes agree: tools appear twice, tools are missing, or its beginning has
    changed.
    Raises ProtocolError if the list cannot be read to its end, or not before `ends` on the monotonic clock.
    """
    reader = known_pages.reader_of(run.endpoint, protocol)
    remembered = RememberedPages(run.endpoint, reader)
    while len(run.passes) < MAX_PASSES:
        with open_session() as session, Stage() as stage:
            list_pass = _Pass(run, protocol, remembered, stage)
            list_session = session if protocol.lists_at_once else replies.over(session, reader)
            minutes = run.endpoint.max_minutes
            ends_by_limit = time.monotonic() + minutes * 60 - replies.seconds_before
            deadline = Deadline(minutes, ends_by_limit, ends, protocol.way_to_less)
            harvest = list_pass.read(list_session, deadline, progress)
            list_pass.look_again(session, replies)
            harvest.spool = stage.spool
        if not list_pass.is_doubtful:
            return harvest
        pass_digest = list_pass.digest_content()
        if pass_digest in run.passes[-1:]:
            return harvest
        store.add_pass(run, pass_digest)
    raise UnavailableError(
        "UNSTABLE",
        f"The list changed each time while it was read, {MAX_PASSES} times in a row. It is read again later.",
    )


def read_one(run: Run, protocol: Protocol, tool: int, item: Item) -> Harvest:
    """Assess one tool as in a complete list, without withdrawing any. The transaction has locked the tool,
    as for `merge`."""
    with Stage() as stage:
        list_pass = _Pass(run, protocol, RememberedPages(run.endpoint, ""), stage, only=tool)
        list_pass.take_alone(item)
        return list_pass.harvest


def _on_page(number: int, error: ProtocolError) -> str:
    return mark(f"Page {number}: {error.message}")


class _Pass:
    """One pass over the list. `seen` has the digest with which each tool was listed.

    The digest is "" on a remembered page, which has the catalog's, and for refused items.
    """

    def __init__(
        self, run: Run, protocol: Protocol, pages: RememberedPages, stage: Stage, only: int | None = None
    ) -> None:
        self.run = run
        self.only = only
        self.protocol = protocol
        self.known = pages
        self.stage = stage
        self.harvest = Harvest()
        self.seen: dict[str, str] = {}
        self.refused: dict[str, Rejection] = {}
        self.nameless = 0
        self.odd: set[str] = set()
        self.older: dict[str, list[tuple[str, str]]] = {}
        self.is_doubtful = False
        self.unread_kinds: set[str] = set()
        self.waiting: dict[str, Item] = {}
        self.staged: dict[str, str] = {}
        self.pages: list[KnownPage] = []
        self.first: ItemPage | None = None
        self.ending = Ending.SIGN
        # The reader has changed since then. Numbered versions stay as they were read, because one number with
        # two meanings would look like a broken promise.
        self.reads_again = run.endpoint.read_revision < protocol.revision
        self.understood_anew: set[str] = set()

    def read(self, session: base.Session, deadline: Deadline, progress: Progress) -> Harvest:
        guard = PageGuard(self.run.endpoint.max_tools, bounds.way_out("max_tools"))
        for number, page in enumerate(self._fetch_pages(session), start=1):
            self.first = self.first or page
            self._record_page(page, number)
            failpoint("page")
            progress(number, len(self.seen), len(self.refused))
            guard.check(page, tool_count=len(self.seen))
            if page.next is not None:
                deadline.check(number, len(self.seen))
            if len(self.waiting) >= CHUNK:
                self._stage_waiting()
        self._stage_waiting()
        failpoint("staged")
        self._conclude()
        return self.harvest

    def take_alone(self, item: Item) -> None:
        self._record_item(item)
        self._stage_waiting()
        self.harvest.rejections = list(self.refused.values())
        self._count(self.seen.keys() - self.refused.keys())

    def _fetch_pages(self, session: base.Session) -> Iterator[ItemPage]:
        try:
            yield from self.protocol.enumerate(session, self.known)
        except ProtocolError as exc:
            pages = self.harvest.pages
            if isinstance(exc, UnavailableError) and pages:
                last = self.run.endpoint.last_success_at
                previous_list = f"The list of {last:%-d %b, %H:%M} stays." if last else "Nothing was stored."
                read_pages = f"{pages} of ? pages were read."
                message = f"{read_pages} {_on_page(pages + 1, exc)} {previous_list}"
                raise UnavailableError("INCOMPLETE", message, retry_after=exc.retry_after) from exc
            if pages:
                exc.message = _on_page(pages + 1, exc)
            raise

    def look_again(self, session: base.Session, replies: Replies) -> None:
        """Read the first page again after the last page, to see whether the list has changed meanwhile."""
        if self.is_doubtful or self.protocol.lists_at_once or self.first is None:
            return
        # Without new tools nothing is compared. A resumed list is always compared, because it may have
        # changed since.
        if replies.used:
            message = "Continued from the replies that the previous run had read before it failed."
            self.harvest.note(Note("RESUMED", message))
        elif self.harvest.pages == 1 or self._is_as_remembered(self.harvest.known_pages):
            return
        pages = self.protocol.enumerate(session, FirstPage(self.first))
        again = next(pages)
        if isinstance(pages, Generator):
            pages.close()  # ends what it has begun with the vendor
        if again is self.first:
            return
        # Documents are compared where digests differ: a vendor may write each of them anew for each reading.
        # A remembered page has none; it is recognised by its bytes.
        now = timezone.now()
        items = {(item.tool_id, item.label): item for item in self.first.items}
        self.is_doubtful = items.keys() != {(item.tool_id, item.label) for item in again.items} or not all(
            item.digest == (earlier := items[item.tool_id, item.label]).digest
            or (item.document and earlier.document and self._content_digest(item.document, now))
            == self._content_digest(earlier.document or {}, now)
            for item in again.items
        )

    def digest_content(self) -> str:
        """Return a digest of the tools of this pass and of their content, for models and for calls."""
        # "" for a tool that stays as it is.
        digests = dict.fromkeys(self.seen, "")
        if self.staged:
            now = timezone.now()
            digests |= {
                identity(tool_id): self._content_digest(document, now)
                for tool_id, document in self.stage.documents()
            }
        return canonical_json.digest(sorted(digests.items()))

    @cached_property
    def current(self) -> dict[str, CurrentTool]:
        # Not read at all when every page is known from the last complete run.
        return read_current_tools(self.run.endpoint, self.only)

    def _record_page(self, page: ItemPage, number: int) -> None:
        self.harvest.pages = number
        if page.ending is not Ending.SIGN:  # of any of the vendor's lists
            self.ending = page.ending
        self.unread_kinds.update(page.unread_kinds)
        for note in page.notes:
            self.harvest.note(note)
        for rejected in page.rejected:
            name = rejected.tool
            if name.startswith("#"):
                self.nameless += 1
                name = f"{name} on page {number}"
            self._reject_item(name, rejected.code, rejected.reason)
        if page.is_known:
            # A page with the same bytes as last time is accepted without parsing its items.
            tools = {item.tool_id: "" for item in page.items}
            for tool in tools.keys() & self.seen.keys():
                del tools[tool]
                self._record_repeated_item(tool, self.current[tool].newest_digest)
            self.seen |= tools
        else:
            for item in page.items:
                self._record_item(item)
        for item in page.older:
            self.older.setdefault(identity(item.tool_id), []).append((item.label, item.digest))
        can_be_known = page.etag or page.body_digest
        if can_be_known and not (page.rejected or page.notes):
            self.pages.append(self.known.pages[page.cursor] if page.is_known else self._known_page(page))

    def _record_item(self, item: Item) -> None:
        tool = identity(item.tool_id)
        for note in item.notes:
            self.harvest.note(note)
            self.odd.add(tool)
        if tool in self.seen:
            self._record_repeated_item(tool, item.digest)
            return
        self.seen[tool] = item.digest
        current = self.current.get(tool)
        if (
            current
            and current.listed_digest not in (None, item.digest)
            and self._is_held(item.digest, current)
        ):
            self.harvest.as_version.add(current.pk)
            self._note_image(current.pk, item)
        if (
            current is None
            or (not self._is_held(item.digest, current) and tuple(current.label_key) <= item.label_key)
            or (self.reads_again and not item.label)
        ):
            self.waiting[tool] = item
        elif not self._is_held(item.digest, current):
            self._refuse_older(item, current)

    def _is_held(self, digest: str, current_tool: CurrentTool) -> bool:
        return current_tool.is_listed_as(digest, self.protocol.revision)

    def _record_repeated_item(self, tool: str, digest: str) -> None:
        """Note a tool that the list contains twice, and reject it if the two items differ."""
        self.odd.add(tool)
        if tool in self.refused:
            return
        seen_digest = self.seen[tool]
        earlier_digest = seen_digest or self.current[tool].newest_digest
        if any(
            list_pages.is_digest_of(*pair, self.protocol.revision)
            for pair in ((digest, earlier_digest), (earlier_digest, digest))
        ):
            # By mistake, or because the tool moved to a later page during the enumeration.
            self.is_doubtful = self.harvest.pages > 1
            self.harvest.note(Note("DUP_TOOL", f"The tool {tool} is listed twice, the same both times."))
        else:
            reason = "Two different tools were listed with this id, so neither was stored."
            self._reject_item(tool, "DUP_CONFLICT", reason)

    def _refuse_older(self, item: Item, current_tool: CurrentTool) -> None:
        reason = (
            f"The vendor now lists version {item.label}, but version {current_tool.label} was published "
            f"before. Version {current_tool.label} stays."
        )
        self._reject_item(item.tool_id, "VERSION_BACK", reason)
        self.harvest.findings.append(
            Finding(
                endpoint=self.run.endpoint,
                tool_id=current_tool.pk,
                run=self.run,
                code="VERSION_BACK",
                severity=Severity.MEDIUM,
                subject=f"{current_tool.label}>{item.label}:{item.digest}"[:100],
                message=reason,
            )
        )

    def _reject_item(self, name: str, code: str, reason: str) -> None:
        # Other tools with this id are refused too, with one message.
        tool = identity(name)
        self.seen.setdefault(tool, "")
        self.odd.add(tool)
        if tool not in self.refused:
            self.refused[tool] = Rejection(run=self.run, tool=name[:300], code=code, reason=reason)

    def _known_page(self, page: ItemPage) -> KnownPage:
        return KnownPage(
            endpoint=self.run.endpoint,
            reader=self.known.reader,
            cursor=page.cursor,
            next_cursor=page.next,
            etag=page.etag,
            body_digest=page.body_digest,
            tool_ids=[identity(item.tool_id) for item in page.items],
        )

    def _stage_waiting(self) -> None:
        """Decode the waiting tools. The database accepts some of them while the next ones are decoded."""
        # No statement stays open, because the vendor's next page may take long.
        as_it_was = self._without_new_version()
        waiting = [(tool, item) for tool, item in self.waiting.items() if tool not in as_it_was]
        self.waiting = {}
        changed: list[tuple[str, StagedTool]] = []
        for start in range(0, len(waiting), AT_ONCE):
            staged = list(self._decode_items(waiting[start : start + AT_ONCE]))
            changed += [(tool, row) for tool, row in staged if row.tool_pk is not None]
            self.staged |= {tool: row.tool_id for tool, row in staged}
            self.stage.put([row for _, row in staged])
        self.stage.settle()
        if changed:
            findings, assessed = assess_changes(self.run, self.protocol.promises, self.current, changed)
            self.harvest.findings += findings
            self.harvest.assessed |= assessed

    def _without_new_version(self) -> set[str]:
        """Return the waiting tools that are the same as their version, for models and for calls."""
        current = {
            self.current[tool].version: (tool, item)
            for tool, item in self.waiting.items()
            if tool in self.current and self.current[tool].label == item.label
        }
        if not current:
            return set()
        now = timezone.now()
        versions = ToolVersion.objects.filter(pk__in=current).values_list(
            *("pk", "raw", "signature", "first_seen_at", "tool_id", "tool__tool_id", "tool__listed__raw")
        )
        unchanged: set[str] = set()
        relisted: dict[int, Item] = {}
        for pk, raw, text, first_seen_at, tool_pk, tool_id, listed_raw in versions:
            tool, item = current[pk]
            document, version_document = item.document or {}, parse_document(raw)
            content_digest = self._content_digest(document, now)
            if not content_digest or content_digest != self._content_digest(version_document, first_seen_at):
                continue
            if self.reads_again and not item.label and self._means_otherwise(item, text):
                self.understood_anew.add(tool)
                continue
            unchanged.add(tool)
            if item.tool_id != tool_id:
                self.harvest.respelt[tool_pk] = item.tool_id
            whole_digest = self.protocol.whole_digest(document)
            if whole_digest == self.protocol.whole_digest(version_document):
                if listed_raw is not None:
                    self.harvest.as_version.add(tool_pk)
                    self._note_image(tool_pk, item)
            elif listed_raw is None or whole_digest != self.protocol.whole_digest(parse_document(listed_raw)):
                relisted[tool_pk] = item
                self._note_image(tool_pk, item)
                self.harvest.note(REST_CHANGED)
        self.stage.put_relisted(relisted)
        self.harvest.relisted |= relisted.keys()
        return unchanged

    def _note_image(self, tool_pk: int, item: Item) -> None:
        # A document that cannot be read names none, and is reported where it is decoded.
        with suppress(UnreadableItemError):
            self.harvest.images[tool_pk] = image_address(self.protocol.read(item.document or {}))

    def _means_otherwise(self, item: Item, text: str) -> bool:
        try:
            listed_signature = self.protocol.read(item.document or {})
        except UnreadableItemError:
            return False
        return bool(compare(signature.from_json(text), listed_signature).changes)

    def _content_digest(self, document: dict[str, Any], read_at: datetime) -> str:
        # "" for an unreadable document: `_decode_items` reports it.
        try:
            return self.protocol.content_digest(document, read_at)
        except UnreadableItemError:
            return ""

    def _decode_items(self, items: Sequence[tuple[str, Item]]) -> Iterator[tuple[str, StagedTool]]:
        for tool, item in items:
            document, current = item.document or {}, self.current.get(tool)
            try:
                signature = self.protocol.read(document)
                notes = self.protocol.notes(document, signature)
            except UnreadableItemError as exc:
                # Only this tool is refused.
                self._reject_item(item.tool_id, exc.code, exc.reason)
                continue
            for note in notes:
                self.harvest.note(note)
            if tool in self.understood_anew:
                # Another version out of the same document.
                digest = list_pages.digest_as_read(item.digest, self.protocol.revision)
                item = structs.replace(item, digest=digest)
            yield tool, staged_tool(current.pk if current else None, item, signature)

    def _conclude(self) -> None:
        # Every tool seen is exactly one of added, changed, unchanged and refused.
        harvest = self.harvest
        harvest.seen = len(self.seen)
        harvest.known_pages = [page for page in self.pages if self.odd.isdisjoint(page.tool_ids)]
        if self._is_as_remembered(harvest.known_pages):
            harvest.unchanged = harvest.seen
            return
        harvest.rejections = list(self.refused.values())
        accepted = self.seen.keys() - self.refused.keys()
        self._count(accepted)
        refused = {stored.pk for tool, stored in self.current.items() if tool in self.refused}
        harvest.drop_refused(refused)
        harvest.was_active = sum(row.is_active for row in self.current.values())
        harvest.missing = [
            row.pk
            for tool, row in self.current.items()
            if row.is_active and tool not in self.seen and row.kind not in self.unread_kinds
        ]
        # A lower version is refused, but its tool is offered again: as the version that stays.
        offered = accepted | {tool for tool, entry in self.refused.items() if entry.code == "VERSION_BACK"}
        current_items = self.current.items()
        harvest.returned = [
            stored.pk for tool, stored in current_items if not stored.is_active and tool in offered
        ]
        # Tools with older versions in the list that are not stored.
        older_by_tool = {
            self.current[tool].pk: entry for tool, entry in self.older.items() if tool in self.current
        }
        stored = set(
            ToolVersion.objects.filter(tool__in=older_by_tool).values_list("tool_id", "label", "digest")
        )
        harvest.unread = [
            pk for pk, older in older_by_tool.items() if any((pk, *entry) not in stored for entry in older)
        ]
        self._doubt_missing()

    def _is_as_remembered(self, pages: list[KnownPage]) -> bool:
        return len(pages) == self.harvest.pages == self.known.count and all(page.pk for page in pages)

    def _count(self, accepted_ids: set[str]) -> None:
        harvest = self.harvest
        self.stage.remove([tool_id for tool, tool_id in self.staged.items() if tool in self.refused])
        staged = self.staged.keys() & accepted_ids
        harvest.changed = len(staged & self.current.keys())
        harvest.added = len(staged) - harvest.changed
        harvest.unchanged = len(accepted_ids) - len(staged)

    def _doubt_missing(self) -> None:
        # A tool that is not in the list may follow its end, may have moved while it was read, or lost its id.
        harvest = self.harvest
        if note := note_on_ending(self.ending):
            self.harvest.note(note)
            harvest.missing = []
        if harvest.missing and harvest.pages > 1:
            self.is_doubtful = True
        if 0 < len(harvest.missing) <= self.nameless:
            self.harvest.note(
                Note(
                    "MAY_BE_MISSING",
                    f"Known tools that are not in the list: {len(harvest.missing):,}. They may be among the "
                    f"{self.nameless:,} whose id cannot be read, so they were not withdrawn.",
                )
            )
            harvest.missing = []
