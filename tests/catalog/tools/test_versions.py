"""The version that a label means, and the version with which another one is compared."""

import pytest

from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, Tool
from catalog.models.runs import Trigger
from catalog.review import decisions
from catalog.tools import versions
from people.models import Role
from tests.factories import make_endpoint, make_tool, make_user, make_version
from tests.vendor import tool

pytestmark = pytest.mark.django_db


def make_finding(version, **fields):
    facts = {"endpoint": version.tool.endpoint, "tool": version.tool, "version": version, "severity": "high"}
    return Finding.objects.create(
        **{"code": "HELD", "subject": version.digest, "message": "."} | facts | fields
    )


def of_labels(*labels):
    """A tool whose versions were read in this order, after version 1."""
    row = make_tool()
    for label in labels:
        make_version(row, label=label, is_current=False)
    return row


def before(version) -> str | None:
    predecessor = versions.predecessor(version)
    return predecessor.name if predecessor else None


def test_history_that_is_read_later_stands_before_what_is_there():
    row = of_labels("4", "2", "3", "5")
    assert [before(row.versions.get(label=label)) for label in ("3", "4", "5")] == ["2", "3", "4"]


def test_a_rewritten_version_follows_the_one_that_it_replaces():
    row = of_labels("2", "2", "2")
    first, second, third = row.versions.filter(label="2").order_by("ordinal")
    assert (before(first), before(second)) == ("1", "2")
    assert second.name.startswith("2, rewritten on ")
    assert versions.predecessor(third) == second


def test_what_was_never_let_through_is_no_predecessor_of_what_was():
    row = of_labels("2", "3")
    make_finding(row.versions.get(label="2"))
    assert before(row.versions.get(label="3")) == "1"


def test_where_nothing_was_let_through_the_last_one_is_compared():
    row = of_labels("2")
    make_finding(row.versions.get(label="1"))
    assert before(row.versions.get(label="2")) == "1"


def test_a_version_that_is_kept_out_is_compared_with_the_one_in_effect():
    row = of_labels("2", "3")
    row.current, row.stopped = row.versions.get(label="2"), row.versions.get(label="1")
    row.save()
    assert before(row.stopped) == "2"


def test_the_first_version_has_no_predecessor():
    assert before(make_tool().current) is None


def test_a_label_means_the_text_in_effect_and_the_ordinal_beside_it_another():
    row = of_labels("2", "2", "3")
    first, second = row.versions.filter(label="2").order_by("ordinal")
    row.current = first
    row.save()
    assert versions.find_version(row, version="2") == first
    row.current = row.versions.get(label="3")
    assert versions.find_version(row, version="2") == second
    make_finding(second)
    assert versions.find_version(row, version="2") == first
    assert versions.find_version(row, version="2", ordinal=second.ordinal) == second


def test_the_label_wins_over_an_ordinal_that_means_another_version():
    row = of_labels("3", "2")
    assert versions.find_version(row, version="2", ordinal=2).label == "2"
    assert versions.find_version(row, ordinal=2).label == "3"
    assert versions.find_version(row, version="4") is None


def test_where_a_vendor_numbers_nothing_the_ordinal_stands_in():
    row = make_tool()
    first = row.versions.get()
    unlabelled = row.versions.create(
        ordinal=2, label="", digest="2", signature=first.signature, raw=first.raw
    )
    assert versions.find_version(row, version="2") == unlabelled
    assert versions.find_version(row, version="²") is None


def test_an_unknown_version_is_answered_with_those_that_are_there():
    row = of_labels("2", "3", "4")
    message = versions.unknown_version_message(row, version="9")
    assert message == f"“{row}” has no version “9”. It has “4”, “3”, “2” and others."


@pytest.mark.django_db(transaction=True)
def test_a_block_puts_the_vendors_version_before_in_effect_whatever_was_read_last(vendor):
    """Version 3 is listed, 1 and 2 come out of history, 4 follows: blocking it goes back to 3."""
    vendor.listed = [tool(1, 3)]
    vendor.history = {
        tool(1)["toolId"]: [tool(1, number, description=f"As of {number}") for number in (2, 1)]
    }
    endpoint = make_endpoint(url=vendor.url)
    enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    older_versions.read_all(endpoint.pk)
    vendor.listed = [tool(1, 4, input_parameters=[])]
    enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    finding = Finding.objects.get(code="BREAKING")
    assert (finding.version.label, finding.against.label) == ("4", "3")

    decisions.resolve(finding, actor=make_user(Role.ADMIN), decision="block")

    assert Tool.objects.get().current.label == "3"
