"""Record a complete enumeration in one transaction, only while the run still has its lease."""

from collections.abc import Sequence
from functools import partial

from django.db import connection, transaction
from django.db.models import QuerySet, Subquery
from django.db.models.functions import Now

from catalog import worker_audit
from catalog.enumeration import lease, listed_images
from catalog.enumeration.merge import merge
from catalog.enumeration.staging import Harvest
from catalog.models import (
    Endpoint,
    Finding,
    KeptReply,
    KnownPage,
    ListedDocument,
    Rejection,
    Run,
    Tool,
    Withdrawal,
)
from catalog.models.findings import FindingState
from catalog.models.runs import RunStatus, Trigger
from catalog.models.tools import ToolStatus
from catalog.notifications import outbox
from catalog.review import breaches
from core.errors import DomainError
from core.failpoints import failpoint
from core.metrics import Counter
from protocols.list_pages import identity

# A readable number. A list in which everything is faulty must not fill the table.
REJECTIONS_KEPT = 1_000
RUNS = Counter(
    "pegboard_runs_total",
    "Enumeration runs that ended: “ok” or the code of what went wrong.",
    ("protocol", "outcome"),
)


class EndpointRemovedError(DomainError):
    """The endpoint was removed while its run waited or read, so nothing is stored."""

    def __init__(self) -> None:
        super().__init__("ENDPOINT_REMOVED", "The endpoint was removed meanwhile. Nothing was stored.")


class EndpointMovedError(DomainError):
    """The endpoint's address or credential changed during the run, so the tools may be another vendor's.
    Nothing is written.
    """

    def __init__(self) -> None:
        super().__init__(
            "ENDPOINT_MOVED",
            "The endpoint's address, credential or settings were changed during this sync. Nothing was "
            "stored. A new sync uses the current ones.",
        )


def as_it_was_read(run: Run) -> QuerySet[Endpoint]:
    """Return the run's endpoint, or no row if its address, credential or settings have changed since."""
    endpoint = run.endpoint
    return Endpoint.objects.filter(
        pk=endpoint.pk,
        url=endpoint.url,
        credential=endpoint.credential_id,
        settings=endpoint.settings,
    )


def add_pass(run: Run, pass_digest: str) -> None:
    """Store the digest of a pass over the list, for comparison with the next pass."""
    # Stored in the row, because a long run continues in another process.
    run.passes = [*run.passes, pass_digest]
    Run.objects.filter(pk=run.pk, attempt=run.attempt).update(passes=run.passes)


def record(run: Run, harvest: Harvest) -> None:
    """Record the harvest in one transaction, only while `run.attempt` has the lease.

    Raises LostLeaseError, EndpointRemovedError, or EndpointMovedError.
    """
    with transaction.atomic():
        lease.lock(run)
        failpoint("record-locked")
        if harvest.spool:
            harvest.spool.fill_tables()
        # All that are about to change, in the order in which all transactions lock tools.
        listed_before = [
            *(*harvest.missing, *harvest.returned, *harvest.unread),
            *(*harvest.respelt, *harvest.relisted, *harvest.as_version),
        ]
        changed = "UNION SELECT tool_pk FROM staged_tool" if harvest.changed else ""
        if listed_before or changed:
            with connection.cursor() as cursor:
                cursor.execute(LOCK_TOOLS.format(changed=changed), [listed_before])
        if harvest.added or harvest.changed:
            merge(run, harvest)
        if harvest.changed:
            outbox.report_changed_tools(run.pk)
        failpoint("record-versions")
        _update_tools(run, harvest)
        relist(harvest)
        failpoint("record-withdrawn")
        keep_rejections(harvest)
        breaches.record_breaches(
            run,
            harvest.findings,
            has_new=harvest.added > 0,
            has_changed=bool(harvest.changed or harvest.returned),
        )
        if Finding.objects.filter(run=run, state=FindingState.OPEN).exists():
            outbox.report_waiting_review(run.endpoint_id)
        failpoint("record-findings")
        _remember_pages(run, harvest.known_pages)
        _succeed(run, harvest)
        failpoint("record-commit")


LOCK_TOOLS = """
SELECT id FROM catalog_tool WHERE id IN (SELECT unnest(%s::bigint[]) {changed})
ORDER BY id FOR NO KEY UPDATE
"""


