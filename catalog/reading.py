"""Reads one endpoint to the end and sorts every item: unchanged, new, changed, refused.

Nothing here writes to the catalog. New and changed tools go to the staging table chunk by chunk, so
memory stays flat however long the listing is. A listing that loops, never ends or shrinks to nothing
raises, and the catalog is left as it was.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from catalog import diff, recording
from catalog.crashpoints import crashpoint
from catalog.models import Endpoint, Finding, KnownPage, Rejection, Run, Tool, ToolVersion
from catalog.models.findings import Severity
from catalog.models.tools import ToolStatus
from catalog.protocols import base, signature
from catalog.protocols.base import Item, Note, NothingKnown, Page, Protocol, Reply, UnreadableItemError
from catalog.protocols.errors import ProtocolViolationError, UnavailableError
from catalog.recording import Harvest, StagedTool
from catalog.tokens import estimate_tokens

MAX_PAGES = 500
MAX_TOOLS = 50_000
MAX_SECONDS = 300
CHUNK = 500
PROGRESS_SECONDS = 0.5

Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Current:
    """What the catalog holds for one tool of the endpoint."""

    pk: int
    is_active: bool
    version_pk: int
    label: str
    label_key: list[int]
    digest: str


class RememberedPages:
    """The pages of the last complete run of this endpoint; see `KnownPage`."""

    def __init__(self, endpoint: Endpoint, reader: str) -> None:
        rows = KnownPage.objects.filter(endpoint=endpoint, reader=reader)
        self.pages = {page.cursor: page for page in rows}
        self.count = len(self.pages)

    def etag(self, cursor: str) -> str:
        page = self.pages.get(cursor)
        return page.etag if page else ""

    def recall(self, cursor: str, reply: Reply) -> Page | None:
        page = self.pages.get(cursor)
        if page is None:
            return None
        if reply.status != 304 and hashlib.sha256(reply.body).hexdigest() != page.body_digest:
            return None
        return Page(
            items=[Item(tool_id, "", (), "") for tool_id in page.tool_ids],
            next=page.next_cursor,
            cursor=cursor,
            etag=page.etag,
            body_digest=page.body_digest,
            is_known=True,
        )


def reader_of(protocol: Protocol) -> str:
    return f"{protocol.name}:{protocol.revision}"


def current_tools(endpoint: Endpoint) -> dict[str, Current]:
    rows = Tool.objects.filter(endpoint=endpoint).values_list(
        "tool_id", "pk", "status", "current_id", "current__label", "current__label_key", "current__digest"
    )
    return {
        tool_id: Current(pk, status == ToolStatus.ACTIVE, version, label, key, digest)
        for tool_id, pk, status, version, label, key, digest in rows.iterator(chunk_size=5_000)
    }


class _StaleMemoryError(Exception):
    """A remembered page names tools that another page of this reading named too."""


def read(run: Run, protocol: Protocol, session: base.Session, progress: Progress) -> Harvest:
    """All of the endpoint; `progress` hears of pages, tools seen and tools refused twice a second.

    Raises ProtocolError when the listing cannot be read to its end.
    """
    remembered = RememberedPages(run.endpoint, reader_of(protocol))
    try:
        return _read(run, protocol, session, remembered, progress)
    except _StaleMemoryError:
        return _read(run, protocol, session, NothingKnown(), progress)


def _read(
    run: Run, protocol: Protocol, session: base.Session, known: base.KnownPages, progress: Progress
) -> Harvest:
    with recording.Stage() as stage:
        return _Reading(run, protocol, stage).read(session, known, progress)


@dataclass(slots=True)
class _Guard:
    """Stops listings that do not end."""

    deadline: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    cursors: dict[str | None, int] = field(default_factory=lambda: {None: 1})

    def check(self, page: Page, number: int, *, seen: int, is_progress: bool) -> None:
        if seen > MAX_TOOLS:
            raise ProtocolViolationError(
                "TOO_MANY_TOOLS", f"The listing holds more than {MAX_TOOLS:,} tools; that is the limit."
            )
        if page.next is None:
            return
        if page.next in self.cursors:
            raise ProtocolViolationError(
                "CURSOR_LOOP",
                f"Page {number} points back to page {self.cursors[page.next]}, so the listing never ends.",
            )
        if not is_progress:
            raise ProtocolViolationError(
                "NO_PROGRESS",
                f"Page {number} brought no tool that was not listed before, yet says more follow.",
            )
        if number >= MAX_PAGES:
            raise ProtocolViolationError(
                "TOO_MANY_PAGES", f"The listing goes on after {MAX_PAGES} pages; that is the limit."
            )
        if time.monotonic() > self.deadline:
            raise UnavailableError(
                "DEADLINE",
                f"The listing was not at its end after {MAX_SECONDS // 60} minutes ({number} pages).",
            )
        self.cursors[page.next] = number + 1


class _Reading:
    """The state of one reading: what was seen so far and what is waiting to be staged."""

    def __init__(self, run: Run, protocol: Protocol, stage: recording.Stage) -> None:
        self.run = run
        self.protocol = protocol
        self.stage = stage
        self.harvest = Harvest()
        self.seen: dict[str, str] = {}
        self.in_conflict: set[str] = set()
        self.waiting: dict[str, Item] = {}
        self.pages: list[KnownPage] = []
        self.all_known = True

    def read(self, session: base.Session, known: base.KnownPages, progress: Progress) -> Harvest:
        guard = _Guard()
        told = time.monotonic()
        for number, page in enumerate(self.protocol.enumerate(session, known), start=1):
            before = len(self.seen)
            self._take(page)
            crashpoint("page")
            guard.check(page, number, seen=self.harvest.seen, is_progress=len(self.seen) > before)
            if len(self.waiting) >= CHUNK:
                self._stage()
            if time.monotonic() - told > PROGRESS_SECONDS:
                self.stage.settle()
                progress(number, self.harvest.seen, len(self.harvest.rejections))
                told = time.monotonic()
        self._stage()
        self.stage.settle()
        if not (self.all_known and known.count == self.harvest.pages):
            self._conclude()
        return self.harvest

    @cached_property
    def current(self) -> dict[str, Current]:
        """Not read at all when every page is known from the last complete run."""
        self.stage.settle()
        return current_tools(self.run.endpoint)

    def _take(self, page: Page) -> None:
        self.harvest.pages += 1
        self.harvest.seen += len(page.items) + len(page.rejected)
        for note in page.notes:
            self._note(note)
        for rejected in page.rejected:
            self._reject(rejected.tool, rejected.code, rejected.reason)
        if page.is_known:
            self._take_known(page)
        else:
            self.all_known = False
            odd = [item for item in page.items if not self._take_item(item)]
            if not (odd or page.rejected or page.notes):
                self._remember(page)

    def _take_known(self, page: Page) -> None:
        """The fast way for a page with the same bytes as last time: no item is looked at one by one."""
        ids = {item.tool_id: "" for item in page.items}
        if not ids.keys().isdisjoint(self.seen):
            raise _StaleMemoryError
        self.seen |= ids
        self.harvest.unchanged += len(ids)
        self._remember(page)

    def _take_item(self, item: Item) -> bool:
        """True when the item is plain: nothing about it needs telling again on the next run."""
        for note in item.notes:
            self._note(note)
        if item.tool_id in self.seen:
            self._take_again(item)
            return False
        self.seen[item.tool_id] = item.digest
        held = self.current.get(item.tool_id)
        if held is None or (item.digest != held.digest and tuple(held.label_key) <= item.label_key):
            self.waiting[item.tool_id] = item
        elif item.digest == held.digest:
            self.harvest.unchanged += 1
        else:
            self._refuse_older(item, held)
            return False
        return not item.notes

    def _take_again(self, item: Item) -> None:
        if self.seen[item.tool_id] == item.digest:
            self._note(Note("DUP_TOOL", f"The tool {item.tool_id} is listed twice, the same both times."))
        elif item.tool_id not in self.in_conflict:
            self.in_conflict.add(item.tool_id)
            self._reject(
                item.tool_id,
                "DUP_CONFLICT",
                "Two different tools were listed with this id, so neither was taken.",
            )

    def _refuse_older(self, item: Item, held: Current) -> None:
        reason = (
            f"The vendor now lists version {item.label}, but version {held.label} was published before. "
            f"Version {held.label} stays."
        )
        self._reject(item.tool_id, "VERSION_BACK", reason)
        self.harvest.findings.append(
            Finding(
                endpoint=self.run.endpoint,
                tool_id=held.pk,
                run=self.run,
                code="VERSION_BACK",
                severity=Severity.MEDIUM,
                subject=f"{held.label}>{item.label}:{item.digest}"[:100],
                message=reason,
            )
        )

    def _reject(self, tool: str, code: str, reason: str) -> None:
        self.seen.setdefault(tool, "")
        self.harvest.rejections.append(Rejection(run=self.run, tool=tool[:300], code=code, reason=reason))

    def _note(self, note: Note) -> None:
        kept = self.harvest.notes.setdefault(
            note.code, {"code": note.code, "message": note.message, "count": 0}
        )
        kept["count"] = int(str(kept["count"])) + 1

    def _remember(self, page: Page) -> None:
        self.pages.append(
            KnownPage(
                endpoint=self.run.endpoint,
                reader=reader_of(self.protocol),
                cursor=page.cursor,
                next_cursor=page.next,
                etag=page.etag,
                body_digest=page.body_digest,
                tool_ids=[item.tool_id for item in page.items],
            )
        )

    def _stage(self) -> None:
        """Decode what is waiting and copy it to the staging table; an unreadable item costs only itself."""
        staged = []
        for item in self.waiting.values():
            try:
                staged.append((item, self._decode(item)))
            except UnreadableItemError as exc:
                self._reject(item.tool_id, exc.code, exc.reason)
                self._forget_page_of(item)
        self._judge([(item, tool) for item, tool in staged if tool.tool_pk is not None])
        self.stage.put([tool for _, tool in staged])
        self.waiting = {}

    def _forget_page_of(self, item: Item) -> None:
        self.pages = [page for page in self.pages if item.tool_id not in page.tool_ids]

    def _decode(self, item: Item) -> StagedTool:
        document = item.document or {}
        read = self.protocol.read(document)
        encoded = signature.to_json(read)
        held = self.current.get(item.tool_id)
        for note in self.protocol.notes(document, read):
            self._note(note)
        return StagedTool(
            tool_pk=held.pk if held else None,
            tool_id=item.tool_id,
            label=item.label,
            label_key=list(item.label_key),
            digest=item.digest,
            name=read.name,
            title=read.title,
            description=read.description,
            tags=list(read.tags),
            tokens=estimate_tokens(encoded),
            signature=encoded.decode(),
            raw=base.canonical(document).decode(),
        )

    def _judge(self, changed: list[tuple[Item, StagedTool]]) -> None:
        """A finding for each new version that breaks its callers, which the vendor promised not to do."""
        if not changed:
            return
        self.stage.settle()
        held = {tool.tool_pk: self.current[item.tool_id] for item, tool in changed}
        rows = ToolVersion.objects.filter(pk__in=[current.version_pk for current in held.values()])
        before = {version.tool_id: version for version in rows}
        for item, tool in changed:
            old = before[self.current[item.tool_id].pk]
            comparison = diff.compare(old.decoded(), signature.from_json(tool.signature))
            if comparison.class_ == "breaking" and tool.label != old.label:
                self.harvest.findings.append(self._breaking(tool, old, comparison))

    def _breaking(self, tool: StagedTool, old: ToolVersion, comparison: diff.Comparison) -> Finding:
        reasons = [change.sentence for change in comparison.changes if change.class_ == "breaking"]
        more = f" And {len(reasons) - 3} more." if len(reasons) > 3 else ""
        return Finding(
            endpoint=self.run.endpoint,
            tool_id=old.tool_id,
            run=self.run,
            code="BREAKING",
            severity=Severity.MEDIUM,
            subject=tool.digest,
            message=f"“{tool.name}” {tool.label or 'has a new version that'} breaks agents that use "
            f"{old.label or 'the one before'}: {' '.join(reasons[:3])}{more}",
        )

    def _conclude(self) -> None:
        harvest = self.harvest
        recording.unstage(self.in_conflict)
        harvest.added, harvest.changed = recording.count_staged()
        active = {tool_id: held.pk for tool_id, held in self.current.items() if held.is_active}
        harvest.was_active = len(active)
        harvest.missing = [pk for tool_id, pk in active.items() if tool_id not in self.seen]
        accepted = self.seen.keys() - {rejection.tool for rejection in harvest.rejections}
        harvest.returned = [
            held.pk for tool_id, held in self.current.items() if not held.is_active and tool_id in accepted
        ]
        harvest.known_pages = self.pages
