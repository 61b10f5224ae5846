"""Decisions about findings. A decision about the bytes of a version is a decision about that version."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.models import Finding, Tool, ToolVersion
from catalog.models.findings import FindingQuerySet, FindingState, Severity
from catalog.review import holds, inbox
from core.errors import DomainError
from core.query_deadline import long_transaction
from people import audit
from people.models import AuditEntry, User

Decision = Literal["accept", "block"]
MAX_NOTE_LENGTH = 2_000
STATES = {"accept": FindingState.ACCEPTED, "block": FindingState.BLOCKED}
KIND = "finding"  # of audit entries
OTHERS = "others"  # in audit entries: the states of the other findings that the decision covers


def resolve(finding: Finding, *, actor: User, decision: Decision, note: str = "") -> Finding:
    """Decide a finding as `decide` does, and return it."""
    return decide(finding, actor=actor, decision=decision, note=note)[0]


@transaction.atomic
def decide(
    finding: Finding, *, actor: User, decision: Decision, note: str = ""
) -> tuple[Finding, AuditEntry | None]:
    """Decide a finding. A decision may be changed later, and each one is audited.

    It applies to the other findings about the same bytes: a block to all of them, an acceptance to those that
    are not more severe. An accepted version becomes current if the vendor still lists it. The entry is None
    if the same was decided before.
    """
    if decision not in STATES:
        raise _invalid_error("decision", _("Choose “accept” or “block”."))
    if len(note) > MAX_NOTE_LENGTH:
        raise _invalid_error(
            "note",
            _("A note has up to {maximum} characters.").format(
                maximum=number_format(MAX_NOTE_LENGTH, force_grouping=True)
            ),
        )
    tool, finding = _lock_finding(finding)
    state = STATES[decision]
    if (finding.state, finding.note) == (state, note):
        return finding, None
    about = holds.findings_about(finding.tool_id, finding.subject).exclude(pk=finding.pk).exclude(state=state)
    if decision == "accept":
        order = Severity.values
        about = about.filter(severity__in=order[: order.index(finding.severity) + 1])
    others = dict(about.values_list("pk", "state"))
    before = _facts(finding, others)
    finding.state, finding.note = state, note
    finding.resolved_by, finding.resolved_at = actor, timezone.now()
    finding.save(update_fields=["state", "note", "resolved_by", "resolved_at"])
    if others:
        Finding.objects.filter(pk__in=others).update(
            state=state, resolved_by=actor, resolved_at=finding.resolved_at
        )
    after = _facts(finding, dict.fromkeys(others, state)) | _move_current(tool, finding)
    return finding, audit.record(actor, decision, finding, before=before, after=after, why=note)


@long_transaction()
def decide_all(
    findings: FindingQuerySet, *, actor: User, decision: Decision, note_of: Callable[[Finding], str]
) -> tuple[int, list[AuditEntry]]:
    """Decide up to `inbox.AT_ONCE` findings. Return their number and the audit entries."""
    # In the order in which a run locks tools, to avoid deadlocks.
    rows = list(findings.order_by("tool", "pk")[: inbox.AT_ONCE])
    entries = [decide(row, actor=actor, decision=decision, note=note_of(row))[1] for row in rows]
    return len(rows), [entry for entry in entries if entry]


@transaction.atomic
def take_back(entry: AuditEntry, *, actor: User) -> Finding:
    """Take back the decision that an audit entry records, and return its finding.

    It and the findings that the decision covered return to their states before. The tool's current version
    follows; pins that agents have made meanwhile stay. Raises DomainError if the entry is no decision of
    `actor`, or if the finding was decided again.
    """
    if entry.kind != KIND or entry.action not in STATES or entry.actor_id != actor.pk:
        raise DomainError("not_your_decision", _("You can take back only your own decisions."), status=409)
    tool, finding = _lock_finding(Finding.objects.get(pk=entry.object_id))
    if AuditEntry.objects.filter(kind=KIND, object_id=entry.object_id, pk__gt=entry.pk).exists():
        message = _("The decision about “{tool}” was changed or taken back already.").format(tool=tool)
        raise DomainError("decision_changed", message, status=409)
    earlier = entry.before or {}
    # A finding that somebody has decided by itself since stays as it is.
    covered = holds.findings_about(finding.tool_id, finding.subject).filter(
        pk__in=earlier.get(OTHERS, {}), resolved_at=finding.resolved_at
    )
    others = {row.pk: row for row in covered}
    before = _facts(finding, {pk: row.state for pk, row in others.items()})
    finding.note = earlier.get("note", finding.note)
    _restore_state(finding, earlier.get("state", finding.state), actor)
    for pk, row in others.items():
        _restore_state(row, earlier[OTHERS][str(pk)], actor)
    after = _facts(finding, {pk: row.state for pk, row in others.items()}) | _move_current(tool, finding)
    reason = f"Took back the decision of audit entry {entry.pk}."
    audit.record(actor, "reopen", finding, before=before, after=after, why=reason)
    return finding


def last_decision(finding: Finding) -> AuditEntry:
    """Return the entry of the last decision about a finding. Raises DomainError if there is none."""
    entries = AuditEntry.objects.filter(kind=KIND, object_id=str(finding.pk), action__in=STATES)
    if (entry := entries.first()) is None:
        raise DomainError("no_decision", _("No decision about this finding was made yet."), status=409)
    return entry


@long_transaction()
def take_back_all(entries: Sequence[int], *, actor: User) -> tuple[list[Finding], list[str]]:
    """Take back the decisions with these audit entries. Return their findings, and why others stay."""
    rows = AuditEntry.objects.filter(pk__in=entries, kind=KIND).order_by("pk")
    tools = dict(Finding.objects.filter(pk__in=[row.object_id for row in rows]).values_list("pk", "tool_id"))
    findings, refusals = [], []
    remaining = [row for row in rows if int(row.object_id) in tools]
    # In the order in which a run locks tools, to avoid deadlocks.
    for row in sorted(remaining, key=lambda row: (tools[int(row.object_id)], row.pk)):
        try:
            findings.append(take_back(row, actor=actor))
        except DomainError as error:
            refusals.append(error.message)
    return findings, refusals


def _lock_finding(finding: Finding) -> tuple[Tool, Finding]:
    """Lock the tool, as the recording of a run does first, then the finding."""
    tool = Tool.objects.select_for_update(no_key=True).get(pk=finding.tool_id)
    rows = Finding.objects.select_for_update(of=("self",), no_key=True).select_related("tool")
    return tool, rows.get(pk=finding.pk)


def _facts(finding: Finding, others: Mapping[int, str]) -> dict[str, Any]:
    """Return the values for an audit row."""
    states = {str(pk): state for pk, state in others.items()}
    return {"state": finding.state, "note": finding.note} | ({OTHERS: states} if states else {})


def _restore_state(finding: Finding, state: str, actor: User) -> None:
    finding.state = state
    is_decided = state in STATES.values()
    finding.resolved_by, finding.resolved_at = (actor, timezone.now()) if is_decided else (None, None)
    finding.save(update_fields=["state", "note", "resolved_by", "resolved_at"])


def _move_current(tool: Tool, finding: Finding) -> dict[str, object]:
    """Set the tool's current version after a decision. Return its change for the audit row."""
    previous = tool.current_id
    about = Q(digest=finding.subject) | Q(pk=finding.version_id)
    for version in ToolVersion.objects.filter(about, tool=tool):
        if holds.review_state(version):
            holds.keep_out(tool, version)
        else:
            holds.let_through(tool, version)
    if tool.current is None or tool.current_id == previous:
        return {}
    return {"current": tool.current.name}


def _invalid_error(field: str, sentence: str) -> DomainError:
    return DomainError("invalid", sentence, fields={field: sentence})
