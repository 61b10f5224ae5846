"""The waiting decisions, which triggers write, are those that a query finds among all findings."""

import random
import threading

import pytest
from django.db import connection, transaction

from catalog.models import Finding, ToolVersion, WaitingDecision
from catalog.models.findings import HELD, FindingState, Severity
from tests.factories import make_endpoint, make_signature, make_tool, make_version

CODES = (HELD, "ROLE", "ZERO_WIDTH", "DRIFT")


def make_versions(count: int) -> list[ToolVersion]:
    endpoint = make_endpoint()
    tools = [make_tool(name=f"tool_{n}", endpoint=endpoint) for n in range(count)]
    return [make_version(tool, make_signature(tool.name, description="Other words")) for tool in tools]


def finding(version: ToolVersion, code: str, severity: str, state: str = "open") -> Finding:
    return Finding(
        endpoint=version.tool.endpoint,
        tool=version.tool,
        version=version,
        code=code,
        severity=severity,
        subject=version.digest,
        message=code,
        state=state,
    )


def assert_decisions_are_exact() -> None:
    columns = ("tool_id", "subject", "endpoint_id", "severity", "code")
    expected = Finding.objects.filter(state=FindingState.OPEN).decisions().values_list("pk", *columns)
    assert set(WaitingDecision.objects.values_list("finding_id", *columns)) == set(expected)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(4))
def test_every_change_of_findings_changes_the_decisions(seed):
    dice = random.Random(seed)
    versions = make_versions(5)
    pairs = [(version, code) for version in versions for code in CODES]
    for _ in range(25):
        rows = list(Finding.objects.all())
        chosen_rows = dice.sample(rows, min(len(rows), dice.randint(0, 4)))
        change = dice.choice(("add", "add", "state", "severity", "delete"))
        if change == "add":
            new = [finding(*pair, dice.choice(Severity.values)) for pair in dice.sample(pairs, 4)]
            Finding.objects.bulk_create(new, ignore_conflicts=True)
        elif change == "state":
            for row in chosen_rows:
                row.state = dice.choice(FindingState.values)
            Finding.objects.bulk_update(chosen_rows, ["state"])
        elif change == "severity":
            Finding.objects.filter(pk__in=[row.pk for row in chosen_rows]).update(
                severity=dice.choice(Severity.values)
            )
        else:
            Finding.objects.filter(pk__in=[row.pk for row in chosen_rows]).delete()
        assert_decisions_are_exact()


def add(code: str, severity: str):
    return lambda version: finding(version, code, severity).save()


def close(code: str):
    return lambda version: Finding.objects.filter(tool=version.tool, code=code).update(state="accepted")


def reopen(code: str):
    return lambda version: Finding.objects.filter(tool=version.tool, code=code).update(state="open")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("before", "first", "second"),
    [
        ([], add("ROLE", "medium"), add("ZERO_WIDTH", "high")),
        ([], add("ZERO_WIDTH", "high"), add("ROLE", "medium")),
        ([add("ROLE", "high")], close("ROLE"), add("DRIFT", "low")),
        ([add("ROLE", "high")], add("DRIFT", "low"), close("ROLE")),
        ([add("ROLE", "high"), add("DRIFT", "medium")], close("ROLE"), close("DRIFT")),
        ([add("ROLE", "high"), add("DRIFT", "medium")], close("DRIFT"), close("ROLE")),
        ([add("ROLE", "high"), close("ROLE")], reopen("ROLE"), add("DRIFT", "medium")),
    ],
)
def test_concurrent_changes_leave_the_exact_decisions(before, first, second):
    (version,) = make_versions(1)
    for work in before:
        work(version)

    def in_thread() -> None:
        try:
            second(version)
        finally:
            connection.close()

    concurrent = threading.Thread(target=in_thread)
    with transaction.atomic():
        first(version)
        concurrent.start()
        concurrent.join(0.3)
    concurrent.join()

    assert_decisions_are_exact()


@pytest.mark.django_db(transaction=True)
def test_a_change_waits_for_the_decision_before_it_reads_the_findings():
    """A change that read the findings first would record the heaviest one of before that decision."""
    (version,) = make_versions(1)
    for work in (add("ROLE", "high"), add("DRIFT", "medium")):
        work(version)

    def in_thread() -> None:
        try:
            add("ZERO_WIDTH", "low")(version)
        finally:
            connection.close()

    concurrent = threading.Thread(target=in_thread)
    with transaction.atomic():
        WaitingDecision.objects.select_for_update().get()
        concurrent.start()
        with connection.cursor() as cursor:
            while concurrent.is_alive():
                # Not pg_stat_activity, which stays as it was at the first look of a transaction.
                cursor.execute(
                    "SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
                )
                if cursor.fetchone() is not None:
                    break
        close("ROLE")(version)
    concurrent.join()

    assert_decisions_are_exact()
