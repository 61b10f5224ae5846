"""Writes what one run has read into the catalog: COPY into a private table, then one transaction.

The staging table is temporary: it belongs to one connection, so a killed run leaves nothing behind.
Ids are drawn while staging, so a new tool and its first version, which point at each other, are each
written once. No statement here runs per tool.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import TracebackType

import msgspec
import psycopg
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog import worker_audit
from catalog.models import Endpoint, Finding, KeptReply, KnownPage, Rejection, Run, Tool, Withdrawal
from catalog.models.findings import FindingState
from catalog.models.runs import RunStatus
from catalog.models.tools import ToolStatus
from catalog.notifications import outbox
from catalog.review import breaches
from catalog.rules import assess, policy
from catalog.tools import effective_texts
from core.errors import DomainError
from core.failpoints import crashpoint
from core.metrics import Counter

REJECTIONS_KEPT = 1_000
RUNS = Counter(
    "pegboard_runs_total",
    "Readings of endpoints that ended: “ok” or the code of what went wrong.",
    ("protocol", "outcome"),
)


class LostLeaseError(Exception):
    """Another worker has taken this run up; nothing may be written for it any more."""


class EndpointRemovedError(DomainError):
    """Nothing is written for an endpoint that was removed while its run waited or read."""

    def __init__(self) -> None:
        super().__init__("ENDPOINT_REMOVED", "The endpoint was removed meanwhile. Nothing was written.")


class EndpointMovedError(DomainError):
    """Nothing is written that was read of an endpoint as it is no more: the tools may be another vendor's."""

    def __init__(self) -> None:
        super().__init__(
            "ENDPOINT_MOVED",
            "The endpoint's address, credential or settings were changed while this run read it. Nothing was "
            "written. A new run reads the endpoint as it is now.",
        )


def as_it_was_read(run: Run) -> QuerySet[Endpoint]:
    """The endpoint of this run, unless it is read in another way by now. `run.endpoint` is what is read."""
    endpoint = run.endpoint
    return Endpoint.objects.filter(
        pk=endpoint.pk,
        url=endpoint.url,
        credential=endpoint.credential_id,
        settings=endpoint.settings,
    )


class StagedTool(msgspec.Struct, frozen=True):
    """One new or changed tool, decoded. `tool_pk` is None for a tool the catalog has not seen."""

    tool_pk: int | None
    tool_id: str
    label: str
    label_key: list[int]
    digest: str
    name: str
    title: str
    description: str
    tags: list[str]
    tokens: int
    signature: str
    raw: str


@dataclass(frozen=True, slots=True)
class Assessed:
    """A changed tool that raised an alarm or that the policy stops.

    `version` is the name of the version, empty where the vendor numbers nothing; `alarms` are as a version
    keeps them.
    """

    stop: policy.Stop | None
    version: str
    alarms: str


@dataclass(slots=True)
class Harvest:
    """What one complete reading found, beside the staged tools. `respelt` are ids in other letters."""

    pages: int = 0
    seen: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    was_active: int = 0
    missing: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    respelt: dict[int, str] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: dict[str, dict[str, object]] = field(default_factory=dict)
    known_pages: list[KnownPage] = field(default_factory=list)
    assessed: dict[int, Assessed] = field(default_factory=dict)


COLUMNS = ", ".join(StagedTool.__struct_fields__)

# The sequences are looked up once, and not for each row.
SEQUENCES = """
SELECT pg_get_serial_sequence('catalog_tool', 'id'), pg_get_serial_sequence('catalog_toolversion', 'id')
"""
CREATE = """
DROP TABLE IF EXISTS pg_temp.staged_tool;
CREATE TEMP TABLE staged_tool (
    tool_pk bigint, tool_id text NOT NULL, label text NOT NULL, label_key bigint[] NOT NULL,
    digest text NOT NULL, name text NOT NULL, title text NOT NULL, description text NOT NULL,
    tags text[] NOT NULL, tokens integer NOT NULL, signature text NOT NULL, raw text NOT NULL,
    new_pk bigint NOT NULL DEFAULT nextval(%s::regclass),
    version_pk bigint NOT NULL DEFAULT nextval(%s::regclass),
    is_stored boolean NOT NULL DEFAULT false,
    stop text NOT NULL DEFAULT '', severity text NOT NULL DEFAULT '', why text NOT NULL DEFAULT '',
    alarms text
)
"""


