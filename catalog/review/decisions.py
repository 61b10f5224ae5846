"""Decisions about findings. A decision about the bytes of a version is a decision about that version."""

from typing import Literal

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from catalog.models import Finding, Tool, ToolVersion
from catalog.models.findings import FindingState, Severity
from catalog.review import holds
from core.errors import DomainError
from people import audit
from people.models import User

Decision = Literal["accept", "block"]
MAX_NOTE_LENGTH = 2_000
STATES = {"accept": FindingState.ACCEPTED, "block": FindingState.BLOCKED}


@transaction.atomic
def resolve(finding: Finding, *, actor: User, decision: Decision, note: str = "") -> Finding:
    """Decide a finding. A decision may be changed later, and each one is audited.

    It applies to the other findings about the same bytes: a block to all of them, an acceptance to those that
    are not
    more severe. An accepted version becomes current if the vendor still lists it.
    """
    if decision not in STATES:
        raise _invalid("decision", "Say “accept” or “block”.")
    if len(note) > MAX_NOTE_LENGTH:
        raise _invalid("note", f"A note has up to {MAX_NOTE_LENGTH:,} characters.")
    # The tool first, as the recording of a run locks it.
    tool = Tool.objects.select_for_update(no_key=True).get(pk=finding.tool_id)
    finding = (
        Finding.objects.select_for_update(of=("self",), no_key=True).select_related("tool").get(pk=finding.pk)
    )
    before = {"state": finding.state, "note": finding.note}
    after = {"state": STATES[decision], "note": note}
    if after == before:
        return finding
    finding.state, finding.note = STATES[decision], note
    finding.resolved_by, finding.resolved_at = actor, timezone.now()
    finding.save(update_fields=["state", "note", "resolved_by", "resolved_at"])
    _decide_others(finding, decision)
    moved = _moved(tool, finding)
    audit.record(actor, decision, finding, before=before, after=after | moved, why=note)
    return finding


def _decide_others(finding: Finding, decision: Decision) -> None:
    others = holds.about(finding.tool_id, finding.subject).exclude(pk=finding.pk)
    if decision == "accept":
        order = Severity.values
        others = others.filter(severity__in=order[: order.index(finding.severity) + 1])
    others.exclude(state=finding.state).update(
        state=finding.state, resolved_by=finding.resolved_by, resolved_at=finding.resolved_at
    )


def _moved(tool: Tool, finding: Finding) -> dict[str, object]:
    # The change of the tool's current version, if there is one.
    was = tool.current_id
    about = Q(digest=finding.subject) | Q(pk=finding.version_id)
    for version in ToolVersion.objects.filter(about, tool=tool):
        if holds.review_state(version):
            holds.keep_out(tool, version)
        else:
            holds.let_through(tool, version)
    if tool.current is None or tool.current_id == was:
        return {}
    return {"current": tool.current.name}


def _invalid(field: str, sentence: str) -> DomainError:
    return DomainError("invalid", sentence, fields={field: sentence})
