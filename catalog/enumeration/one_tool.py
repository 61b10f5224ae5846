"""The enumeration of one tool, because a runtime needs it now. See docs/decisions/0064-fresh-signatures.md.

The result is recorded as by a run, so that the next run finds nothing new in it. Only a complete run
withdraws tools. Simultaneous requests for one tool share one request to the vendor, and none is sent again
within the interval, whatever the result. If the protocol has no address for one tool, this applies to all
tools of the
endpoint: its list is read, and all changes are recorded.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from catalog import bounds, worker_audit
from catalog.credentials import circuit_breaker, sessions
from catalog.enumeration import current_tools, listing, store
from catalog.enumeration.merge import merge
from catalog.enumeration.staging import Stage
from catalog.models import Finding, KnownPage, ListFetch, Run, Tool, ToolFetch
from catalog.models.findings import FindingState
from catalog.models.runs import RunStatus, Trigger
from catalog.notifications import outbox
from catalog.review import breaches, inspector
from core import db_errors
from core.errors import DomainError
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.limits import Limits
from core.postgresql.base import give_back
from protocols.base import Protocol, Session
from protocols.list_pages import Item, NoKnownPages, UnreadableItemError, identity
from protocols.paging import PageGuard

logger = logging.getLogger(__name__)

# A runtime waits for the result and otherwise uses the signature of its release. Requests that share another
# one's wait a little longer.
SECONDS, WAITS_LONGER_BY = 8.0, 1.125
# Time for recording the reply. Afterwards another request takes over from a dead process.
SECONDS_TO_RECORD = 12.0
# The maximum number of tools that are recorded for a runtime. The next run records the others.
MAX_CHANGED = 50
LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result. Without a code, the catalog contains the vendor's current tool."""

    error_code: str = ""
    error_message: str = ""


def fetch(tool: Tool) -> FetchResult:
    """Request the tool from its vendor, unless a process has done so within the interval. Return the result.

    Call it outside of transactions. It has no database connection while it waits.
    """
    if tool.endpoint.build_protocol().is_own:
        return FetchResult()
    ends = time.monotonic() + SECONDS * WAITS_LONGER_BY
    rows: QuerySet[ToolFetch] | QuerySet[ListFetch]
    if tool.endpoint.build_protocol().fetches_alone:
        ToolFetch.objects.get_or_create(pk=tool.pk)
        rows = ToolFetch.objects.filter(pk=tool.pk)
    else:
        ListFetch.objects.get_or_create(pk=tool.endpoint_id)
        rows = ListFetch.objects.filter(pk=tool.endpoint_id)
    # An expired claim belongs to a dead process.
    is_free = Q(claim=None) | Q(claimed_until__lt=Now())
    is_due = Q(next_at=None) | Q(next_at__lte=Now())
    claim, until = uuid.uuid4(), Now() + timedelta(seconds=SECONDS + SECONDS_TO_RECORD)
    while True:
        if rows.filter(is_free, is_due).update(claim=claim, claimed_until=until):
            return _fetch_and_settle(tool, rows.filter(claim=claim))
        row = rows.annotate(now=Now()).get()
        if row.claim is None or (row.next_at and row.next_at > row.now):
            tool_row = None if row.error_code else ToolFetch.objects.filter(pk=tool.pk).first()
            result_row = tool_row or row
            return FetchResult(result_row.error_code, result_row.error_message)
        if time.monotonic() > ends:
            return FetchResult("BUSY", "Another request for this tool is already running.")
        give_back()
        time.sleep(LOOK_EVERY)


