"""A decision about a finding is one about the exact bytes that it speaks of."""

import pytest

from catalog.models import Finding
from catalog.review import decisions, holds
from core.errors import DomainError
from people.models import AuditEntry, Role
from tests.factories import make_signature, make_tool, make_user, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def tool():
    return make_tool(name="forecast")


def make_finding(version, code="BIDI_CONTROL", severity="high", **fields) -> Finding:
    facts = {"subject": version.digest, "message": code, "endpoint": version.tool.endpoint}
    return Finding.objects.create(
        tool=version.tool, version=version, code=code, severity=severity, **{**facts, **fields}
    )


def hold(tool, words="New words"):
    """Another version that waits behind the first."""
    version = make_version(tool, make_signature(tool.name, description=words), is_current=False)
    tool.stopped = version
    tool.save()
    return version


def states(*rows):
    return [Finding.objects.get(pk=row.pk).state for row in rows]


def test_accepting_covers_what_is_no_more_severe(tool):
    version = hold(tool)
    held_finding, low, high = (
        make_finding(version, "HELD", "medium"),
        make_finding(version, "STEERING", "low", state="noted"),
        make_finding(version, "OVERRIDE", "high"),
    )

    decisions.resolve(held_finding, actor=make_user(Role.ADMIN), decision="accept")
    assert states(held_finding, low, high) == ["accepted", "accepted", "open"]

    decisions.resolve(high, actor=make_user(Role.ADMIN), decision="accept")
    assert states(held_finding, low, high) == ["accepted"] * 3


def test_accepting_a_trifle_lets_nothing_through(tool):
    version = hold(tool)
    held_finding, low = make_finding(version, "HELD", "high"), make_finding(version, "STEERING", "low")

    decisions.resolve(low, actor=make_user(Role.ADMIN), decision="accept")

    tool.refresh_from_db()
    assert (states(held_finding, low), tool.stopped) == (["open", "accepted"], version)


def test_blocking_covers_everything_about_the_bytes(tool):
    version = hold(tool)
    rows = make_finding(version, "HELD", "high"), make_finding(version, "STEERING", "low", state="noted")
    other = make_finding(tool.current, "OVERRIDE")

    decisions.resolve(rows[1], actor=make_user(Role.ADMIN), decision="block")

    assert states(*rows, other) == ["blocked", "blocked", "open"]
    assert holds.review_state(version) == "blocked"


def test_accepting_the_alarm_lets_the_held_version_through(tool):
    version = hold(tool)
    make_finding(version, "HELD", "high")

    decisions.resolve(make_finding(version), actor=make_user(Role.ADMIN), decision="accept")

    tool.refresh_from_db()
    assert (tool.current, tool.stopped, tool.description) == (version, None, "New words")
    assert AuditEntry.objects.get().after["current"] == "2"


def test_blocking_what_is_current_brings_back_the_version_before(tool):
    first = tool.current
    second = make_version(tool, make_signature(tool.name, description="New words"))
    finding = make_finding(second, "DRIFT")

    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="block")
    tool.refresh_from_db()
    assert (tool.current, tool.stopped, tool.description) == (first, second, first.decoded().description)

    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="accept")
    tool.refresh_from_db()
    assert (tool.current, tool.stopped) == (second, None)


def test_a_blocked_version_is_not_brought_back(tool):
    admin, first = make_user(Role.ADMIN), tool.current
    second = make_version(tool, make_signature(tool.name, description="New words"))
    for version in (first, second):
        decisions.resolve(make_finding(version), actor=admin, decision="block")
    tool.refresh_from_db()
    assert (tool.current, tool.stopped) == (second, second)


@pytest.mark.parametrize("is_blocked", [False, True])
def test_blocking_what_the_vendor_went_back_to_brings_back_the_later_one_unless_that_is_blocked(
    tool, is_blocked
):
    admin, first = make_user(Role.ADMIN), tool.current
    later = make_version(tool, make_signature(tool.name, description="New words"), is_current=False)
    if is_blocked:
        decisions.resolve(make_finding(later), actor=admin, decision="block")
    decisions.resolve(make_finding(first), actor=admin, decision="block")
    tool.refresh_from_db()
    assert (tool.current, tool.stopped) == (first if is_blocked else later, first)


