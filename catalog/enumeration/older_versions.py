"""Older versions of tools, which are read from the vendor after the list so that they can be pinned.

A list contains only current versions. The versions of a tool's history are added behind the stored ones, and
the current version does not change. Histories that the vendor could not return are requested again after
the endpoint's next run, with a note on its last run.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog import bounds, worker_audit
from catalog.credentials import sessions
from catalog.enumeration.merge import append_versions
from catalog.enumeration.staging import StagedTool, staged_tool
from catalog.models import Endpoint, Finding, Run, Tool
from catalog.models.findings import Severity
from catalog.models.runs import RunStatus
from catalog.models.tools import ToolStatus, lock_in_order
from catalog.notifications import outbox
from catalog.review import inspector
from core.canonical_json import parse_document
from core.errors import DomainError
from core.outbound.errors import ProtocolError, ProtocolViolationError, printable
from protocols import base
from protocols.list_pages import Item, ItemPage, UnreadableItemError
from protocols.paging import PageGuard

logger = logging.getLogger(__name__)

# A batch ends before the task's time limit. Another message continues.
BATCH = 100
BATCH_SECONDS = 60.0
# The last history may take until then. The task is killed after 300 seconds.
SESSION_SECONDS = 240.0
# Longer than any task, so it is never renewed. A killed reader blocks others until then.
LEASE = timedelta(seconds=420)
BATCH_BYTES = 32 << 20
# A vendor may number every build, and a designer chooses among the latest.
MAX_VERSIONS = 200
# After this many without an answer, the vendor evidently offers no older versions.
SILENT_TOOLS = 5


def read_pending(endpoint_id: int, after: int = 0) -> int | None:
    """Read the history of the next tools that may have one. Return the `after` of the next portion, or None.

    One reader per endpoint at a time; a second one leaves at once.
    """
    endpoint = Endpoint.objects.select_related("credential", "vendor").get(pk=endpoint_id)
    if not endpoint.is_live:
        return None
    leases = Endpoint.objects.filter(pk=endpoint_id)
    is_free = Q(history_lease_until=None) | Q(history_lease_until__lt=Now())
    if not leases.filter(is_free).update(history_lease_until=Now() + LEASE):
        return None
    lease_until = leases.values_list("history_lease_until", flat=True).get()
    try:
        reader = _HistoryReader(endpoint)
        try:
            return reader.read_batch(after)
        finally:
            reader.store_notes()
    finally:
        leases.filter(history_lease_until=lease_until).update(history_lease_until=None)


def read_all(endpoint_id: int) -> None:
    after: int | None = 0
    while after is not None:
        after = read_pending(endpoint_id, after)


def _tools_without_history(endpoint: Endpoint) -> QuerySet[Tool]:
    """Return the tools whose label implies earlier versions and whose history was not read since."""
    # There is nothing before 1, but there may be before 0.2.0.
    has_before = Q(current__label_key__gt=[1]) | Q(current__label_key__len__gt=1)
    return (
        Tool.objects.filter(endpoint=endpoint, status=ToolStatus.ACTIVE, versions_read_at=None)
        .filter(has_before)
        .order_by("pk")
    )


class _HistoryReader:
    """Reads one batch of histories, and counts the consecutive tools without an answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.protocol = endpoint.build_protocol()
        self.notes: dict[str, dict[str, Any]] = {}
        self.silent = 0
        self.failed = 0

    def read_batch(self, after: int) -> int | None:
        tools = list(_tools_without_history(self.endpoint).filter(pk__gt=after)[: BATCH + 1])
        ends = time.monotonic() + BATCH_SECONDS
        try:
            limits = replace(bounds.limits_of(self.endpoint), session=SESSION_SECONDS)
            with sessions.open_session(self.endpoint, limits=limits) as session:
                for tool in tools[:BATCH]:
                    self._read_history(session, tool)
                    if self.silent + self.failed >= SILENT_TOOLS:
                        self._give_up(tool)
                        return None
                    if time.monotonic() > ends or session.bytes_read > BATCH_BYTES:
                        return tool.pk
        except (ProtocolError, DomainError) as exc:
            self._note_failure("", exc.message, is_final=False)
            return None
        return tools[BATCH - 1].pk if len(tools) > BATCH else None

    def _read_history(self, session: base.Session, tool: Tool) -> None:
        pages: list[ItemPage] = []
        is_final = True
        try:
            pages.extend(self._read_pages(session, tool))
            has_told = any(page.items or page.rejected for page in pages)
        except ProtocolError as exc:
            # A vendor that answers nonsense will do so again; one that does not answer may do so later.
            has_told = is_final = isinstance(exc, ProtocolViolationError)
            self._note_failure(f"of {_quoted_name(tool)} ", exc.message, is_final=is_final)
        items = [item for page in pages for item in page.items]
        self._add_versions(tool, items, is_final=is_final)
        is_whole = is_final and len(items) <= MAX_VERSIONS
        if is_whole and not any(page.rejected for page in pages):
            first = min(items, key=lambda item: item.label_key, default=None)
            if "growing_versions" in self.protocol.promises and first and first.label_key > (1,):
                begins = f"Its history begins with version {first.label}."
                self._note("FIRST_VERSION", f"{_quoted_name(tool)} has no version 1. {begins}")
        self.failed = 0 if has_told else self.failed + (not is_final)
        self.silent = 0 if has_told else self.silent + is_final

    def _read_pages(self, session: base.Session, tool: Tool) -> Iterator[ItemPage]:
        guard = PageGuard()
        count = 0
        for page in self.protocol.versions(session, tool.tool_id):
            yield page
            for rejected in page.rejected:
                self._note_rejection(tool, rejected.reason)
            count += len(page.items) + len(page.rejected)
            if count > MAX_VERSIONS:
                text = (
                    f"{_quoted_name(tool)} has more than {MAX_VERSIONS} versions. The others were left out."
                )
                self._note("HISTORY_TOO_LONG", text)
                return
            guard.check(page, tool_count=count)

    @transaction.atomic
    def _add_versions(self, tool: Tool, items: list[Item], *, is_final: bool) -> None:
        # Appends missing versions, oldest first. Known labels with other bytes are drift.
        asked_for = tool.current_id
        tool = Tool.objects.select_for_update(no_key=True).get(pk=tool.pk)
        added = append_versions(self._stage_missing(tool, items))
        rewritten = [version for version in added if version.rewrite]
        if rewritten:
            Finding.objects.bulk_create(
                [
                    Finding(
                        endpoint_id=tool.endpoint_id,
                        tool=tool,
                        version=version,
                        against=tool.versions.filter(label=version.label).exclude(pk=version.pk).first(),
                        code="DRIFT",
                        severity=Severity.HIGH,
                        subject=version.digest,
                        message=f"The vendor's history shows version {version.label} of {_quoted_name(tool)} "
                        "with other content than when we first read it. Agents that pinned it keep their "
                        "version.",
                    )
                    for version in rewritten
                ],
                ignore_conflicts=True,
            )
            outbox.report_waiting_review(tool.endpoint_id)
        worker_audit.record_older_versions(tool, len(added))
        inspector.inspect_older(tool, added, {version.pk for version in rewritten})
        tool.version_count += len(added)
        if is_final and tool.current_id == asked_for:
            tool.versions_read_at = timezone.now()
        tool.save(update_fields=["version_count", "versions_read_at"])

    def _stage_missing(self, tool: Tool, items: Sequence[Item]) -> list[StagedTool]:
        """Decode the versions that are not stored in any form, oldest first."""
        stored = set(tool.versions.values_list("label", "digest"))
        labels = {item.label for item in items if (item.label, item.digest) not in stored}
        raws = tool.versions.filter(label__in=labels).values_list("label", "raw") if labels else ()
        contents = {(label, self._content_digest(parse_document(raw))) for label, raw in raws}
        counts: Counter[str] = Counter()
        staged: list[StagedTool] = []
        for item in sorted(items[:MAX_VERSIONS], key=lambda item: item.label_key):
            document = item.document or {}
            if (item.label, item.digest) in stored:
                continue
            try:
                signature = self.protocol.read(document)
            except UnreadableItemError as exc:
                self._note_rejection(tool, exc.reason, item.label)
                continue
            content = (item.label, self._content_digest(document))
            if content not in contents:
                staged.append(staged_tool(tool.pk, item, signature, len(staged) + 1, counts[item.label]))
                stored.add((item.label, item.digest))
                contents.add(content)
                counts[item.label] += 1
        return staged

    def _content_digest(self, document: dict[str, Any]) -> str:
        # "" for what cannot be read: it is neither held nor added.
        try:
            return self.protocol.content_digest(document)
        except UnreadableItemError:
            return ""

    def _give_up(self, last: Tool) -> None:
        # A vendor that offers no history for several tools in a row offers none at all.
        if not self.failed:
            others = _tools_without_history(self.endpoint).filter(pk__gt=last.pk)
            tools = Tool.objects.filter(pk__in=list(others.values_list("pk", flat=True)))
            with transaction.atomic():
                lock_in_order(tools)
                tools.update(versions_read_at=timezone.now())

    def _note_failure(self, whose: str, reason: str, *, is_final: bool) -> None:
        again = "" if is_final else " Pegboard requests it again after the next sync."
        self._note("HISTORY_FAILED", f"Older versions {whose}could not be read. {reason}{again}")

    def _note_rejection(self, tool: Tool, reason: str, label: str = "") -> None:
        version = f"Version {label}" if label else "A version"
        self._note("HISTORY_REJECTED", f"{version} of {_quoted_name(tool)} was left out. {reason}")

    def _note(self, code: str, message: str) -> None:
        logger.info("endpoint %s: %s: %s", self.endpoint.pk, code, message)
        self.notes.setdefault(code, {"code": code, "message": message, "count": 0})["count"] += 1

    @transaction.atomic
    def store_notes(self) -> None:
        # On the page of the last run, because a batch has none of its own.
        runs = Run.objects.of_lists().filter(endpoint=self.endpoint, status=RunStatus.SUCCEEDED)
        run = runs.order_by("-pk").select_for_update(no_key=True).first() if self.notes else None
        if run is None:
            return
        notes_by_code = {note["code"]: note for note in run.notes}
        for code, note in self.notes.items():
            notes_by_code.setdefault(code, note | {"count": 0})["count"] += note["count"]
        run.notes = list(notes_by_code.values())
        run.save(update_fields=["notes"])


def _quoted_name(tool: Tool) -> str:
    return f"“{printable(tool.name, 60)}”"
