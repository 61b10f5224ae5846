"""Inspect what a run has recorded, after its transaction: raise findings, and hold versions by the policy.

Safe to run repeatedly and concurrently: a finding is raised once for a tool, a code and a digest, whatever
was
decided about it. `Run.inspected` is the revision of the rules of the last inspection.
"""

import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from catalog import worker_audit
from catalog.models import Endpoint, Finding, Run, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.runs import RunStatus
from catalog.models.tools import ItemKind, item_kind, lock_in_order
from catalog.notifications import outbox
from catalog.review import holds
from catalog.review.holds import Caught
from catalog.rules import inspection, policy
from catalog.rules.assess import Offer, assess, stored_alarms
from catalog.rules.inspection import REVISION, Alarm, links
from catalog.rules.inspection.letters import skeleton, spelling
from catalog.rules.inspection.mentions import find_mentions
from catalog.rules.inspection.neighbours import near
from catalog.rules.inspection.sinks import find_free_text
from catalog.rules.version_names import version_name
from catalog.tools.versions import predecessors
from catalog.twins import twins_of
from core.failpoints import failpoint
from core.outbound.errors import printable
from protocols import signature as normal_form
from protocols.signature import Signature

# Signatures that are in memory at once, and in one transaction.
CHUNK = 300
# An instruction that names another vendor's tool is more than a word that happens to be one.
STEERING = {"CONCEAL", "OVERRIDE", "PSEUDO_TAG", "ROLE", "TOOL_ORDER", "SHADOW", "CONTEXT_LEAK", "COERCE"}


# Functions that return the tools in use by agents. Higher layers register them.
USED_TOOLS: list[Callable[[], Iterable[int]]] = []


@dataclass(slots=True)
class _Inspected:
    version: int
    tool: int
    digest: str
    says_version: str
    is_listed: bool
    signature: Signature
    before: Signature | None
    alarms: list[Alarm]
    judged: int  # the number of alarms that the policy applied to when the version was recorded


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
    """Return whether the run was completed here."""
    while True:
        step = _inspect_chunk(run, skip_locked=skip_locked)
        if step != _Step.CONTINUES or time.monotonic() > ends:
            return step == _Step.COMPLETED


class _Step(Enum):
    CONTINUES = auto()
    COMPLETED = auto()
    LEFT = auto()  # to another worker, which inspects the run or has completed it


@transaction.atomic
def _inspect_chunk(run: Run, *, skip_locked: bool) -> _Step:
    """Inspect the next few hundred versions of the run and note how far it got, in one transaction."""
    locked = Run.objects.select_for_update(no_key=True, skip_locked=skip_locked)
    row = locked.filter(pk=run.pk, inspected__lt=REVISION).first()
    if row is None:
        return _Step.LEFT
    # An inspection that was begun with other rules starts again.
    last = row.inspected_through if row.inspecting == REVISION else 0
    rows = _rows("v.run_id = %s AND v.id > %s", [run.pk, last])
    noted = Run.objects.filter(pk=run.pk)
    if rows:
        _inspect(run.endpoint, run, rows, may_stop=row.inspected == 0)
        noted.update(inspecting=REVISION, inspected_through=rows[-1].version)
    if len(rows) == CHUNK:
        return _Step.CONTINUES
    failpoint("inspected")
    noted.update(inspected=REVISION, inspecting=0, inspected_through=0)
    return _Step.COMPLETED


def inspect_version(version: ToolVersion) -> None:
    """Inspect the run of this version now, for a designer who pins it, unless it was inspected."""
    run = version.run
    if run is not None and run.inspected == 0:
        _inspect(run.endpoint, run, _rows("v.id = %s", [version.pk]), may_stop=True)


def inspect_older(tool: Tool, versions: Sequence[ToolVersion], rewritten: Collection[int] = ()) -> None:
    """Inspect versions from a vendor's history. Only severe alarms about them wait for a decision.

    rewritten: the versions with the label of a stored version and another text.
    """
    if versions:
        rows = _rows("v.id = ANY(%s)", [[version.pk for version in versions]])
        _inspect(tool.endpoint, None, rows, may_stop=True, rewritten=rewritten)


