"""docs/security.md lists what is promised beside the tests that show it; each of them has to be there."""

import ast
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from tests import trust

ROOT = Path(__file__).resolve().parent
STATEMENTS = {"S": 8, "H": 8, "D": 8, "V": 8, "P": 8, "K": 6, "O": 5, "A": 8, "L": 2, "X": 4, "R": 8}
TABLE = {statement.name: statement for statement in trust.statements()}


@cache
def known_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {
        node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_statement_is_listed():
    assert [statement.name for statement in trust.statements()] == [
        f"{letter}{n}" for letter, count in STATEMENTS.items() for n in range(1, count + 1)
    ]


def test_the_tests_behind_a_statement_are_there():
    """A statement without a test has a bold note, and every named test exists."""
    untested = [
        statement_row.name
        for statement_row in TABLE.values()
        if not statement_row.tests and trust.NO_TEST not in statement_row.shown_by
    ]
    assert untested == []
    listed_tests = {
        (statement_row.name, file, test)
        for statement_row in TABLE.values()
        for file, test in statement_row.tests
    }
    missing_tests = [
        (statement, file, test)
        for statement, file, test in sorted(listed_tests)
        if not (ROOT / file).exists()
        or not (test in known_in(ROOT / file) if test else known_in(ROOT / file))
    ]
    assert missing_tests == []


JUNIT = """<testsuites><testsuite>
<testcase classname="tests.faults.test_servers" name="test_a[1]" time="1.5"/>
<testcase classname="tests.faults.test_servers" name="test_a[2]" time="0.5"><failure/></testcase>
<testcase classname="tests.test_canary" name="test_b" time="2.0"/>
<testcase classname="tests.test_canary" name="test_c" time="0"><skipped message="no browser"/></testcase>
</testsuite></testsuites>"""

SHOWN, RED = "Shown", "Not shown"


@pytest.mark.parametrize(
    ("shown_by", "state", "expected_text", "seconds"),
    [
        ("`test_canary.py::test_b`", SHOWN, "1 passed", 2.0),
        ("`test_canary.py::test_b`; and by eye", SHOWN, "and by eye", 2.0),
        ("`faults/test_servers.py::test_a`", RED, "1 failed, 1 passed", 2.0),
        ("`test_canary.py::test_b`, `faults/test_servers.py`", RED, "1 failed, 1 passed", 4.0),
        ("`test_canary.py::test_c`", RED, "1 skipped", 0.0),
        ("`test_canary.py::test_gone`", RED, "not run", 0.0),
        (
            "**not shown**: `test_canary.py::test_b` shows the rule",
            RED,
            "not shown: test_canary.py::test_b shows the rule",
            2.0,
        ),
        ("**no test in the suite**", RED, "no test in the suite", 0.0),
    ],
)
def test_the_report_says_of_each_statement_whether_its_tests_passed(
    tmp_path, shown_by, state, expected_text, seconds
):
    (tmp_path / "junit.xml").write_text(JUNIT)
    statement = trust.Statement("R1", "Nothing is <lost>", shown_by)
    verdict = trust.judge(statement, trust.results(tmp_path / "junit.xml"))
    page = trust.page([verdict], datetime(2026, 11, 21, tzinfo=UTC))
    assert verdict.is_shown == (state == SHOWN)
    assert verdict.seconds == seconds
    assert f">{state}</span>" in page
    assert expected_text in page
    assert ("class=is-red" in page) == (state == RED)
    assert "Nothing is &lt;lost&gt;" in page
    assert "://" not in page, "it needs nothing from elsewhere"
