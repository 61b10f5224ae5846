"""The list of what can go wrong in a call, held against the code that makes calls."""

import ast
from pathlib import Path

import pytest

from catalog.rules import call_errors

ROOT = Path(__file__).parents[3]
# The argument that holds the code, by the function that raises or reports it.
PLACES = {
    "UnavailableError": 0,
    "RefusedError": 0,
    "ProtocolViolationError": 0,
    "failed": 1,
    "DomainError": 0,
}
CALLS = (
    *(
        "execution/calls",
        "execution/threads/threads.py",
        "execution/user_grants/context.py",
        "protocols",
        "core/outbound",
    ),
    *("execution/activities/mocks", "execution/activities/mock.py"),
    *("core/strict_json.py", "serving/calls.py", "serving/batches.py"),
    *("serving/api/invoke.py", "serving/api/calls.py", "serving/outputs.py"),
    *("designer/environments/environments.py", "designer/environments/resolution.py"),
)
# Met while lists and documents are read, and while people keep examples, authorize and cancel: in no call.
ELSEWHERE = {
    *("invalid_mock", "mock_schema_unmet"),
    *("BAD_CURSOR", "CURSOR_LOOP", "FOREIGN_NEXT", "NO_PROGRESS", "TOO_MANY_TOOLS", "NAMES_WANTED"),
    "NO_SUBSCRIPTIONS",
    *("NO_TOOL_LIST", "OLD_OPENAPI", "WEBHOOKS_ONLY", "YAML_ALIAS", "YAML_SYNTAX"),
    *("name_taken", "too_many_examples", "call_ended"),
    *("forbidden", "binding_changed", "environment_removed", "environment_is_default"),
    *("too_many_environments", "environment_protected"),
}


def codes(path: Path) -> set[str]:
    codes_found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            value_nodes = node.args[PLACES[name] :][:1] if name in PLACES else []
            codes_found |= {
                value_node.value for value_node in value_nodes if isinstance(value_node, ast.Constant)
            }
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            codes_found |= {
                value.value
                for key, value in pairs
                if isinstance(key, ast.Constant) and key.value == "code" and isinstance(value, ast.Constant)
            }
    return {code for code in codes_found if code}


def test_every_code_of_a_call_is_in_the_list():
    files = [ROOT / place for place in CALLS]
    paths = [path for file in files for path in ([file] if file.is_file() else file.rglob("*.py"))]
    # The servers of protocols refuse requests of runtimes; they send no calls.
    clients = [path for path in paths if "server" not in (path.stem, path.parent.name)]
    codes_found = {code for path in clients for code in codes(path)}
    assert {"DEADLINE", "ARGUMENTS", "no_threads", "SHAPE"} <= codes_found
    assert {code for code in codes_found - ELSEWHERE if not call_errors.is_known(code)} == set()


def test_each_has_a_sentence_and_stands_once():
    codes = [error.code for error in call_errors.PEGBOARD_ERRORS]
    assert len(codes) == len(set(codes))
    assert all(error.description.endswith(".") for error in call_errors.PEGBOARD_ERRORS)


@pytest.mark.parametrize(
    ("code", "is_known"), [("HTTP_503", True), ("HTTP_418", True), ("TOKEN_DNS", True), ("SELDOM", False)]
)
def test_families_of_codes_are_known(code, is_known):
    assert call_errors.is_known(code) is is_known
