"""All storms in one table: faults by kind, kills, how long recovery took, and what went wrong."""

from collections import Counter
from typing import Any

from soak.frame import is_kill

Report = dict[str, Any]
HEAD = ("storm", "fault", "faults", "kills", "p50", "p95", "max", "limit")


def totals(reports: list[Report]) -> dict[str, int]:
    return {
        "faults": sum(len(report["faults"]) for report in reports),
        "kills": sum(is_kill(fault["kind"]) for report in reports for fault in report["faults"]),
        "violations": sum(len(report["violations"]) for report in reports),
        "not_run": sum(bool(report.get("not_run")) for report in reports),
        "interrupted": sum(bool(report.get("interrupted")) for report in reports),
    }


def status(reports: list[Report]) -> int:
    """1 for a violation, 2 when something was not played to its end, 0 when all is well."""
    sums = totals(reports)
    return 1 if sums["violations"] else 2 if sums["not_run"] or sums["interrupted"] else 0


def table(reports: list[Report]) -> str:
    """For people; faults without a recovery are left out."""
    rows = [HEAD, *(row for report in reports for row in _rows(report))]
    sums = totals(reports)
    rows.append(("all", "", f"{sums['faults']:,}", f"{sums['kills']:,}", "", "", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines += [
        f"NOT RUN  {report['storm']}: {report['not_run']}" for report in reports if report.get("not_run")
    ]
    lines += [f"INTERRUPTED  {report['storm']}" for report in reports if report.get("interrupted")]
    lines += [
        f"VIOLATION  {report['storm']}: {violation}"
        for report in reports
        for violation in report["violations"]
    ]
    return "\n".join([*lines, f"{sums['violations']} violations"])


def _rows(report: Report) -> list[tuple[str, ...]]:
    counts = Counter(fault["kind"] for fault in report["faults"])
    rows = []
    for kind, count in counts.items():
        took = report.get("recovery", {}).get(kind)
        seconds = [took[name] for name in ("p50", "p95", "worst", "limit")] if took else [None] * 4
        cells = ["" if duration is None else f"{duration:.1f} s" for duration in seconds]
        rows.append((report["storm"], kind, f"{count:,}", f"{count:,}" if is_kill(kind) else "", *cells))
    return rows


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if column < 2 else cell.rjust(width)  # words to the left, figures to the right
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