class Stage:
    """The staging table of this connection, made for the first tools that are put there.

    Rows go into one open COPY, so that the database works on them while the next ones are decoded. Leave
    the connection alone between `put` and `settle`, and settle before the vendor is asked for more: the
    server ends a statement that waits for a slow vendor.
    """

    def __init__(self) -> None:
        self._is_made = False
        self._copying = ExitStack()
        self._rows: psycopg.Copy | None = None

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with connection.wrap_database_errors:
            self._copying.__exit__(kind, error, trace)

    def put(self, tools: Sequence[StagedTool]) -> None:
        if not tools:
            return
        if not self._is_made:
            with connection.cursor() as cursor:
                cursor.execute(SEQUENCES)
                cursor.execute(CREATE, cursor.fetchone())
            self._is_made = True
        with connection.wrap_database_errors:
            if self._rows is None:
                cursor = self._copying.enter_context(connection.connection.cursor())
                self._rows = self._copying.enter_context(
                    cursor.copy(f"COPY staged_tool ({COLUMNS}) FROM STDIN")
                )
            self._rows.write("".join([_copy_line(tool) for tool in tools]))
            crashpoint("staging")

    def settle(self) -> None:
        """Wait until everything is in the table; raises what went wrong with it."""
        if self._rows is not None:
            self._rows = None
            with connection.wrap_database_errors:
                self._copying.close()


def _escaped(text: str) -> str:
    """Replacing is many times quicker than `str.translate`, and most texts hold nothing to be replaced."""
    if "\\" in text or "\t" in text or "\n" in text or "\r" in text:
        text = text.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
    return text


def _copy_line(tool: StagedTool) -> str:
    """One row in the text format of COPY. Half the time of adapting every value by its type."""
    tags = ",".join(['"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"' for tag in tool.tags])
    texts = (
        *(tool.tool_id, tool.label, f"{{{','.join(map(str, tool.label_key))}}}", tool.digest),
        *(tool.name, tool.title, tool.description, f"{{{tags}}}", str(tool.tokens), tool.signature, tool.raw),
    )
    return "\t".join([str(tool.tool_pk or r"\N"), *map(_escaped, texts)]) + "\n"


def note_reading(run: Run, saw: str) -> None:
    """One that another has to agree with. It outlasts the process: a long reading goes on in another one."""
    run.readings = [*run.readings, saw]
    Run.objects.filter(pk=run.pk, attempt=run.attempt).update(readings=run.readings)


def unstage(tool_ids: Sequence[str]) -> None:
    if tool_ids:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM staged_tool WHERE tool_id = ANY(%s)", [list(tool_ids)])


def record(run: Run, harvest: Harvest) -> None:
    """One transaction, and only while `run.attempt` still holds the lease.

    Raises LostLeaseError, and EndpointRemovedError or EndpointMovedError for what was done to the endpoint
    meanwhile.
    """
    with transaction.atomic():
        lock(run)
        crashpoint("record-locked")
        _lock_tools(harvest)
        if harvest.added or harvest.changed:
            _merge(run, harvest)
        crashpoint("record-versions")
        _withdraw(run, harvest.missing)
        _return(run, harvest.returned)
        Tool.objects.filter(pk__in=harvest.unread).update(versions_read_at=None)
        _respell(harvest.respelt)
        crashpoint("record-withdrawn")
        keep_rejections(harvest)
        breaches.tell(
            run,
            harvest.findings,
            has_new=harvest.added > 0,
            has_moved=bool(harvest.changed or harvest.returned),
        )
        if Finding.objects.filter(run=run, state=FindingState.OPEN).exists():
            outbox.review_waits(run.endpoint_id)
        crashpoint("record-findings")
        _remember(run, harvest.known_pages)
        _succeed(run, harvest)
        crashpoint("record-commit")