def _fetch_and_settle(tool: Tool, claimed_row: QuerySet[Any]) -> FetchResult:
    """Read the tool from its vendor, store the result in the claimed row, and end the claim."""
    wait = timedelta(seconds=settings.FRESH_SECONDS)
    try:
        fetched = _fetch_tool(tool)
    except (ProtocolError, DomainError) as exc:
        fetched = FetchResult(exc.code, exc.message)
        retry_after = circuit_breaker.retry_after_wait(getattr(exc, "retry_after", None))
        wait = max(wait, retry_after)
    except UnreadableItemError as exc:
        fetched = FetchResult(exc.code, exc.reason)
    except Exception as exc:
        if db_errors.is_database_lost(exc):
            raise  # The claim runs out.
        logger.exception("tool %s was not read", tool.pk)
        fetched = FetchResult("INTERNAL", "Pegboard failed. Its log contains the error.")
    claimed_row.update(
        claim=None,
        claimed_until=None,
        read_at=Now(),
        next_at=Now() + wait,
        error_code=fetched.error_code,
        error_message=fetched.error_message,
    )
    return fetched


def _fetch_tool(tool: Tool) -> FetchResult:
    endpoint = tool.endpoint
    if not endpoint.is_live:
        raise DomainError("ENDPOINT_REMOVED", "The endpoint was removed.")
    if endpoint.is_paused:
        raise DomainError("PAUSED", "An administrator has paused reading this endpoint.")
    # No probe of its own: runs and calls find out whether the vendor is back.
    if until := circuit_breaker.unavailable_until(endpoint):
        raise UnavailableError("CIRCUIT_OPEN", f"Nothing is sent to “{endpoint}” until {until:%H:%M:%S} UTC.")
    protocol = endpoint.build_protocol()
    if not protocol.fetches_alone:
        return _read_list(tool, protocol)
    with sessions.open_session(endpoint, limits=_session_limits(tool), keeps_connection=True) as session:
        give_back()
        item = protocol.fetch(session, tool.tool_id)
    if identity(item.tool_id) != identity(tool.tool_id):
        raise UnavailableError("WRONG_TOOL", "The vendor answered with another tool.")
    return _record_fetch(protocol, tool, item)


def _read_list(tool: Tool, protocol: Protocol) -> FetchResult:
    endpoint = tool.endpoint
    tool_list = _ListedTools(current_tools.read_current_tools(endpoint))
    with sessions.open_session(endpoint, limits=_session_limits(tool), keeps_connection=True) as session:
        give_back()
        tool_list.read(protocol, session, endpoint.max_tools)
    faults = tool_list.faults()
    # The requested tool comes first.
    changed = sorted(tool_list.changed.items(), key=lambda fault: fault[0] != tool.pk)
    rows = Tool.objects.select_related("endpoint__vendor", "endpoint__credential").in_bulk(tool_list.changed)
    ends = time.monotonic() + SECONDS_TO_RECORD / 2
    for number, (pk, item) in enumerate(changed):
        if number >= MAX_CHANGED or time.monotonic() > ends:
            faults[pk] = FetchResult("BUSY", "Much has changed in the list. The next sync reads this tool.")
        elif (fetched := _record_fetch(protocol, rows[pk], item)).error_code:
            faults[pk] = fetched
    with transaction.atomic():
        ToolFetch.objects.filter(tool__endpoint=endpoint).exclude(tool__in=faults).delete()
        ToolFetch.objects.bulk_create(
            [
                ToolFetch(tool_id=pk, error_code=fault.error_code, error_message=fault.error_message)
                for pk, fault in sorted(faults.items())
            ],
            update_conflicts=True,
            unique_fields=["tool"],
            update_fields=["error_code", "error_message"],
        )
    return faults.get(tool.pk, FetchResult())