def _rows(condition: str, values: Sequence[Any]) -> list[_Inspected]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT v.id, v.tool_id, v.digest, v.label, v.rewrite, v.first_seen_at,
                v.id IN (t.current_id, t.stopped_id), v.signature, v.alarms, t.version_count
            FROM catalog_toolversion v JOIN catalog_tool t ON t.id = v.tool_id
            WHERE {condition} ORDER BY v.id LIMIT {CHUNK}
            """,  # noqa: S608 - the conditions stand above
            values,
        )
        rows = cursor.fetchall()
    before = predecessors(row[0] for row in rows if row[-1] > 1)
    earlier_versions = ToolVersion.objects.filter(pk__in=set(before.values()))
    texts = dict(earlier_versions.values_list("pk", "signature").order_by())
    inspected_rows = []
    for version, tool, digest, label, rewrite, seen_at, is_listed, text, stored, _ in rows:
        signature, against = normal_form.from_json(text), texts.get(before.get(version, 0))
        alarms = stored_alarms(stored)
        inspected_rows.append(
            _Inspected(
                version=version,
                tool=tool,
                digest=digest,
                says_version=version_name(label, rewrite, seen_at) if label else "",
                is_listed=bool(is_listed),
                signature=signature,
                before=normal_form.from_json(against) if against else None,
                alarms=list(assess(None, Offer(signature)).alarms if alarms is None else alarms),
                judged=len(alarms or ()),
            )
        )
    return inspected_rows


@transaction.atomic
def _inspect(
    endpoint: Endpoint,
    run: Run | None,
    rows: list[_Inspected],
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
    renamed = _newly_named(listed_rows)
    # Its own tools under another name, and what is defined here: a definition and the tool that answers for
    # it may well have one name.
    twins = [twin.pk for twin in twins_of(endpoint)]
    twins += Endpoint.objects.filter(vendor__is_own=True).values_list("pk", flat=True)
    for version, alarm in (
        *_look_alikes(endpoint, twins, listed_rows),
        *_collisions(endpoint, twins, {tool: listed_rows[tool] for tool in renamed}),
        *_near_misses(endpoint, twins, [listed_rows[tool] for tool in renamed]),
        *_mentions(endpoint, twins, rows),
    ):
        by_version[version].alarms.append(alarm)
    homes = (endpoint.url, endpoint.vendor.homepage)
    for row in rows:
        if strays := links.find_foreign_links(row.signature, homes):
            row.alarms.append(strays)
        if row.is_listed and (sink := find_free_text(row.signature, row.before)):
            row.alarms.append(sink)
    findings = [_finding(endpoint, run, row, alarm) for row in rows for alarm in row.alarms]
    Finding.objects.bulk_create(findings, ignore_conflicts=True, batch_size=2_000)
    failpoint("inspecting")
    caught: list[Caught] = []
    if may_stop:
        caught = list(_caught(endpoint, rows, rewritten))
        holds.catch(endpoint, run, caught)
    if any(row.state == FindingState.OPEN for row in findings) or caught:
        outbox.review_waits(endpoint.pk)
    worker_audit.tell_inspected(
        endpoint,
        run,
        findings=findings_of_versions.count() - count_before,
        held=tools.filter(stopped__isnull=False).count() - kept_out,
        revision=REVISION,
    )


def _finding(endpoint: Endpoint, run: Run | None, row: _Inspected, alarm: Alarm) -> Finding:
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


def _caught(endpoint: Endpoint, rows: Iterable[_Inspected], rewritten: Collection[int]) -> Iterator[Caught]:
    stated = policy.with_defaults(endpoint.policy)
    for row in rows:
        alarms = row.alarms[row.judged :]
        change_classes = policy.classes((), alarms, is_rewritten=row.version in rewritten)
        if stop := policy.apply_policy(stated, change_classes, alarms):
            name = printable(row.signature.name, 200)
            subject = f"Version {row.says_version} of “{name}”" if row.says_version else f"“{name}”"
            yield Caught(row.tool, row.version, row.digest, subject, stop)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def _newly_named(listed: dict[int, _Inspected]) -> list[int]:
    # Store the skeletons of names. Return the tools that are new or whose skeleton changed.
    names = [row.signature.name for row in listed.values()]
    keys = [[_hash(spelling(name)) for name in names], [_hash(skeleton(name)) for name in names]]
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_LIKENESS, [list(listed), *keys])
        return [tool for (tool,) in cursor.fetchall()]


def _look_alikes(
    endpoint: Endpoint, twins: list[int], listed: dict[int, _Inspected]
) -> Iterator[tuple[int, Alarm]]:
    # Names that people mistake for the name of another vendor's tool.
    with connection.cursor() as cursor:
        cursor.execute(_FIND_LIKENESS, [endpoint.vendor_id, twins, list(listed)])
        rows = cursor.fetchall()
    for tool, other, vendor in rows:
        row = listed[tool]
        is_plain = row.signature.name.isascii() and other.isascii()
        name, like = inspection.spelled(row.signature.name), inspection.spelled(other)
        yield (
            row.version,
            Alarm(
                "LOOK_ALIKE",
                "medium" if is_plain else "high",
                f"The name “{name}” looks like “{like}” of {vendor} and is spelled with other letters.",
            ),
        )


def _collisions(
    endpoint: Endpoint, twins: list[int], named: dict[int, _Inspected]
) -> Iterator[tuple[int, Alarm]]:
    # Names of tools of other vendors that agents use already.
    used = _used() if named else []
    if not used:
        return
    with connection.cursor() as cursor:
        cursor.execute(_FIND_COLLISION, [list(named), used, endpoint.vendor_id, twins])
        rows = cursor.fetchall()
    copied: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for tool, other, vendor, other_endpoint, digest in rows:
        row = named[tool]
        name, like = inspection.spelled(row.signature.name), inspection.spelled(other)
        if name == like and row.digest == digest:
            copied[other_endpoint, vendor].append(row.version)
            continue
        # Aliases of pins distinguish equal names. A name that only looks equal was chosen to be confused.
        how = "is also" if name == like else "looks like"
        message = f"The name “{name}” {how} that of “{like}” of {vendor}, which agents use."
        yield row.version, Alarm("COLLISION", "low" if name == like else "high", message)
    for (_, vendor), versions in copied.items():
        message = (
            f"These are the same tools as those of {vendor}, at another address: {len(versions):,} of them."
        )
        yield min(versions), Alarm("SAME_TOOLS", "low", message)


def _used() -> list[int]:
    return [pk for source in USED_TOOLS for pk in source()]


def _near_misses(
    endpoint: Endpoint, twins: list[int], named: list[_Inspected]
) -> Iterator[tuple[int, Alarm]]:
    # Names one letter away from that of another vendor's tool that agents use.
    others = Tool.objects.filter(pk__in=_used(), kind=ItemKind.TOOL)
    others = others.exclude(endpoint__vendor=endpoint.vendor_id).exclude(endpoint__in=twins)
    vendors_by_name = (
        dict(others.order_by("-pk").values_list("name", "endpoint__vendor__name")) if named else {}
    )
    close = dict(near({row.signature.name for row in named}, vendors_by_name))
    for row in named:
        other = close.get(row.signature.name)
        if other is not None and skeleton(other) != skeleton(row.signature.name):  # or it is a collision
            name, like = inspection.spelled(row.signature.name), inspection.spelled(other)
            message = (
                f"The name “{name}” is one letter away from “{like}” of {vendors_by_name[other]}, "
                "which agents use."
            )
            yield row.version, Alarm("NEAR_MISS", "low", message)


_FIND_COLLISION = """
SELECT DISTINCT ON (mine.tool_id) mine.tool_id, t.name, vendor.name, e.id, current.digest
FROM catalog_likeness mine
JOIN catalog_likeness other ON other.skeleton = mine.skeleton
JOIN catalog_tool t ON t.id = other.tool_id
LEFT JOIN catalog_toolversion current ON current.id = t.current_id
JOIN catalog_endpoint e ON e.id = t.endpoint_id
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id
WHERE mine.tool_id = ANY(%s) AND other.tool_id = ANY(%s) AND e.vendor_id <> %s
    AND e.id <> ALL(%s)