def lock(run: Run) -> datetime:
    """First in the transaction, and no more than a lock: who asks for a run meanwhile need not wait.

    Gives when this attempt began. Raises LostLeaseError.
    """
    ours = Run.objects.filter(pk=run.pk, attempt=run.attempt, status=RunStatus.RUNNING)
    began = ours.select_for_update(no_key=True).values_list("started_at", flat=True).first()
    if began is None:
        raise LostLeaseError
    return began


def _lock_tools(harvest: Harvest) -> None:
    """All that are about to change, in the order in which everybody locks tools."""
    listed_before = [*harvest.missing, *harvest.returned, *harvest.unread, *harvest.respelt]
    changed = "UNION SELECT tool_pk FROM staged_tool" if harvest.changed else ""
    if listed_before or changed:
        with connection.cursor() as cursor:
            cursor.execute(LOCK_TOOLS.format(changed=changed), [listed_before])


LOCK_TOOLS = """
SELECT id FROM catalog_tool WHERE id IN (SELECT unnest(%s::bigint[]) {changed})
ORDER BY id FOR NO KEY UPDATE
"""


def _succeed(run: Run, harvest: Harvest) -> None:
    """Last in the transaction, so that nobody who edits the endpoint waits for the merge."""
    finish(
        run,
        status=RunStatus.SUCCEEDED,
        added=harvest.added,
        changed=harvest.changed,
        unchanged=harvest.unchanged,
        withdrawn=len(harvest.missing),
        returned=len(harvest.returned),
        **what_was_read(harvest),
    )
    if (
        not as_it_was_read(run)
        .filter(removed_at=None)
        .update(failures=0, error_code="", error_message="", last_success_at=Now(), held_run=None)
    ):
        is_live = Endpoint.objects.filter(pk=run.endpoint_id, removed_at=None).exists()
        raise EndpointMovedError if is_live else EndpointRemovedError
    counts = {"added": harvest.added, "changed": harvest.changed}
    worker_audit.tell_read(
        run, {**counts, "withdrawn": len(harvest.missing), "returned": len(harvest.returned)}
    )
    worker_audit.tell_recovered(run)
    if run.endpoint.failures:
        outbox.recovered(run.endpoint)


def what_was_read(harvest: Harvest) -> dict[str, object]:
    """The columns of a run that tell of the reading, whether or not it was recorded."""
    return {
        "pages": harvest.pages,
        "seen": harvest.seen,
        "rejected": len(harvest.rejections),
        "notes": list(harvest.notes.values()),
    }


def keep_rejections(harvest: Harvest) -> None:
    Rejection.objects.bulk_create(harvest.rejections[:REJECTIONS_KEPT])


def _remember(run: Run, pages: Sequence[KnownPage]) -> None:
    """Pages that were recalled stay as they are."""
    KnownPage.objects.filter(endpoint=run.endpoint_id).exclude(pk__in=[page.pk for page in pages]).delete()
    KnownPage.objects.bulk_create([page for page in pages if page.pk is None])


def _merge(run: Run, harvest: Harvest) -> None:
    values: dict[str, int | str] = {
        "endpoint": run.endpoint_id,
        "run": run.pk,
        "no_alarms": assess.to_json(()),
    }
    with connection.cursor() as cursor:
        stops = _stop(cursor, run, harvest)
        added = MERGE_ADDED if harvest.added else ()
        changed = MERGE_CHANGED if harvest.changed else ()
        held = HOLD if stops or harvest.changed else ()
        for statement in (*added, *changed, *held):
            cursor.execute(statement, values)
        cursor.execute(TUNED)
        tuned = [tool for (tool,) in cursor.fetchall()]
        cursor.execute("DROP TABLE staged_tool")
    effective_texts.refresh(tuned)


def _stop(cursor: CursorWrapper, run: Run, harvest: Harvest) -> bool:
    """Note on the staged rows what their assessment says; whether the endpoint's policy stops any."""
    if new := policy.judge(policy.whole(run.endpoint.policy), ["new_tool"]):
        cursor.execute(STOP_NEW, {"state": new.state, "severity": new.severity, "says": new.says})
    if harvest.assessed:
        facts = [
            (each.alarms, each.version)
            + ((each.stop.state, each.stop.severity, each.stop.says) if each.stop else ("", "", ""))
            for each in harvest.assessed.values()
        ]
        values = [list(harvest.assessed), *zip(*facts, strict=True)]
        cursor.execute(NOTE_ASSESSED, [list(column) for column in values])
    return bool(new or any(each.stop for each in harvest.assessed.values()))


