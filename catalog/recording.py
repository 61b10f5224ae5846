"""Writes what one run has read into the catalog: COPY into a private table, then one transaction.

The staging table is temporary: it belongs to one connection, so a killed run leaves nothing behind.
Ids are drawn while staging, so a new tool and its first version, which point at each other, are each
written once. No statement here runs per tool.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.utils import timezone

from catalog.crashpoints import crashpoint
from catalog.models import Endpoint, Finding, KnownPage, Rejection, Run, Tool, Withdrawal
from catalog.models.runs import RunStatus
from catalog.models.tools import ToolStatus

REJECTIONS_KEPT = 1_000


class LostLeaseError(Exception):
    """Another worker has taken this run up; nothing may be written for it any more."""


@dataclass(frozen=True, slots=True)
class StagedTool:
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


@dataclass(slots=True)
class Harvest:
    """What one complete reading found, beside the staged tools."""

    pages: int = 0
    seen: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    was_active: int = 0
    missing: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: dict[str, dict[str, object]] = field(default_factory=dict)
    known_pages: list[KnownPage] | None = None


COLUMNS = ", ".join(StagedTool.__dataclass_fields__)

CREATE = """
CREATE TEMP TABLE IF NOT EXISTS staged_tool (
    tool_pk bigint, tool_id text NOT NULL, label text NOT NULL, label_key bigint[] NOT NULL,
    digest text NOT NULL, name text NOT NULL, title text NOT NULL, description text NOT NULL,
    tags text[] NOT NULL, tokens integer NOT NULL, signature jsonb NOT NULL, raw text NOT NULL,
    new_pk bigint NOT NULL DEFAULT nextval(pg_get_serial_sequence('catalog_tool', 'id')),
    version_pk bigint NOT NULL DEFAULT nextval(pg_get_serial_sequence('catalog_toolversion', 'id')),
    is_stored boolean NOT NULL DEFAULT false
)
"""


class Stage:
    """The staging table of this connection. One COPY at a time runs beside the reading thread.

    Leave the connection alone between `put` and `settle`: a COPY may be under way on it.
    """

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(CREATE)
            cursor.execute("TRUNCATE staged_tool")
        self._raw = connection.connection
        self._copying: Future[None] | None = None

    def __enter__(self) -> "Stage":
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stage")
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.shutdown(wait=True)

    def put(self, tools: Sequence[StagedTool]) -> None:
        self.settle()
        self._copying = self._thread.submit(self._copy, tools)

    def settle(self) -> None:
        """Wait until the last chunk is in the table; raises what went wrong with it."""
        if self._copying:
            copying, self._copying = self._copying, None
            copying.result()

    def _copy(self, tools: Sequence[StagedTool]) -> None:
        with self._raw.cursor() as cursor, cursor.copy(f"COPY staged_tool ({COLUMNS}) FROM STDIN") as rows:
            rows.write("".join([_copy_line(tool) for tool in tools]))


COPY_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def _copy_line(tool: StagedTool) -> str:
    """One row in the text format of COPY. Half the time of adapting every value by its type."""
    tags = ",".join(['"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"' for tag in tool.tags])
    texts = (
        *(tool.tool_id, tool.label, f"{{{','.join(map(str, tool.label_key))}}}", tool.digest),
        *(tool.name, tool.title, tool.description, f"{{{tags}}}", str(tool.tokens), tool.signature, tool.raw),
    )
    return "\t".join([str(tool.tool_pk or r"\N"), *(text.translate(COPY_ESCAPES) for text in texts)]) + "\n"


def unstage(tool_ids: Iterable[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM staged_tool WHERE tool_id = ANY(%s)", [list(tool_ids)])


def count_staged() -> tuple[int, int]:
    """How many staged tools are new, and how many are changed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FILTER (WHERE tool_pk IS NULL), count(tool_pk) FROM staged_tool")
        added, changed = cursor.fetchone()
    return added, changed


def record(run: Run, harvest: Harvest) -> None:
    """One transaction, and only while `run.attempt` still holds the lease. Raises LostLeaseError."""
    with transaction.atomic():
        _succeed(run, harvest)
        crashpoint("record-locked")
        _merge(run)
        crashpoint("record-versions")
        _withdraw(run, harvest.missing)
        _return(run, harvest.returned)
        crashpoint("record-withdrawn")
        Rejection.objects.bulk_create(harvest.rejections[:REJECTIONS_KEPT])
        Finding.objects.bulk_create(harvest.findings, ignore_conflicts=True)
        _raise_drift(run)
        if harvest.known_pages is not None:
            KnownPage.objects.filter(endpoint=run.endpoint_id).delete()
            KnownPage.objects.bulk_create(harvest.known_pages)
        crashpoint("record-commit")