def test_blocking_the_only_version_leaves_it_listed_and_not_offered(tool):
    decisions.resolve(make_finding(tool.current), actor=make_user(Role.ADMIN), decision="block")

    tool.refresh_from_db()
    assert tool.current == tool.stopped
    assert holds.review_state(tool.current) == "blocked"


def test_accepting_what_the_vendor_has_left_behind_moves_nothing(tool):
    older = hold(tool)
    held_finding = make_finding(older, "HELD", "medium")
    newer = hold(tool, "Newer words")

    decisions.resolve(held_finding, actor=make_user(Role.ADMIN), decision="accept")

    tool.refresh_from_db()
    assert (tool.current.ordinal, tool.stopped) == (1, newer)
    assert holds.review_state(older) is None


def test_review_state_is_that_of_the_bytes_whatever_their_label(tool):
    document = tool.current.decoded()
    same = make_version(tool, document, label="again", is_current=False)
    make_finding(tool.current, state="blocked")

    assert holds.review_states([tool.current, same]) == {tool.current.pk: "blocked", same.pk: "blocked"}


def test_a_decision_taken_back_restores_all_that_it_covered(tool):
    ada, first, version = make_user(Role.ADMIN), tool.current, hold(tool)
    rows = make_finding(version, "HELD", "high"), make_finding(version, "STEERING", "low", state="noted")
    _, entry = decisions.decide(rows[0], actor=ada, decision="accept", note="Asked them")
    tool.refresh_from_db()
    assert (states(*rows), tool.current) == (["accepted", "accepted"], version)

    decisions.take_back(entry, actor=ada)

    tool.refresh_from_db()
    assert (states(*rows), tool.current, tool.stopped) == (["open", "noted"], first, version)
    restored = Finding.objects.get(pk=rows[0].pk)
    assert (restored.note, restored.resolved_by, restored.resolved_at) == ("", None, None)
    undone = AuditEntry.objects.latest("pk")
    assert (undone.action, undone.before["state"], undone.after["state"]) == ("reopen", "accepted", "open")
    assert str(entry.pk) in undone.why


def test_taking_back_a_change_of_a_decision_restores_the_decision_before(tool):
    ada, version = make_user(Role.ADMIN), hold(tool)
    row = make_finding(version, "HELD", "high")
    decisions.resolve(row, actor=ada, decision="block", note="No")
    _, entry = decisions.decide(row, actor=ada, decision="accept", note="Yes")

    decisions.take_back(entry, actor=ada)

    row.refresh_from_db()
    assert (row.state, row.note, holds.review_state(version)) == ("blocked", "No", "blocked")


def test_what_was_decided_by_itself_since_stays(tool):
    ada, version = make_user(Role.ADMIN), hold(tool)
    row, low = make_finding(version, "HELD", "high"), make_finding(version, "STEERING", "low")
    _, entry = decisions.decide(row, actor=ada, decision="accept")
    decisions.resolve(low, actor=ada, decision="accept", note="Looked at this one")

    decisions.take_back(entry, actor=ada)

    assert states(row, low) == ["open", "accepted"]


def test_a_decision_is_taken_back_once_by_whom_it_was_made_and_only_if_it_is_the_last(tool):
    ada, bob, version = make_user(Role.ADMIN), make_user(Role.ADMIN), hold(tool)
    row = make_finding(version, "HELD", "high")
    _, entry = decisions.decide(row, actor=ada, decision="accept")
    with pytest.raises(DomainError) as refused:
        decisions.take_back(entry, actor=bob)
    assert refused.value.code == "not_your_decision"
    decisions.take_back(entry, actor=ada)
    with pytest.raises(DomainError) as refused:
        decisions.take_back(entry, actor=ada)
    assert refused.value.code == "decision_changed"
    assert decisions.decide(row, actor=ada, decision="accept")[1]
    assert decisions.decide(row, actor=ada, decision="accept")[1] is None
    with pytest.raises(DomainError):
        decisions.take_back(entry, actor=ada)
    assert states(row) == ["accepted"]
