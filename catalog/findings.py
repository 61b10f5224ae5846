"""Decisions about findings."""

from typing import Literal

from django.db import transaction
from django.utils import timezone

from catalog.errors import CatalogError
from catalog.models import Finding
from catalog.models.findings import FindingState
from people import audit
from people.models import User

Decision = Literal["accept", "block"]
LONGEST_NOTE = 2_000
STATES = {"accept": FindingState.ACCEPTED, "block": FindingState.BLOCKED}


@transaction.atomic
def resolve(finding: Finding, *, actor: User, decision: Decision, note: str = "") -> Finding:
    """A decision may be changed later; each one is audited."""
    if decision not in STATES:
        raise _invalid("decision", "Say “accept” or “block”.")
    if len(note) > LONGEST_NOTE:
        raise _invalid("note", f"A note has up to {LONGEST_NOTE:,} characters.")
    finding = Finding.objects.select_for_update(of=("self",)).select_related("tool").get(pk=finding.pk)
    before = {"state": finding.state, "note": finding.note}
    after = {"state": STATES[decision], "note": note}
    if after == before:
        return finding
    finding.state, finding.note = STATES[decision], note
    finding.resolved_by, finding.resolved_at = actor, timezone.now()
    finding.save(update_fields=["state", "note", "resolved_by", "resolved_at"])
    audit.record(actor, decision, finding, before=before, after=after)
    return finding


def _invalid(field: str, sentence: str) -> CatalogError:
    return CatalogError("invalid", sentence, fields={field: sentence})
