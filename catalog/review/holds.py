"""Versions that are held or blocked, and the transitions between these states.

A version's row never changes, so its review state is in findings: the one with the code `HELD` about the same
bytes, and any that is blocked. `Tool.stopped` is the listed version that is not offered.
docs/decisions/0009-held-versions.md has the reasons. Callers have locked the tool.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import Case, Exists, OuterRef, QuerySet, TextChoices, Value, When
from django.db.models.functions import JSONArray, Now
from django.utils.translation import gettext_lazy as _

from catalog.models import Endpoint, Finding, Run, Tool, ToolVersion
from catalog.models.findings import HELD, FindingState, Severity
from catalog.rules.policy import Stop
from catalog.token_estimate import tokens_of
from catalog.tools import effective_texts
from catalog.tools.versions import about_version, notify_moved, predecessor, stopping
from core.compiled_queries import PreparedQuery, is_any_of, named_keys

# A finding that stops a version: the tool, the digest, the version and the state.
Stopping = tuple[int, str, int | None, str]


@dataclass(frozen=True, slots=True)
class Caught:
    """A recorded version that the endpoint's policy stops after the run."""

    tool: int
    version: int
    digest: str
    named: str
    stop: Stop


def findings_about(tool: int, digest: str) -> QuerySet[Finding]:
    """Return the findings about the tool's versions with this digest."""
    return Finding.objects.filter(tool=tool, subject=digest)


def review_state(version: ToolVersion) -> FindingState | None:
    """Return `OPEN` for a held version, `BLOCKED`, or None if it may be called."""
    return review_states([version]).get(version.pk)


def pinning_state(version: ToolVersion) -> FindingState | None:
    """Return the review state that prevents pinning. `OPEN` while a decision about it waits, `BLOCKED`, or
    None when it may be pinned.
    """
    return pinning_states([version]).get(version.pk)


def pinning_states(versions: Iterable[ToolVersion]) -> dict[int, FindingState]:
    """Return the states by primary key of the versions that must not be pinned.

    Stricter than `review_states`: a release with such a version continues to run it.
    """
    versions = list(versions)
    rows = _REFUSING_PINS.rows(tools=list({version.tool_id for version in versions}))
    return states_by(rows, versions)


def is_about(finding: Finding, version: ToolVersion) -> bool:
    """Return whether the finding is about this version, or about an identical version of its tool."""
    return finding.tool_id == version.tool_id and (
        finding.subject == version.digest or finding.version_id == version.pk
    )


def waiting_about_version() -> QuerySet[Finding]:
    """Return the findings about the version of the outer query that wait for a decision."""
    return about_version().waiting()


def review_states(versions: Iterable[ToolVersion]) -> dict[int, FindingState]:
    """Return the states by primary key of the versions that are held or blocked."""
    versions = list(versions)
    return states_by(_STOPPING.rows(tools=list({version.tool_id for version in versions})), versions)


def states_by(stopping: Iterable[Stopping], versions: Iterable[ToolVersion]) -> dict[int, FindingState]:
    """Return the review states from the stopping findings of the tools. Pure."""
    by_bytes: dict[tuple[int, str], set[int]] = {}
    for row in versions:
        by_bytes.setdefault((row.tool_id, row.digest), set()).add(row.pk)
    pks = set().union(*by_bytes.values())
    states: dict[int, FindingState] = {}
    for tool, subject, version, state in stopping:
        for pk in by_bytes.get((tool, subject), set()) | (pks & {version}):
            is_blocked = FindingState.BLOCKED in (state, states.get(pk))
            states[pk] = FindingState.BLOCKED if is_blocked else FindingState.OPEN
    return states


def _rows_of_tools(findings: QuerySet[Finding]) -> QuerySet[Finding, Stopping]:
    rows = findings.filter(tool__in=named_keys("tools")).order_by()
    return rows.values_list("tool_id", "subject", "version_id", "state")


_REFUSING_PINS: PreparedQuery[Stopping] = PreparedQuery(
    lambda: _rows_of_tools(Finding.objects.refusing_pins())
)
_STOPPING: PreparedQuery[Stopping] = PreparedQuery(lambda: _rows_of_tools(Finding.objects.stopping()))


def stopping_of_tool() -> ArraySubquery:
    """Return a subquery for versions with the input of `states_by` as JSON."""
    rows = Finding.objects.stopping().filter(tool=OuterRef("tool")).order_by()
    return ArraySubquery(rows.values(told=JSONArray("tool_id", "subject", "version_id", "state")))


