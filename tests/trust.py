"""python -m tests.trust [STATEMENT]...: run the tests behind what docs/security.md promises; write a report.

`make trust` runs all of them and leaves trust-report.html. A statement is shown when every test that its line
names has passed; everything else is a red row, and ends this with status 1.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from xml.etree import ElementTree  # what pytest on this machine has written

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| ([A-Z]\d) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
NO_TEST = "**"  # bold in a line: the suite does not show it


@dataclass(frozen=True)
class Statement:
    """One line of the table; `tests` are files under tests/, each with a function or none for all of it."""

    name: str
    says: str
    shown_by: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        return TEST.findall(self.shown_by)

    @property
    def remark(self) -> str:
        """Return the line's text beside the names of tests; all of it if they do not suffice."""
        words = self.shown_by if NO_TEST in self.shown_by else TEST.sub("", self.shown_by)
        return re.sub(r"[*`]", "", words).strip(" ,;:\n")


@dataclass(frozen=True)
class Case:
    """One test that ran: `outcome` is passed, failed or skipped, `seconds` is how long it took."""

    file: str
    test: str
    outcome: str
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """`lines` are the named tests, each with what became of it."""

    statement: Statement
    is_shown: bool
    seconds: float
    lines: list[tuple[str, str]]


def statements() -> list[Statement]:
    return [Statement(*row) for row in ROW.findall((ROOT / "docs" / "security.md").read_text())]


def results(junit: Path) -> list[Case]:
    """Read the file of pytest's --junitxml."""
    return [_case(node) for node in ElementTree.parse(junit).iter("testcase")]


def _case(node: ElementTree.Element) -> Case:
    children = {child.tag for child in node}
    outcome = (
        "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
    )
    file = node.get("classname", "").removeprefix("tests.").replace(".", "/") + ".py"
    return Case(file, node.get("name", "").partition("[")[0], outcome, float(node.get("time", 0)))


def judge(statement: Statement, cases: list[Case]) -> Verdict:
    lines, seconds, is_shown = [], 0.0, bool(statement.tests) and NO_TEST not in statement.shown_by
    for file, test in statement.tests:
        own_cases = [case for case in cases if case.file == file and test in ("", case.test)]
        counts = {
            name: sum(own_case.outcome == name for own_case in own_cases)
            for name in ("failed", "skipped", "passed")
        }
        lines.append((f"{file}::{test}" if test else file, _words(counts)))
        is_shown &= bool(counts["passed"]) and not counts["failed"] and not counts["skipped"]
        seconds += sum(own_case.seconds for own_case in own_cases)
    return Verdict(statement, is_shown, seconds, lines)


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "not run"


STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1c2024, #eceef0); --muted: light-dark(#60646c, #a0a6ad);
  --paper: light-dark(#fff, #151718); --line: light-dark(#dfe3e6, #313538);
  --wash: light-dark(#ffefef, #3b191d); --good: light-dark(#18794e, #4cc38a);
  --bad: light-dark(#b4232c, #ff8589); }
body { margin: 0 auto; max-width: 75rem; padding: 1.5rem 1rem 4rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.6rem; } p { margin: .25rem 0 1.5rem; color: var(--muted); }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .6rem .75rem; border-top: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border: 0; color: var(--muted); font-weight: 500; font-size: .875rem; }
td:nth-child(2) { min-width: 12rem; } td:last-child { text-align: right; white-space: nowrap; }
ul { margin: .25rem 0 0; padding: 0; list-style: none; font-size: .875rem; }
code { overflow-wrap: anywhere; } small { color: var(--muted); }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
tr.is-red { background: var(--wash); }
@media (max-width: 45rem) { thead { display: none; } tr { display: block; padding: .75rem 0;
  border-top: 1px solid var(--line); } th, td { display: block; border: 0; padding: .1rem .5rem; }
  td:last-child { text-align: left; } }
"""


def page(verdicts: list[Verdict], when: datetime) -> str:
    """One file that needs nothing else."""
    shown_count, rows = sum(verdict.is_shown for verdict in verdicts), "\n".join(map(_row, verdicts))
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>What Pegboard promises</title><style>{STYLE}</style>
<h1>What Pegboard promises</h1>
<p>{shown_count} of {len(verdicts)} statements shown by tests that passed, {when:%Y-%m-%d %H:%M} UTC</p>
<table><thead><tr><th>No.<th>Statement<th>Shown by<th>Took</thead>
<tbody>
{rows}
</tbody></table>
</html>
"""


def _row(verdict: Verdict) -> str:
    state = '<span class="good">Shown</span>' if verdict.is_shown else '<span class="bad">Not shown</span>'
    items = "".join(
        f"<li><code>{escape(test)}</code> <small>{escape(what)}</small>" for test, what in verdict.lines
    )
    remark = f"<br><small>{escape(verdict.statement.remark)}</small>" if verdict.statement.remark else ""
    return (
        f'<tr{"" if verdict.is_shown else " class=is-red"}><th scope="row">{verdict.statement.name}'
        f"<td>{escape(verdict.statement.says)}<td>{state}{remark}<ul>{items}</ul><td>{verdict.seconds:.1f} s"
    )


def run(statements: list[Statement], workers: str) -> list[Case]:
    """Files are asked for once, however many statements name them."""
    selected_tests = {
        f"tests/{file}::{test}" if test else f"tests/{file}"
        for statement in statements
        for file, test in statement.tests
    }
    whole_files = {test_id for test_id in selected_tests if "::" not in test_id}
    arguments = sorted(
        test_id
        for test_id in selected_tests
        if test_id in whole_files or test_id.partition("::")[0] not in whole_files
    )
    with tempfile.TemporaryDirectory() as directory:
        junit = Path(directory) / "results.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            workers,
            "--maxprocesses",
            "8",
            f"--junitxml={junit}",
        ]
        subprocess.run([*command, *arguments], cwd=ROOT, check=False)
        return results(junit) if junit.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="make trust", description="What is promised, and whether it holds.")
    parser.add_argument("names", nargs="*", metavar="STATEMENT", help="such as R6; all of them without one")
    parser.add_argument("--out", type=Path, default=Path("trust-report.html"))
    parser.add_argument("--workers", default="auto", help="how many tests run at once")
    options = parser.parse_args()
    every = statements()
    if unknown := set(options.names) - {statement.name for statement in every}:
        parser.error(f"docs/security.md makes no statement {', '.join(sorted(unknown))}")
    selected = [statement for statement in every if not options.names or statement.name in options.names]
    cases = run(selected, options.workers)
    verdicts = [judge(statement, cases) for statement in selected]
    options.out.write_text(page(verdicts, datetime.now(UTC)))
    missing = [verdict.statement for verdict in verdicts if not verdict.is_shown]
    for name in missing:
        print(f"not shown: {name.name} {name.says}")
    print(f"{len(verdicts) - len(missing)} of {len(verdicts)} statements are shown: {options.out}")
    return min(len(missing), 1)


if __name__ == "__main__":
    sys.exit(main())