def _succeed(run: Run, harvest: Harvest) -> None:
    """First in the transaction: it takes the run's row lock, and shows whether the lease still holds."""
    is_ours = finish(
        run,
        status=RunStatus.SUCCEEDED,
        pages=harvest.pages,
        seen=harvest.seen,
        added=harvest.added,
        changed=harvest.changed,
        unchanged=harvest.unchanged,
        withdrawn=len(harvest.missing),
        returned=len(harvest.returned),
        rejected=len(harvest.rejections),
        notes=list(harvest.notes.values()),
    )
    if not is_ours:
        raise LostLeaseError
    Endpoint.objects.filter(pk=run.endpoint_id).update(
        failures=0, error_code="", error_message="", last_success_at=timezone.now(), held_run=None
    )


def _merge(run: Run) -> None:
    with connection.cursor() as cursor:
        for statement in MERGE:
            cursor.execute(statement, {"endpoint": run.endpoint_id, "run": run.pk})


MERGE = (
    # Changed tools only: versions that another reader of the same tool is adding wait here.
    """
    SELECT t.id FROM catalog_tool t JOIN staged_tool s ON s.tool_pk = t.id ORDER BY t.id FOR UPDATE OF t
    """,
    # The vendor went back to bytes that we already hold: that version becomes current again.
    """
    UPDATE staged_tool s SET version_pk = v.id, is_stored = true FROM catalog_toolversion v
    WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.digest = s.digest
    """,
    """
    INSERT INTO catalog_tool (id, endpoint_id, tool_id, status, current_id, name, title, description, tags,
        tokens, version_count, first_seen_at, changed_at)
    SELECT new_pk, %(endpoint)s, tool_id, 'active', version_pk, name, title, description, tags,
        tokens, 1, now(), now()
    FROM staged_tool WHERE tool_pk IS NULL
    """,
    """
    INSERT INTO catalog_toolversion (id, tool_id, ordinal, label, label_key, digest, signature, raw, tokens,
        run_id, first_seen_at)
    SELECT s.version_pk, coalesce(s.tool_pk, s.new_pk), coalesce(t.version_count, 0) + 1, s.label,
        s.label_key, s.digest, s.signature, s.raw, s.tokens, %(run)s, now()
    FROM staged_tool s LEFT JOIN catalog_tool t ON t.id = s.tool_pk
    WHERE NOT s.is_stored
    """,
    """
    UPDATE catalog_tool t SET current_id = s.version_pk, name = s.name, title = s.title,
        description = s.description, tags = s.tags, tokens = s.tokens, changed_at = now(),
        version_count = t.version_count + (NOT s.is_stored)::int, versions_read_at = NULL
    FROM staged_tool s WHERE s.tool_pk = t.id
    """,
)


def _withdraw(run: Run, tools: Sequence[int]) -> None:
    if tools:
        Tool.objects.filter(pk__in=tools).update(status=ToolStatus.WITHDRAWN, changed_at=timezone.now())
        Withdrawal.objects.bulk_create([Withdrawal(tool_id=pk, run=run) for pk in tools])


def _return(run: Run, tools: Sequence[int]) -> None:
    if tools:
        Tool.objects.filter(pk__in=tools).update(status=ToolStatus.ACTIVE, changed_at=timezone.now())
        Withdrawal.objects.filter(tool__in=tools, returned_run=None).update(returned_run=run)


def _raise_drift(run: Run) -> None:
    """Same label, other bytes: the promise that a published version never changes is broken."""
    with connection.cursor() as cursor:
        cursor.execute(DRIFT, {"endpoint": run.endpoint_id, "run": run.pk})


DRIFT = """
INSERT INTO catalog_finding (endpoint_id, tool_id, version_id, run_id, code, severity, subject, message,
    state, note, raised_at)
SELECT %(endpoint)s, s.tool_pk, s.version_pk, %(run)s, 'DRIFT', 'high', s.digest,
    'The vendor changed version ' || s.label || ' of “' || left(s.name, 200) ||
    '” in place. Agents that pinned it keep what they pinned.', 'open', '', now()
FROM staged_tool s
WHERE s.tool_pk IS NOT NULL AND s.label <> '' AND NOT s.is_stored AND EXISTS (
    SELECT FROM catalog_toolversion v
    WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.digest <> s.digest)
ON CONFLICT DO NOTHING
"""


def finish(run: Run, **changes: object) -> bool:
    """The last word on a run, if it is still ours."""
    return bool(
        Run.objects.filter(pk=run.pk, attempt=run.attempt, status=RunStatus.RUNNING).update(
            finished_at=timezone.now(), lease_until=None, **changes
        )
    )