ORDER BY mine.tool_id, t.id
"""
_KEEP_LIKENESS = """
INSERT INTO catalog_likeness (tool_id, spelling, skeleton)
SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) ORDER BY 1
ON CONFLICT (tool_id) DO UPDATE SET spelling = excluded.spelling, skeleton = excluded.skeleton
WHERE catalog_likeness.skeleton <> excluded.skeleton OR catalog_likeness.spelling <> excluded.spelling
RETURNING tool_id
"""
_FIND_LIKENESS = """
SELECT DISTINCT ON (mine.tool_id) mine.tool_id, t.name, vendor.name
FROM catalog_likeness mine
JOIN catalog_likeness other ON other.skeleton = mine.skeleton AND other.spelling <> mine.spelling
JOIN catalog_tool t ON t.id = other.tool_id AND t.status = 'active'
JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL AND e.vendor_id <> %s
    AND e.id <> ALL(%s)
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
WHERE mine.tool_id = ANY(%s)
ORDER BY mine.tool_id, t.id
"""


def _mentions(endpoint: Endpoint, twins: list[int], rows: list[_Inspected]) -> Iterator[tuple[int, Alarm]]:
    # Names of other vendors' tools in a description; a name that this vendor uses too is its own.
    words = [(row.version, word) for row in rows for word in find_mentions(row.signature)]
    if not words:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _FIND_MENTIONED,
            [*map(list, zip(*words, strict=True)), endpoint.vendor_id, twins, endpoint.vendor_id],
        )
        mentions = cursor.fetchall()
    by_version = {row.version: row for row in rows}
    for version, word, vendor in mentions:
        is_steering = any(alarm.code in STEERING for alarm in by_version[version].alarms)
        yield (
            version,
            Alarm(
                "OTHER_TOOL",
                "high" if is_steering else "medium",
                f"A description speaks of “{word}”, which is a tool of {vendor}.",
            ),
        )


_FIND_MENTIONED = """
SELECT DISTINCT ON (said.version) said.version, said.word, vendor.name
FROM unnest(%s::bigint[], %s::text[]) said (version, word)
JOIN catalog_tool t
    ON lower("left"(t.name, 100)) = lower(said.word) AND t.name = said.word AND t.status = 'active'
    AND t.kind = 'tool'
JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL AND e.vendor_id <> %s
    AND e.id <> ALL(%s)
JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
WHERE NOT EXISTS (
    SELECT FROM catalog_tool own JOIN catalog_endpoint home ON home.id = own.endpoint_id
    WHERE lower("left"(own.name, 100)) = lower(said.word) AND own.name = said.word AND home.vendor_id = %s)
ORDER BY said.version, said.word, t.id
"""
