from types import SimpleNamespace

from tests.faults import tally


def _report(test: str, *, failed: bool = False, **noted) -> SimpleNamespace:
    return SimpleNamespace(nodeid=f"tests/{test}", failed=failed, user_properties=[(tally.PROPERTY, noted)])


def test_the_last_lines_count_faults_recoveries_and_what_went_wrong():
    lines = tally.summary(
        [
            _report("faults/a", faults=["worker killed"] * 2, recoveries=[["worker killed", 1.25]]),
            _report("faults/b", failed=True, faults=["disk full"], recoveries=[]),
            _report("other/c", failed=True, faults=[], recoveries=[]),
        ]
    )

    assert lines == [
        "3 faults, 2 of them kill -9, 1 violations",
        "    2 x worker killed; well again: p50 1.25 s, p95 1.25 s, max 1.25 s, n=1",
        "    1 x disk full",
    ]
    assert tally.summary([_report("other/c", faults=[], recoveries=[])]) == []


def test_what_is_taken_is_not_taken_again():
    tally.take()
    tally.fault("disk full")
    tally.recovery("disk full", 2)

    assert tally.take() == {"faults": ["disk full"], "recoveries": [("disk full", 2)]}
    assert tally.take() == {"faults": [], "recoveries": []}
