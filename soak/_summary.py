"""All storms in one table: faults by kind, kills, how long recovery took, and what went wrong."""

from collections import Counter
from typing import Any

from soak.frame import is_kill

Report = dict[str, Any]
HEAD = ("storm", "fault", "faults", "kills", "p50", "p95", "max", "limit")


def totals(reports: list[Report]) -> dict[str, int]:
    return {
        "faults": sum(len(each["faults"]) for each in reports),
        "kills": sum(is_kill(fault["kind"]) for each in reports for fault in each["faults"]),
        "violations": sum(len(each["violations"]) for each in reports),
        "not_run": sum(bool(each.get("not_run")) for each in reports),
        "interrupted": sum(bool(each.get("interrupted")) for each in reports),
    }


def status(reports: list[Report]) -> int:
    """1 for a violation, 2 when something was not played to its end, 0 when all is well."""
    sums = totals(reports)
    return 1 if sums["violations"] else 2 if sums["not_run"] or sums["interrupted"] else 0


def table(reports: list[Report]) -> str:
    """For people; faults without a recovery are left out."""
    rows = [HEAD, *(row for each in reports for row in _rows(each))]
    sums = totals(reports)
    rows.append(("all", "", f"{sums['faults']:,}", f"{sums['kills']:,}", "", "", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines += [f"NOT RUN  {each['storm']}: {each['not_run']}" for each in reports if each.get("not_run")]
    lines += [f"INTERRUPTED  {each['storm']}" for each in reports if each.get("interrupted")]
    lines += [f"VIOLATION  {each['storm']}: {says}" for each in reports for says in each["violations"]]
    return "\n".join([*lines, f"{sums['violations']} violations"])


def _rows(report: Report) -> list[tuple[str, ...]]:
    counts = Counter(fault["kind"] for fault in report["faults"])
    rows = []
    for kind, count in counts.items():
        took = report.get("recovery", {}).get(kind)
        seconds = [took[name] for name in ("p50", "p95", "worst", "limit")] if took else [None] * 4
        shown = ["" if each is None else f"{each:.1f} s" for each in seconds]
        rows.append((report["storm"], kind, f"{count:,}", f"{count:,}" if is_kill(kind) else "", *shown))
    return rows


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if column < 2 else cell.rjust(width)  # words to the left, figures to the right
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
