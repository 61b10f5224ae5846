"""The faults that the tests of this directory caused, for the last lines of `make test`.

The helpers that cause a fault note it here. A fixture adds it to the report of its test, which reaches the
process that prints from any worker.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

PROPERTY = "faults"
_faults: list[str] = []
_recoveries: list[tuple[str, float]] = []


def fault(kind: str) -> None:
    _faults.append(kind)


def recovery(kind: str, seconds: float) -> None:
    """Record the time from the fault's end, or from the kill, until all was well again."""
    _recoveries.append((kind, seconds))


def take() -> dict[str, list]:
    """Return and clear the entries since the last call."""
    counts = {"faults": _faults.copy(), "recoveries": _recoveries.copy()}
    _faults.clear()
    _recoveries.clear()
    return counts


def summary(reports: Iterable[Any]) -> list[str]:
    """Return faults by kind, the time until all was well, and the number of failed tests, from pytest's
    reports.
    """
    from soak.frame import Recovery, is_kill  # children that are forked by the dozen import this module, too

    reports = list(reports)
    noted = [value for report in reports for name, value in report.user_properties if name == PROPERTY]
    faults = Counter(kind for entry in noted for kind in entry["faults"])
    if not faults:
        return []
    failed = {
        report.nodeid for report in reports if report.failed and report.nodeid.startswith("tests/faults/")
    }
    kills = sum(count for kind, count in faults.items() if is_kill(kind))
    lines = [f"{faults.total()} faults, {kills} of them kill -9, {len(failed)} violations"]
    for kind, count in faults.most_common():
        seconds = [
            took for entry in noted for recovered_kind, took in entry["recoveries"] if recovered_kind == kind
        ]
        well = f"; well again: {Recovery.from_seconds(seconds, None)}" if seconds else ""
        lines.append(f"{count:5} x {kind}{well}")
    return lines