def _succeed(run: Run, harvest: Harvest) -> None:
    # Last in the transaction, so that an edit of the endpoint does not wait for the merge.
    finish(
        run,
        status=RunStatus.SUCCEEDED,
        added=harvest.added,
        changed=harvest.changed,
        unchanged=harvest.unchanged,
        withdrawn=len(harvest.missing),
        returned=len(harvest.returned),
        **read_columns(harvest),
    )
    if (
        not as_it_was_read(run)
        .filter(removed_at=None)
        .update(
            failures=0,
            error_code="",
            error_message="",
            last_success_at=Now(),
            held_run=None,
            read_revision=run.endpoint.build_protocol().revision,
        )
    ):
        is_live = Endpoint.objects.filter(pk=run.endpoint_id, removed_at=None).exists()
        raise EndpointMovedError if is_live else EndpointRemovedError
    counts = {"added": harvest.added, "changed": harvest.changed}
    worker_audit.record_run(
        run, {**counts, "withdrawn": len(harvest.missing), "returned": len(harvest.returned)}
    )
    worker_audit.record_recovery(run)
    if run.endpoint.failures:
        outbox.report_recovery(run.endpoint)


def read_columns(harvest: Harvest) -> dict[str, object]:
    """Return the columns of a run that describe the read list, whether it was recorded or not."""
    return {
        "pages": harvest.pages,
        "seen": harvest.seen,
        "rejected": len(harvest.rejections),
        "notes": list(harvest.notes.values()),
    }


def keep_rejections(harvest: Harvest) -> None:
    Rejection.objects.bulk_create(harvest.rejections[:REJECTIONS_KEPT])


def _remember_pages(run: Run, pages: Sequence[KnownPage]) -> None:
    # Pages that were recalled stay as they are.
    KnownPage.objects.filter(endpoint=run.endpoint_id).exclude(pk__in=[page.pk for page in pages]).delete()
    # A tool that was read alone since this run began may be newer than its page. The page must not count as
    # known then, or the tool would keep its state when the vendor reverts to that page.
    began = Run.objects.filter(pk=run.pk).values("started_at")
    alone = Run.objects.filter(
        endpoint=run.endpoint_id, trigger=Trigger.RUNTIME, finished_at__gte=Subquery(began)
    )
    newer = {identity(name) for name in alone.values_list("versions__tool__tool_id", flat=True) if name}
    fresh = [page for page in pages if page.pk is None and newer.isdisjoint(page.tool_ids)]
    KnownPage.objects.bulk_create(fresh)


def _update_tools(run: Run, harvest: Harvest) -> None:
    """Withdraw the missing tools, offer the returned ones again, and store the newest spelling of each id."""
    if harvest.missing:
        missing = Tool.objects.filter(pk__in=harvest.missing)
        missing.update(status=ToolStatus.WITHDRAWN, changed_at=Now())
        Withdrawal.objects.bulk_create([Withdrawal(tool_id=pk, run=run) for pk in harvest.missing])
        outbox.report_withdrawn_tools(run.pk)
    if harvest.returned:
        returned = Tool.objects.filter(pk__in=harvest.returned)
        returned.update(status=ToolStatus.ACTIVE, changed_at=Now())
        Withdrawal.objects.filter(tool__in=harvest.returned, returned_run=None).update(returned_run=run)
    Tool.objects.filter(pk__in=harvest.unread).update(versions_read_at=None)
    # URLs use the newest spelling, because a server may be strict.
    if harvest.respelt:
        with connection.cursor() as cursor:
            cursor.execute(RESPELL, [list(harvest.respelt), list(harvest.respelt.values())])


RESPELL = """
UPDATE catalog_tool t SET tool_id = s.tool_id FROM unnest(%s::bigint[], %s::text[]) s (pk, tool_id)
WHERE t.id = s.pk
"""


def relist(harvest: Harvest) -> None:
    """Store the staged documents that make no version, and the images that they name. Their tools are
    locked."""
    # The next listing of the same document is recognised by its digest alone.
    ListedDocument.objects.filter(tool__in=harvest.as_version).delete()
    if harvest.relisted:
        with connection.cursor() as cursor:
            cursor.execute(RELIST, [list(harvest.relisted)])
    listed_images.write(harvest.images)


RELIST = """
INSERT INTO catalog_listeddocument (tool_id, digest, raw, listed_at)
SELECT tool_pk, digest, raw, now() FROM relisted_document WHERE tool_pk = ANY(%s::bigint[])
ON CONFLICT (tool_id) DO UPDATE
SET digest = excluded.digest, raw = excluded.raw, listed_at = excluded.listed_at
"""


def finish(run: Run, may_resume: bool = False, /, **changes: object) -> bool:
    """Store the end of a run. Return False if the run has lost its lease; then nothing is stored.

    may_resume: keep the stored replies, so that the next attempt can continue from them.
    """
    has_lease = bool(lease.claimed_run(run).update(finished_at=Now(), lease_until=None, **changes))
    if has_lease:
        if not may_resume:
            KeptReply.objects.filter(endpoint=run.endpoint_id).delete()
        outcome = str(changes.get("error_code", "ok"))
        transaction.on_commit(partial(RUNS.add, run.endpoint.protocol, outcome))
    return has_lease