class _ListedTools:
    """The listed versions of known tools. Only changed ones are stored completely."""

    def __init__(self, current_tools_by_id: Mapping[str, current_tools.CurrentTool]) -> None:
        self.held = {name: current for name, current in current_tools_by_id.items() if current.is_active}
        self.digests: dict[str, str] = {}
        self.refused: dict[str, FetchResult] = {}
        self.changed: dict[int, Item] = {}

    def read(self, protocol: Protocol, session: Session, max_count: int) -> None:
        guard, nameless = PageGuard(max_count), 0
        for page in protocol.enumerate(session, NoKnownPages()):
            for item in page.items:
                name = identity(item.tool_id)
                if self.digests.setdefault(name, item.digest) != item.digest:
                    reason = "Two different tools were listed with this id, so neither was stored."
                    self.refused[name] = FetchResult("DUP_CONFLICT", reason)
                current = self.held.get(name)
                if current and not current.is_listed_as(item.digest, protocol.revision):
                    self.changed[current.pk] = item
            for rejected in page.rejected:
                nameless += rejected.tool.startswith("#")
                self.refused[identity(rejected.tool)] = FetchResult(rejected.code, rejected.reason)
            guard.check(page, tool_count=len(self.digests) + len(self.refused) + nameless)

    def faults(self) -> dict[int, FetchResult]:
        faults = {}
        for name, current in self.held.items():
            if name in self.refused:
                faults[current.pk] = self.refused[name]
                self.changed.pop(current.pk, None)
            elif name not in self.digests:
                faults[current.pk] = FetchResult("NOT_FOUND", "The vendor does not list this tool any more.")
        return faults


def _session_limits(tool: Tool) -> Limits:
    usual = bounds.limits_of(tool.endpoint)
    return replace(
        usual, request=SECONDS, session=SECONDS, is_callers_deadline=True, backoff=(), patience=2.0
    )


def _record_fetch(protocol: Protocol, tool: Tool, item: Item) -> FetchResult:
    run = Run(
        endpoint=tool.endpoint,
        trigger=Trigger.RUNTIME,
        status=RunStatus.SUCCEEDED,
        pages=1,
        seen=1,
        changed=1,
        attempt=1,
    )
    fetched = _record_tool(run, protocol, tool, item)
    if run.pk:
        inspector.inspect_run(run)
    return fetched


def _record_tool(run: Run, protocol: Protocol, tool: Tool, item: Item) -> FetchResult:
    """Record one tool. The run is stored if the tool had changed."""
    with transaction.atomic():
        Tool.objects.select_for_update(no_key=True).get(pk=tool.pk)
        if not store.as_it_was_read(run).filter(removed_at=None).exists():
            raise store.EndpointMovedError
        versions = current_tools.read_current_tools(run.endpoint, tool.pk).values()
        if any(version.is_listed_as(item.digest, protocol.revision) for version in versions):
            return FetchResult()
        with transaction.atomic():
            run.save()
            Run.objects.filter(pk=run.pk).update(started_at=Now(), finished_at=Now())
            harvest = listing.read_one(run, protocol, tool.pk, item)
            if harvest.changed:
                merge(run, harvest)
                outbox.report_changed_tools(run.pk)
                breaches.record_breaches(run, harvest.findings, has_new=False, has_changed=True)
                if Finding.objects.filter(run=run, state=FindingState.OPEN).exists():
                    outbox.report_waiting_review(run.endpoint_id)
                _forget_page(run, item)
                worker_audit.record_run(run, {"changed": harvest.changed})
                return FetchResult()
            # No new version, or a document that the catalog refuses, which the next run reports.
            transaction.set_rollback(True)
        if harvest.relisted:
            with Stage() as stage:
                stage.put_relisted({tool.pk: item})
            store.relist(harvest)
            _forget_page(run, item)
    run.pk = None
    refused = harvest.rejections[0] if harvest.rejections else None
    return FetchResult(refused.code, refused.reason) if refused else FetchResult()


def _forget_page(run: Run, item: Item) -> None:
    """Delete the stored page with the tool, so that the next run reads the page again.

    If the vendor reverts the change, the page has its earlier bytes, and would be taken for unchanged.
    """
    tools = [identity(item.tool_id)]
    KnownPage.objects.filter(endpoint=run.endpoint_id, tool_ids__contains=tools).delete()
