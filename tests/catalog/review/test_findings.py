import pytest

from catalog.models import Finding
from catalog.review import decisions
from core.errors import DomainError
from people.models import AuditEntry, Role
from tests.factories import make_tool, make_user

pytestmark = pytest.mark.django_db


def make_finding(**fields) -> Finding:
    tool = make_tool()
    facts = {"code": "DRIFT", "severity": "high", "subject": "x", "message": "It changed in place."}
    return Finding.objects.create(**{"endpoint": tool.endpoint, "tool": tool, **facts, **fields})


@pytest.mark.parametrize(("decision", "state"), [("accept", "accepted"), ("block", "blocked")])
def test_decision_keeps_who_made_it_when_and_why(decision, state):
    finding, ada = make_finding(), make_user(Role.ADMIN, username="ada")

    resolved = decisions.resolve(finding, actor=ada, decision=decision, note="Talked to them.")

    finding.refresh_from_db()
    assert finding == resolved
    assert (finding.state, finding.note, finding.resolved_by) == (state, "Talked to them.", ada)
    assert finding.resolved_at
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_name, entry.label) == (decision, "ada", "It changed in place.")
    assert entry.before == {"state": "open", "note": ""}
    assert entry.after == {"state": state, "note": "Talked to them."}


def test_decision_may_be_changed_and_both_stay_in_the_trail():
    finding = make_finding()

    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="accept")
    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="block", note="No.")

    finding.refresh_from_db()
    assert finding.state == "blocked"
    assert [entry.before["state"] for entry in AuditEntry.objects.order_by("pk")] == ["open", "accepted"]


def test_same_decision_twice_is_one_decision():
    finding, first = make_finding(), make_user(Role.ADMIN)

    decisions.resolve(finding, actor=first, decision="accept", note="Fine.")
    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="accept", note="Fine.")

    finding.refresh_from_db()
    assert finding.resolved_by == first
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"decision": "shrug"}, "decision"), ({"decision": "accept", "note": "x" * 2_001}, "note")],
)
def test_what_is_no_decision_changes_nothing(arguments, field):
    finding = make_finding()

    with pytest.raises(DomainError) as refused:
        decisions.resolve(finding, actor=make_user(Role.ADMIN), **arguments)

    assert list(refused.value.fields) == [field]
    finding.refresh_from_db()
    assert finding.state == "open"
    assert not AuditEntry.objects.exists()
