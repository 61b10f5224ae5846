"""Inspect the versions that a run has recorded, after its transaction: raise findings, and hold versions by
the policy.

Safe to run repeatedly and concurrently: a finding is raised once for a tool, a code and a digest, whatever
was decided about it. `Run.inspected` is the revision of the rules of the last inspection.
"""

import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from django.db import transaction
from django.db.models import Q

from catalog import worker_audit
from catalog.models import Endpoint, Finding, Run, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.runs import RunStatus
from catalog.models.tools import ItemKind, item_kind, lock_in_order
from catalog.notifications import outbox
from catalog.review import holds, similar_names
from catalog.review.holds import Caught
from catalog.review.inspected_versions import InspectedVersion, read_versions
from catalog.rules import policy
from catalog.rules.inspection import REVISION, Alarm, links
from catalog.rules.inspection.sinks import find_free_text
from catalog.twins import twins_of
from core.failpoints import failpoint
from core.outbound.errors import printable

# Signatures that are in memory at once, and in one transaction.
CHUNK = 300


def inspect_pending(endpoint_id: int | None = None, *, ends: float = math.inf) -> int:
    """Inspect the versions of successful runs that these rules have not seen. Return how many runs are done.

    A run that another worker inspects at the moment is left to it. `ends` is a time of `time.monotonic()`
    after which no other chunk begins; the next call continues where this one stopped.
    """
    runs = Run.objects.filter(Q(added__gt=0) | Q(changed__gt=0), status=RunStatus.SUCCEEDED)
    runs = runs.filter(inspected__lt=REVISION).select_related("endpoint__vendor").order_by("inspected", "pk")
    if endpoint_id is not None:
        runs = runs.filter(endpoint=endpoint_id)
    completed = 0
    for run in runs:
        completed += _inspect_run(run, ends, skip_locked=True)
        if time.monotonic() > ends:
            break
    return completed


def inspect_run(run: Run) -> None:
    """Inspect all that the run brought; wait for a worker that is at it."""
    _inspect_run(run, math.inf, skip_locked=False)


def _inspect_run(run: Run, ends: float, *, skip_locked: bool) -> bool:
    """Inspect a few hundred versions in each transaction, and note how far it got. Return whether the run was
    completed here: not by another worker, and not after `ends`.
    """
    locked = Run.objects.select_for_update(no_key=True, skip_locked=skip_locked)
    noted = Run.objects.filter(pk=run.pk)
    while True:
        with transaction.atomic():
            row = locked.filter(pk=run.pk, inspected__lt=REVISION).first()
            if row is None:
                return False
            # An inspection that was begun with other rules starts again.
            last = row.inspected_through if row.inspecting == REVISION else 0
            rows = read_versions("v.run_id = %s AND v.id > %s", [run.pk, last], CHUNK)
            if rows:
                _inspect_rows(run.endpoint, run, rows, may_stop=row.inspected == 0)
                noted.update(inspecting=REVISION, inspected_through=rows[-1].version)
            if len(rows) < CHUNK:
                failpoint("inspected")
                noted.update(inspected=REVISION, inspecting=0, inspected_through=0)
                return True
        if time.monotonic() > ends:
            return False


def inspect_version(version: ToolVersion) -> None:
    """Inspect the run of this version now, for a designer who pins it, unless it was inspected."""
    run = version.run
    if run is not None and run.inspected == 0:
        _inspect_rows(run.endpoint, run, read_versions("v.id = %s", [version.pk], CHUNK), may_stop=True)


def inspect_older(tool: Tool, versions: Sequence[ToolVersion], rewritten: Collection[int] = ()) -> None:
    """Inspect versions from a vendor's history. Only severe alarms about them wait for a decision.

    rewritten: the versions with the label of a stored version and another text.
    """
    if versions:
        rows = read_versions("v.id = ANY(%s)", [[version.pk for version in versions]], CHUNK)
        _inspect_rows(tool.endpoint, None, rows, may_stop=True, rewritten=rewritten)


@transaction.atomic
def _inspect_rows(
    endpoint: Endpoint,
    run: Run | None,
    rows: list[InspectedVersion],
    *,
    may_stop: bool,
    rewritten: Collection[int] = (),
) -> None:
    tools = Tool.objects.filter(pk__in={row.tool for row in rows})
    lock_in_order(tools)
    by_version = {row.version: row for row in rows}
    findings_of_versions = Finding.objects.filter(version__in=by_version)
    count_before, kept_out = findings_of_versions.count(), tools.filter(stopped__isnull=False).count()
    # A prompt or a resource is not called by its name, so it may have that of a tool.
    listed_rows = {
        row.tool: row for row in rows if row.is_listed and item_kind(row.signature) == ItemKind.TOOL
    }
    renamed = similar_names.store_names(listed_rows)
    # Its own tools under another name, and what is defined here: a definition and the tool that answers for
    # it may well have one name.
    twins = [twin.pk for twin in twins_of(endpoint)]
    twins += Endpoint.objects.filter(vendor__is_own=True).values_list("pk", flat=True)
    for version, alarm in (
        *similar_names.look_alikes(endpoint, twins, listed_rows),
        *similar_names.collisions(endpoint, twins, {tool: listed_rows[tool] for tool in renamed}),
        *similar_names.near_misses(endpoint, twins, [listed_rows[tool] for tool in renamed]),
        *similar_names.mentions(endpoint, twins, rows),
    ):
        by_version[version].alarms.append(alarm)
    homes = (endpoint.url, endpoint.vendor.homepage)
    for row in rows:
        if strays := links.find_foreign_links(row.signature, homes):
            row.alarms.append(strays)
        if row.is_listed and (sink := find_free_text(row.signature, row.before)):
            row.alarms.append(sink)
    findings = [_build_finding(endpoint, run, row, alarm) for row in rows for alarm in row.alarms]
    Finding.objects.bulk_create(findings, ignore_conflicts=True, batch_size=2_000)
    failpoint("inspecting")
    caught: list[Caught] = []
    if may_stop:
        caught = list(_find_caught(endpoint, rows, rewritten))
        holds.catch(endpoint, run, caught)
    if any(row.state == FindingState.OPEN for row in findings) or caught:
        outbox.report_waiting_review(endpoint.pk)
    worker_audit.record_inspection(
        endpoint,
        run,
        findings=findings_of_versions.count() - count_before,
        held_count=tools.filter(stopped__isnull=False).count() - kept_out,
        revision=REVISION,
    )


def _build_finding(endpoint: Endpoint, run: Run | None, row: InspectedVersion, alarm: Alarm) -> Finding:
    # An alarm of low severity, or about what the vendor no longer lists, is noted and needs no decision.
    is_waiting = alarm.severity != "low" and row.is_listed
    return Finding(
        endpoint=endpoint,
        tool_id=row.tool,
        version_id=row.version,
        run=run,
        code=alarm.code,
        severity=alarm.severity,
        subject=row.digest,
        message=alarm.message,
        state=FindingState.OPEN if is_waiting else FindingState.NOTED,
    )


def _find_caught(
    endpoint: Endpoint, rows: Iterable[InspectedVersion], rewritten: Collection[int]
) -> Iterator[Caught]:
    stated = policy.with_defaults(endpoint.policy)
    for row in rows:
        alarms = row.alarms[row.judged :]
        change_classes = policy.classes((), alarms, is_rewritten=row.version in rewritten)
        if stop := policy.apply_policy(stated, change_classes, alarms):
            name = printable(row.signature.name, 200)
            subject = f"Version {row.says_version} of “{name}”" if row.says_version else f"“{name}”"
            yield Caught(row.tool, row.version, row.digest, subject, stop)
