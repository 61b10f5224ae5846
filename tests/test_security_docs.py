"""docs/security.md lists what is promised beside the tests that show it; each of them has to be there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
STATEMENTS = {"S": 8, "H": 8, "D": 8, "V": 8, "P": 8, "K": 6, "O": 5, "A": 8, "L": 2, "X": 4, "R": 8}
ROW = re.compile(r"^\| ([A-Z]\d) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
TABLE = dict(ROW.findall((ROOT.parent / "docs" / "security.md").read_text()))


@cache
def known_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {
        node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_statement_is_listed():
    assert list(TABLE) == [
        f"{letter}{n}" for letter, count in STATEMENTS.items() for n in range(1, count + 1)
    ]


@pytest.mark.parametrize("statement", TABLE)
def test_the_tests_behind_a_statement_are_there(statement):
    """What has no test says so in bold, and what is named exists."""
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", TABLE[statement])
    assert named or "**" in TABLE[statement]
    for file, test in named:
        assert known_in(ROOT / file), file
        assert not test or test in known_in(ROOT / file), test