def under_review(versions: Iterable[ToolVersion]) -> dict[int, Finding]:
    """Return the most severe waiting finding by primary key, whether or not it holds the version."""
    by_bytes: dict[tuple[int, str], set[int]] = {}
    for version in versions:
        by_bytes.setdefault((version.tool_id, version.digest), set()).add(version.pk)
    pks = set().union(*by_bytes.values())
    rows = _OPEN_FINDINGS.rows(tools=list({tool for tool, _unused in by_bytes}))
    findings: dict[int, Finding] = {}
    for row in sorted(
        rows, key=lambda version: (Severity.values.index(version.severity), version.code != HELD)
    ):
        about = by_bytes.get((row.tool_id, row.subject), set()) | ({row.version_id} & pks)
        findings |= dict.fromkeys((pk for pk in about if pk is not None), row)
    return findings


_OPEN_FINDINGS: PreparedQuery[Finding] = PreparedQuery(
    lambda: Finding.objects.filter(is_any_of("catalog_finding.tool_id", "tools"), state=FindingState.OPEN)
)


class ReviewState(TextChoices):
    OFFERED = "offered", _("May be pinned")
    HELD = "held", _("Waits for review")
    BLOCKED = "blocked", _("Blocked")


def with_review_state(versions: QuerySet[ToolVersion]) -> QuerySet[ToolVersion]:
    """Annotate each version with its `review_state`, for lists."""
    return versions.annotate(
        review_state=Case(
            When(Exists(stopping().filter(state=FindingState.BLOCKED)), then=Value(ReviewState.BLOCKED)),
            When(Exists(about_version().refusing_pins()), then=Value(ReviewState.HELD)),
            default=Value(ReviewState.OFFERED),
        )
    )


def let_through(tool: Tool, version: ToolVersion) -> bool:
    """Make the version current. Return False if the vendor has listed another one meanwhile."""
    if tool.stopped_id != version.pk:
        return False
    _make_current(tool, version)
    tool.stopped = None
    tool.save(update_fields=[*_COPIED, "current", "stopped", "changed_at"])
    if tool.is_tuned:
        effective_texts.refresh([tool.pk])
    notify_moved([tool.pk])
    return True


def keep_out(tool: Tool, version: ToolVersion) -> None:
    """Make the version before it current again, if `let_through` has made this one current."""
    if tool.current_id != version.pk or tool.stopped_id == version.pk:
        return
    if tool.stopped_id is None:
        tool.stopped = version
    others = tool.versions.exclude(pk=version.pk).exclude(Exists(stopping()))
    if before := predecessor(version, is_offered=True) or others.first():
        _make_current(tool, before)
    tool.save(update_fields=[*_COPIED, "current", "stopped", "changed_at"])
    if tool.is_tuned:
        effective_texts.refresh([tool.pk])


_COPIED = ("name", "title", "description", "tags", "tokens")


def _make_current(tool: Tool, version: ToolVersion) -> None:
    signature = version.decoded()
    tool.current = version
    tool.name, tool.title, tool.description = signature.name, signature.title, signature.description
    tool.tags, tool.tokens = list(signature.tags), tokens_of(signature)
    tool.changed_at = Now()


def catch(endpoint: Endpoint, run: Run | None, caught: Sequence[Caught]) -> None:
    """Hold or block versions that are recorded already. New tools, of which there may be many, in one go."""
    if not caught:
        return
    findings = [
        Finding(
            endpoint=endpoint,
            tool_id=caught_version.tool,
            version_id=caught_version.version,
            run=run,
            code=HELD,
            severity=caught_version.stop.severity,
            subject=caught_version.digest,
            message=f"{caught_version.named} {caught_version.stop.predicate}",
            state=caught_version.stop.state,
        )
        for caught_version in caught
    ]
    Finding.objects.bulk_create(findings, ignore_conflicts=True)
    # Some may have been decided about before, when this is not the first time.
    stored = ToolVersion.objects.filter(pk__in=[caught_version.version for caught_version in caught])
    versions = list(review_states(stored.only("tool", "digest")))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE catalog_tool SET stopped_id = current_id "
            "WHERE current_id = ANY(%s) AND version_count = 1 AND stopped_id IS NULL",
            [versions],
        )
    for tool in (
        Tool.objects.filter(current__in=versions, stopped=None).order_by("pk").select_for_update(no_key=True)
    ):
        if tool.current:
            keep_out(tool, tool.current)