TUNED = "SELECT t.id FROM staged_tool s JOIN catalog_tool t ON t.id = s.tool_pk WHERE t.is_tuned"
STOP_NEW = """
UPDATE staged_tool SET stop = %(state)s, severity = %(severity)s,
    why = 'The new tool “' || left(name, 200) || '” ' || %(says)s
WHERE tool_pk IS NULL
"""
NOTE_ASSESSED = """
UPDATE staged_tool s SET alarms = g.alarms, stop = g.stop, severity = g.severity,
    why = CASE WHEN g.stop = '' THEN '' ELSE
        CASE WHEN g.version = '' THEN 'The new version' ELSE 'Version ' || g.version END
        || ' of “' || left(s.name, 200) || '” ' || g.says END
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
    g (tool, alarms, version, stop, severity, says)
WHERE s.tool_pk = g.tool
"""
MERGE_ADDED = (
    """
    INSERT INTO catalog_tool (id, endpoint_id, tool_id, status, current_id, stopped_id, name, title,
        description, tags, tokens, version_count, first_seen_at, changed_at)
    SELECT new_pk, %(endpoint)s, tool_id, 'active', version_pk, CASE WHEN stop <> '' THEN version_pk END,
        name, title, description, tags, tokens, 1, now(), now()
    FROM staged_tool WHERE tool_pk IS NULL
    """,
    """
    INSERT INTO catalog_toolversion (id, tool_id, ordinal, label, label_key, rewrite, digest, signature, raw,
        tokens, run_id, first_seen_at)
    SELECT version_pk, new_pk, 1, label, label_key, 0, digest, signature, raw, tokens, %(run)s, now()
    FROM staged_tool WHERE tool_pk IS NULL
    """,
)
MERGE_CHANGED = (
    # The vendor went back to what we hold, perhaps in another form: that version becomes current again.
    """
    UPDATE staged_tool s SET version_pk = v.id, is_stored = true FROM catalog_toolversion v
    WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.signature = s.signature
    """,
    """
    UPDATE staged_tool s SET version_pk = v.id, is_stored = true FROM catalog_toolversion v
    WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.digest = s.digest
    """,
    """
    INSERT INTO catalog_toolversion (id, tool_id, ordinal, label, label_key, rewrite, digest, signature, raw,
        tokens, run_id, first_seen_at, alarms)
    SELECT s.version_pk, t.id, t.version_count + 1, s.label, s.label_key,
        CASE WHEN s.label = '' THEN 0 ELSE (
            SELECT count(*) FROM catalog_toolversion v WHERE v.tool_id = t.id AND v.label = s.label) END,
        s.digest, s.signature, s.raw, s.tokens, %(run)s, now(), coalesce(s.alarms, %(no_alarms)s)
    FROM staged_tool s JOIN catalog_tool t ON t.id = s.tool_pk
    WHERE NOT s.is_stored
    """,
    # Bytes that a person has decided about stay decided; others that we hold were let through before.
    """
    UPDATE staged_tool s SET stop = coalesce(
        (SELECT CASE WHEN bool_or(f.state = 'blocked') THEN 'blocked'
            WHEN bool_or(f.code = 'HELD' AND f.state = 'accepted') THEN '' ELSE 'open' END
        FROM catalog_finding f
        WHERE f.tool_id = s.tool_pk AND (f.subject = s.digest OR f.version_id = s.version_pk)
        HAVING bool_or(f.code = 'HELD' OR f.state = 'blocked')),
        CASE WHEN s.is_stored THEN '' ELSE s.stop END)
    WHERE s.tool_pk IS NOT NULL
    """,
    # What is stopped does not become current, unless nothing of the tool was let through so far.
    """
    UPDATE catalog_tool t SET current_id = s.version_pk, tool_id = s.tool_id, name = s.name, title = s.title,
        description = s.description, tags = s.tags, tokens = s.tokens, changed_at = now(),
        stopped_id = CASE WHEN s.stop <> '' THEN s.version_pk END,
        version_count = t.version_count + (NOT s.is_stored)::int, versions_read_at = NULL
    FROM staged_tool s WHERE s.tool_pk = t.id AND (s.stop = '' OR t.stopped_id = t.current_id)
    """,
    """
    UPDATE catalog_tool t SET stopped_id = s.version_pk, tool_id = s.tool_id,
        version_count = t.version_count + (NOT s.is_stored)::int, versions_read_at = NULL
    FROM staged_tool s
    WHERE s.tool_pk = t.id AND s.stop <> '' AND t.current_id <> s.version_pk
        AND t.stopped_id IS DISTINCT FROM t.current_id
    """,
    # Same label, other bytes: the promise that a published version never changes is broken.
    """
    INSERT INTO catalog_finding (endpoint_id, tool_id, version_id, run_id, code, severity, subject, message,
        state, note, raised_at, against_id)
    SELECT %(endpoint)s, s.tool_pk, s.version_pk, %(run)s, 'DRIFT', 'high', s.digest,
        'The vendor changed version ' || s.label || ' of “' || left(s.name, 200) ||
        '” in place. Agents that pinned it keep what they pinned.', 'open', '', now(),
        (SELECT v.id FROM catalog_toolversion v
        WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.id <> s.version_pk
        ORDER BY v.ordinal DESC LIMIT 1)
    FROM staged_tool s
    WHERE s.tool_pk IS NOT NULL AND s.label <> '' AND NOT s.is_stored AND EXISTS (
        SELECT FROM catalog_toolversion v
        WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.digest <> s.digest)
    ON CONFLICT DO NOTHING
    """,
)

