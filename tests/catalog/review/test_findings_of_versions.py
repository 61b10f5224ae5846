"""A decision about a finding is one about the exact bytes that it speaks of."""

import pytest

from catalog.models import Finding
from catalog.review import decisions, holds
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
