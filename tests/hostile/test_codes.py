"""Every code that the product gives is explained once, in words, with what to do about it (H8)."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from django.conf import settings

from catalog.credentials.oauth.token_replies import SENTENCES

ROOT = Path(settings.BASE_DIR)
CODE = re.compile(r"[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*_?")
# A code that no run ends with: a list that was entered by hand is never read twice.
NO_RUN = {"BY_HAND"}
# Functions with a code: their first argument, or their `code` argument.
GIVERS = re.compile(
    r"\w+Error|_fail|note|_note|complain|refused?|_refused|wrong|_wrong|_registration_error|_odd_reply_error|_end|__init__"
)
HEADING = re.compile(r"^#+ (.*)$")


def codes_given(path: Path) -> set[str]:
    """Codes in one module, with a `_` at the end for the beginning of many (`HTTP_`)."""
    codes = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            code_nodes = node.args[:1] if GIVERS.fullmatch(name) else []
            code_nodes += [
                keyword.value for keyword in node.keywords if keyword.arg in ("code", "error_code")
            ]
            is_registering = name == "_registration_error" and path.name == "client_registration.py"
            before = "REGISTRATION_" if is_registering else ""
            codes |= {before + code for code_node in code_nodes for code in _constants(code_node)}
    return codes


def _constants(node: ast.expr) -> set[str]:
    if isinstance(node, ast.IfExp):
        return _constants(node.body) | _constants(node.orelse)
    if isinstance(node, ast.JoinedStr):
        node = node.values[0]
    value = getattr(node, "value", None)
    return {value} if isinstance(value, str) and CODE.fullmatch(value) else set()


MODULES = sorted(
    path
    for folder in ("catalog", "core/outbound")
    for path in (ROOT / folder).rglob("*.py")
    if not {"migrations", "inspection"} & set(path.parts)
)


@cache
def every_one_given() -> dict[str, Path]:
    return {code: path.relative_to(ROOT) for path in MODULES for code in codes_given(path) - NO_RUN}


@cache
def rows() -> list[tuple[str, str, list[str]]]:
    """Document and heading, code, and the other cells of each row of a table that begins with codes."""
    explained_rows = []
    for path in sorted((ROOT / "docs").glob("*.md")):
        heading = ""
        for line in path.read_text().splitlines():
            if heading_match := HEADING.match(line):
                heading = heading_match[1]
            if line.startswith("| `"):
                first, *others = [cell.strip() for cell in line.strip("|").split("|")]
                codes = re.findall(r"`([A-Z][A-Za-z0-9_]+)`", first)
                explained_rows += [(f"{path.name}, {heading}", code, others) for code in codes]
    return explained_rows


RUN, TOKEN = "Why a run failed", "When no token was to be had"


def test_there_are_as_many_as_we_say():
    assert len(every_one_given()) >= 80


def explanations(code: str) -> list[list[str]]:
    return [
        cells
        for _, row_code, cells in rows()
        if row_code == code or (code[-1] == "_" and row_code.startswith(code))
    ]


def test_every_code_is_explained_in_words():
    assert {code: str(path) for code, path in every_one_given().items() if not explanations(code)} == {}
    cells = [cell for code in every_one_given() for cells in explanations(code) for cell in cells]
    assert [cell for cell in cells if len(cell) > 40 and not cell.endswith((".", "…", ":"))] == []


def test_no_table_explains_a_code_twice():
    counts = Counter((where, code) for where, code, _ in rows() if CODE.fullmatch(code))
    assert [code for code, count in counts.items() if count > 1] == []


def test_whatever_ends_a_run_says_what_to_do():
    explanations = {
        code: cells
        for where, code, cells in rows()
        if where == f"protocols.md, {RUN}" or where == f"protocols.md, {TOKEN}"
    }
    assert len(explanations) >= 70
    assert {f"TOKEN_{name.upper()}" for name in SENTENCES} <= explanations.keys()
    assert [code for code, cells in explanations.items() if len(cells) != 2 or not all(cells)] == []