HOLD = (
    """
    INSERT INTO catalog_finding (endpoint_id, tool_id, version_id, run_id, code, severity, subject, message,
        state, note, raised_at, against_id)
    SELECT %(endpoint)s, t.id, s.version_pk, %(run)s, 'HELD', s.severity, s.digest,
        s.why, s.stop, '', now(), nullif(t.current_id, s.version_pk)
    FROM staged_tool s JOIN catalog_tool t ON t.id = coalesce(s.tool_pk, s.new_pk)
    WHERE s.stop <> '' AND s.why <> ''
    ON CONFLICT DO NOTHING
    """,
)


def _respell(tools: Mapping[int, str]) -> None:
    """URLs take the newest spelling of an id: a server may be strict."""
    if tools:
        with connection.cursor() as cursor:
            cursor.execute(RESPELL, [list(tools), list(tools.values())])


RESPELL = """
UPDATE catalog_tool t SET tool_id = s.tool_id FROM unnest(%s::bigint[], %s::text[]) s (pk, tool_id)
WHERE t.id = s.pk
"""


def _withdraw(run: Run, tools: Sequence[int]) -> None:
    if tools:
        Tool.objects.filter(pk__in=tools).update(status=ToolStatus.WITHDRAWN, changed_at=Now())
        Withdrawal.objects.bulk_create([Withdrawal(tool_id=pk, run=run) for pk in tools])


def _return(run: Run, tools: Sequence[int]) -> None:
    if tools:
        Tool.objects.filter(pk__in=tools).update(status=ToolStatus.ACTIVE, changed_at=Now())
        Withdrawal.objects.filter(tool__in=tools, returned_run=None).update(returned_run=run)


def finish(run: Run, may_resume: bool = False, /, **changes: object) -> bool:
    """The last word on a run, if it is still ours. Only one that broke off leaves replies to go on from."""
    ours = Run.objects.filter(pk=run.pk, attempt=run.attempt, status=RunStatus.RUNNING)
    is_ours = bool(ours.update(finished_at=Now(), lease_until=None, **changes))
    if is_ours:
        if not may_resume:
            KeptReply.objects.filter(endpoint=run.endpoint_id).delete()
        outcome = str(changes.get("error_code", "ok"))
        transaction.on_commit(partial(RUNS.add, run.endpoint.protocol, outcome))
    return is_ours
